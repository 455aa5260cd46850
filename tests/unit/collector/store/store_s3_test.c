/* SPDX-License-Identifier: Apache-2.0 */
/*
 * S3: servers that answer as none should; keys of files and of metadata. With PFL_TEST_S3_ENDPOINT,
 * a server of S3 with the bucket "perfleet-test" and the keys S3RVER, or those of the environment
 * (tests/integration/s3_test.sh, s3_radosgw_test.sh), the cases of every engine on it, and large
 * objects. PFL_TEST_S3_SORTS: its lists are in the order of bytes.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "base/io/sha256.h"
#include "collector/store/s3_credentials.h"
#include "collector/store/s3_http.h"
#include "collector/store/store.h"
#include "tests/support/pattern.h"
#include "tests/support/sweep.h"
#include "tests/unit/collector/store/store_cases.h"

#define WATCHDOG_S 240

static pid_t server = -1;
static struct pfl_store *store;

/* -- a played server: one answer a connection -- */

/* Its body comes byte by byte. */
#define SLOW "HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"
/* Its body comes fast, and has no end. */
#define ENDLESS "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
/* A list of a key that is no trace's, which rises with each answer. */
#define RISING "v1/!%06u"

static void send_rising(int fd)
{
    static unsigned number = 0;
    char list[256];
    int len =
        snprintf(list, sizeof(list),
                 "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult><IsTruncated>"
                 "true</IsTruncated><Contents><Key>" RISING "</Key></Contents></ListBucketResult>",
                 ++number);

    (void)send(fd, list, (size_t)len, MSG_NOSIGNAL);
}

static void answer_all(int listener, const char *const answers[])
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned i = 0;;) {
        char request[8192];
        int fd = accept(listener, NULL, NULL);

        if (fd < 0 || recv(fd, request, sizeof(request), 0) < 0)
            _exit(1);
        if (answers[i] == NULL || answers[i][0] == '\0')
            (void)pause(); /* silent */
        if (strcmp(answers[i], RISING) == 0)
            send_rising(fd);
        else
            (void)send(fd, answers[i], strlen(answers[i]), MSG_NOSIGNAL);
        while (strcmp(answers[i], SLOW) == 0 && send(fd, "x", 1, MSG_NOSIGNAL) == 1)
            (void)usleep(50000);
        while (strcmp(answers[i], ENDLESS) == 0 &&
               send(fd, request, sizeof(request), MSG_NOSIGNAL) > 0)
            continue;
        (void)shutdown(fd, SHUT_WR);
        while (recv(fd, request, sizeof(request), 0) > 0)
            continue;
        (void)close(fd);
        if (answers[i + 1] != NULL)
            i++;
    }
}

static void play(const char *const answers[])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char endpoint[64];
    char why[PFL_STORE_WHY_BYTES];
    struct pfl_store_conf conf = {.where = "s3://perfleet-test",
                                  .endpoint = endpoint,
                                  .has_path_style = true,
                                  .staging_dir = "/tmp",
                                  .timeout_s = 1,
                                  .tries = 3};

    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    server = fork();
    if (server == 0)
        answer_all(listener, answers);
    (void)close(listener);
    (void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%u", ntohs(addr.sin_port));
    assert_int_equal(pfl_store_open(&conf, why, &store), 0);
}

static int end(void **state)
{
    (void)state;
    pfl_store_close(store);
    store = NULL;
    if (server > 0) {
        (void)kill(server, SIGKILL);
        (void)waitpid(server, NULL, 0);
    }
    server = -1;
    return 0;
}

#define HEAD_OK  "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"
#define BUSY     "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#define NO_RIGHT "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

static int head(void)
{
    struct pfl_store_object object;

    return pfl_store_head(store, "v1/a", &object);
}

static void a_busy_server_is_asked_again(void **state)
{
    static const char *const answers[] = {BUSY, BUSY, HEAD_OK, NULL};

    (void)state;
    play(answers);
    assert_int_equal(head(), 0);
}

static void a_server_that_stays_busy_is_left_for_later(void **state)
{
    static const char *const answers[] = {BUSY, NULL};

    (void)state;
    play(answers);
    assert_int_equal(head(), PFL_EAGAIN);
    assert_non_null(strstr(pfl_store_get_error(), "503"));
}

static void a_refusal_is_final(void **state)
{
    static const char *const answers[] = {NO_RIGHT, HEAD_OK, NULL};

    (void)state;
    play(answers);
    assert_int_equal(head(), PFL_EPERM);
    assert_non_null(strstr(pfl_store_get_error(), "v1/a: 403"));
}

static void a_silent_server_is_a_timeout(void **state)
{
    static const char *const answers[] = {"", NULL};

    (void)state;
    play(answers);
    assert_int_equal(head(), PFL_EAGAIN);
}

static bool ignore_data(void *user, struct pfl_span bytes)
{
    (void)user;
    (void)bytes;
    return true;
}

static void a_server_that_gives_some_bytes_a_second_is_a_timeout(void **state)
{
    static const char *const answers[] = {SLOW, NULL};
    const struct pfl_store_range all = {0, UINT64_MAX};

    (void)state;
    play(answers);
    (void)alarm(WATCHDOG_S);
    assert_int_equal(pfl_store_get(store, "v1/a", &all, ignore_data, NULL), PFL_EAGAIN);
    (void)alarm(0);
}

static void a_cancelled_store_waits_for_nobody(void **state)
{
    static const char *const answers[] = {"", NULL};

    (void)state;
    play(answers);
    pfl_store_cancel(store);
    assert_int_equal(head(), PFL_EAGAIN);
    assert_non_null(strstr(pfl_store_get_error(), "cancelled"));
}

struct got {
    char bytes[64];
    size_t len;
};

static bool on_data(void *user, struct pfl_span bytes)
{
    struct got *got = user;

    assert_in_range(bytes.len, 0, sizeof(got->bytes) - got->len);
    memcpy(got->bytes + got->len, bytes.data, bytes.len);
    got->len += bytes.len;
    return true;
}

static int get(uint64_t offset, uint64_t length, struct got *got)
{
    const struct pfl_store_range range = {offset, length};

    got->len = 0;
    return pfl_store_get(store, "v1/a", &range, on_data, got);
}

static void half_a_body_is_continued(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 206 P\r\nContent-Length: 10\r\nContent-Range: bytes 0-9/10\r\n\r\n01234", BUSY,
        "HTTP/1.1 206 P\r\nContent-Length: 5\r\nContent-Range: bytes 5-9/10\r\n"
        "Connection: close\r\n\r\n56789",
        NULL};
    struct got got;

    (void)state;
    play(answers);
    assert_int_equal(get(0, UINT64_MAX, &got), 0);
    assert_int_equal(got.len, 10);
    assert_memory_equal(got.bytes, "0123456789", 10);
}

static void another_range_is_refused(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 206 P\r\nContent-Length: 3\r\nContent-Range: bytes 4-6/10\r\n\r\n456", NULL};
    struct got got;

    (void)state;
    play(answers);
    assert_int_equal(get(5, 3, &got), PFL_EIO);
    assert_int_equal(got.len, 0);
}

static void a_server_without_ranges_is_cut(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789", NULL};
    struct got got;

    (void)state;
    play(answers);
    assert_int_equal(get(5, 3, &got), 0);
    assert_int_equal(got.len, 3);
    assert_memory_equal(got.bytes, "567", 3);
}

static void what_follows_a_range_is_not_waited_for(void **state)
{
    static const char *const answers[] = {ENDLESS, NULL};
    struct got got;

    (void)state;
    play(answers);
    (void)alarm(WATCHDOG_S);
    assert_int_equal(get(0, 3, &got), 0);
    assert_int_equal(got.len, 3);
    (void)alarm(0);
}

/* And nothing is deleted: another collector may have stored it, so the next request is ours. */
static void what_a_server_lost_is_not_stored(void **state)
{
    static const char *const answers[] = {OK_EMPTY, HEAD_OK, HEAD_OK,  HEAD_OK, HEAD_OK,
                                          HEAD_OK,  HEAD_OK, OK_EMPTY, HEAD_OK, NULL};
    struct pfl_store_object object = {.bytes = 7};
    struct pfl_store_put *put;

    (void)state;
    play(answers);
    assert_int_equal(pfl_store_put_new(store, &put), 0);
    assert_int_equal(pfl_store_put_all(put, "v1/a", pfl_span_of("12345", 5)), PFL_EIO);
    assert_non_null(strstr(pfl_store_get_error(), "does not have what it took"));
    pfl_store_put_free(put);
    assert_int_equal(pfl_store_head(store, "v1/a", &object), 0);
    assert_int_equal(object.bytes, 0);
}

static int list_all(void)
{
    const struct pfl_store_listing all = {"", ""};
    struct pfl_store_object objects[4];
    size_t len;

    return pfl_store_list(store, &all, objects, 4, &len);
}

static void a_refused_list_names_the_bucket(void **state)
{
    static const char *const answers[] = {"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n"
                                          "<Error><Code>SignatureDoesNotMatch</Code></Error>",
                                          NULL};

    (void)state;
    play(answers);
    assert_int_equal(list_all(), PFL_EPERM);
    assert_string_equal(pfl_store_get_error(), "the bucket: 403 SignatureDoesNotMatch");
}

static void hostile_lists_are_refused(void **state)
{
    static const char bomb[] =
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<!DOCTYPE a [<!ENTITY b "
        "\"bb\">]><ListBucketResult>&b;</ListBucketResult>";
    static const char again[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListBucketResult>"
                                "<IsTruncated>true</IsTruncated></ListBucketResult>";
    static char endless[(1u << 20) + 64] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    static const char *const lists[][2] = {{bomb, NULL}, {again, NULL}, {endless, NULL}};

    memset(endless + strlen(endless), '<', 1u << 20);
    for (size_t i = 0; i < 3; i++) {
        play(lists[i]);
        assert_int_equal(list_all(), PFL_EIO);
        (void)end(state);
    }
}

static int list_below(const char *prefix)
{
    const struct pfl_store_listing what = {prefix, ""};
    struct pfl_store_object objects[4];
    size_t len;

    return pfl_store_list(store, &what, objects, 4, &len);
}

/* Its keys rise, so that it is no list that repeats itself. */
static void a_list_without_end_is_refused(void **state)
{
    static const char *const answers[] = {RISING, NULL};

    (void)state;
    play(answers);
    assert_int_equal(list_below("v1/"), PFL_EIO);
    assert_string_equal(pfl_store_get_error(),
                        "the store's list has too many keys that are no trace's, up to "
                        "\"v1/!000016\": remove them, or use another prefix");
}

static void a_list_with_keys_that_nobody_asked_for_is_refused(void **state)
{
    static const char *const answers[] = {RISING, NULL};

    (void)state;
    play(answers);
    assert_int_equal(list_below("v2/"), PFL_EIO);
    assert_string_equal(pfl_store_get_error(), "the store's list has keys that nobody asked for");
}

/* libcurl keeps them all, also those that follow the body. */
static void fields_without_end_are_refused(void **state)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n23\r\n"
                               "<ListBucketResult/>                \r\n0\r\n";
    static char answer[256u << 10];
    static const char *const answers[] = {answer, NULL};
    size_t len = sizeof(head) - 1;

    (void)state;
    memcpy(answer, head, sizeof(head));
    while (len < 2 * PFL_S3_HEAD_BYTES)
        len += (size_t)snprintf(answer + len, sizeof(answer) - len, "X-Field: %0100zu\r\n", len);
    (void)snprintf(answer + len, sizeof(answer) - len, "\r\n");
    play(answers);
    assert_int_equal(list_all(), PFL_EIO);
    assert_non_null(strstr(pfl_store_get_error(), "the answer is too long"));
}

#define UPLOAD(id) "<Upload><Key>v1/a</Key><UploadId>" id "</UploadId></Upload>"

static void an_upload_that_stays_ends_the_sweep(void **state)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<ListMultipartUploadsResult>" UPLOAD("1")
            UPLOAD("2") UPLOAD("3") "</ListMultipartUploadsResult>",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", NO_RIGHT,
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", NULL};
    unsigned count;

    (void)state;
    play(answers);
    assert_int_equal(pfl_store_sweep(store, 0, &count), PFL_EPERM);
    assert_int_equal(count, 0);
}

static void settings_are_judged(void **state)
{
    static const struct pfl_store_conf bad[] = {
        {.where = "s3://"},
        {.where = "s3://UPPER"},
        {.where = "s3://bucket/../x"},
        {.where = "s3://bucket", .endpoint = "ftp://x"},
        {.where = "s3://bucket", .endpoint = "https://x/y"},
        {.where = "s3://bucket", .encryption = "rot13"},
        {.where = "s3://bucket", .credentials_file = "/nowhere/x"},
    };
    char why[PFL_STORE_WHY_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct pfl_store *none = NULL;

        assert_true(pfl_store_open(&bad[i], why, &none) != 0);
        assert_null(none);
        assert_true(why[0] != '\0');
    }
}

static void keys_are_read_from_a_file(void **state)
{
    struct pfl_s3_credentials keys;
    static const char text[] =
        "[other]\naws_access_key_id=X\n[default]\r\naws_access_key_id = AK \r\n"
        "# no\naws_secret_access_key=SK\naws_session_token=T";

    (void)state;
    assert_int_equal(pfl_s3_credentials_parse(&keys, text, "default"), 0);
    assert_string_equal(keys.id, "AK");
    assert_string_equal(keys.secret, "SK");
    assert_string_equal(keys.token, "T");
    assert_int_equal(pfl_s3_credentials_parse(&keys, text, "other"), PFL_ENOENT);
    assert_int_equal(pfl_s3_credentials_parse(&keys, text, "none"), PFL_ENOENT);
}

static void keys_are_read_from_metadata(void **state)
{
    struct pfl_s3_credentials keys;
    static const char text[] = "{\n\"Code\" : \"Success\", \"AccessKeyId\" : \"AK\",\n"
                               "\"SecretAccessKey\" : \"S\\/K\", \"Token\":\"T\", "
                               "\"Expiration\" : \"2026-11-23T11:11:36Z\"}";
    char cut[sizeof(text)];

    (void)state;
    assert_int_equal(pfl_s3_credentials_parse_json(&keys, text), 0);
    assert_string_equal(keys.id, "AK");
    assert_string_equal(keys.secret, "S/K");
    assert_int_equal(keys.end, 1795432296);
    for (size_t len = 0; len < sizeof(text) - 4; len++) {
        memcpy(cut, text, len);
        cut[len] = '\0';
        assert_int_equal(pfl_s3_credentials_parse_json(&keys, cut), PFL_EPARSE);
    }
}

/* -- a server of S3 -- */

static int open_real(const char *where, struct pfl_store **ret_store)
{
    char why[PFL_STORE_WHY_BYTES];
    const struct pfl_store_conf conf = {.where = where,
                                        .endpoint = getenv("PFL_TEST_S3_ENDPOINT"),
                                        .has_path_style = true,
                                        .staging_dir = "/tmp"};
    int rc = pfl_store_open(&conf, why, ret_store);

    if (rc != 0)
        fprintf(stderr, "%s\n", why);
    return rc;
}

#define LARGE UINT64_C(140000003) /* three parts */

static bool count_data(void *user, struct pfl_span bytes)
{
    uint64_t *at = user;

    assert_true(pfl_pattern_is(*at, bytes.data, bytes.len));
    *at += bytes.len;
    return true;
}

static void a_large_object_is_sent_in_parts(void **state)
{
    const struct pfl_store_range range = {1000, UINT64_MAX};
    struct pfl_sha256 *sha256;
    struct pfl_store_put *put;
    uint8_t hash[PFL_STORE_SHA_BYTES];
    uint64_t at = 1000;

    (void)state;
    assert_int_equal(pfl_sha256_new(&sha256), 0);
    for (int i = 0; i < 2; i++) {
        for (uint64_t done = 0; done < LARGE; done += 500000) {
            size_t len = LARGE - done < 500000 ? (size_t)(LARGE - done) : 500000;
            struct pfl_span piece = pfl_span_of(pfl_pattern_get(done), len);

            if (i == 0)
                pfl_sha256_add(sha256, piece);
            else
                assert_int_equal(pfl_store_put_write(put, piece), 0);
        }
        if (i == 0) {
            assert_int_equal(pfl_sha256_end(sha256, hash), 0);
            assert_int_equal(pfl_store_put_new(store, &put), 0);
            assert_int_equal(pfl_store_put_begin(put, "v1/large", LARGE, hash), 0);
        }
    }
    assert_int_equal(pfl_store_put_commit(put), 0);
    pfl_store_put_free(put);
    pfl_sha256_free(sha256);
    assert_int_equal(pfl_store_get(store, "v1/large", &range, count_data, &at), 0);
    assert_int_equal(at, LARGE);
    assert_int_equal(pfl_store_delete(store, "v1/large"), 0);
}

static size_t take_link(char *data, size_t size, size_t count, void *user)
{
    return on_data(user, pfl_span_of(data, size * count)) ? size * count : 0;
}

static void a_presigned_link_opens_the_object(void **state)
{
    struct pfl_store_put *put;
    char url[PFL_STORE_URL_BYTES];
    struct got got = {.len = 0};
    CURL *curl = curl_easy_init();

    (void)state;
    assert_int_equal(pfl_store_put_new(store, &put), 0);
    assert_int_equal(pfl_store_put_all(put, "v1/a=b+c@d%20~", pfl_span_of("hello", 5)), 0);
    pfl_store_put_free(put);
    assert_int_equal(pfl_store_presign(store, "v1/a=b+c@d%20~", 60, url, sizeof(url)), 0);
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_URL, url), CURLE_OK);
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_link), CURLE_OK);
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_WRITEDATA, &got), CURLE_OK);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    curl_easy_cleanup(curl);
    assert_int_equal(got.len, 5);
    assert_memory_equal(got.bytes, "hello", 5);
    assert_int_equal(pfl_store_delete(store, "v1/a=b+c@d%20~"), 0);
    assert_int_equal(pfl_store_presign(store, "v1/a", 60, url, 20), PFL_ELIMIT);
}

static int run_real(void)
{
    bool sorts_by_bytes = getenv("PFL_TEST_S3_SORTS") != NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_object_is_sent_in_parts),
        cmocka_unit_test(a_presigned_link_opens_the_object),
    };
    int failed;

    if (open_real("s3://perfleet-test", &store) != 0)
        return 1;
    failed = store_cases_run("every engine: S3", store, sorts_by_bytes);
    failed += cmocka_run_group_tests_name("S3", tests, NULL, NULL);
    pfl_store_close(store);
    if (open_real("s3://perfleet-test/some/where", &store) != 0)
        return 1;
    failed += store_cases_run("every engine: S3 below a prefix", store, sorts_by_bytes);
    pfl_store_close(store);
    return failed;
}

#define CASE(f) cmocka_unit_test_teardown(f, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_busy_server_is_asked_again),
        CASE(a_server_that_stays_busy_is_left_for_later),
        CASE(a_refusal_is_final),
        CASE(a_silent_server_is_a_timeout),
        CASE(a_server_that_gives_some_bytes_a_second_is_a_timeout),
        CASE(a_cancelled_store_waits_for_nobody),
        CASE(half_a_body_is_continued),
        CASE(another_range_is_refused),
        CASE(a_server_without_ranges_is_cut),
        CASE(what_follows_a_range_is_not_waited_for),
        CASE(what_a_server_lost_is_not_stored),
        CASE(a_refused_list_names_the_bucket),
        CASE(hostile_lists_are_refused),
        CASE(a_list_without_end_is_refused),
        CASE(a_list_with_keys_that_nobody_asked_for_is_refused),
        CASE(fields_without_end_are_refused),
        CASE(an_upload_that_stays_ends_the_sweep),
        cmocka_unit_test(settings_are_judged),
        cmocka_unit_test(keys_are_read_from_a_file),
        cmocka_unit_test(keys_are_read_from_metadata),
    };
    int failed;

    (void)setenv("AWS_ACCESS_KEY_ID", "S3RVER", 0);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "S3RVER", 0);
    (void)unsetenv("http_proxy");
    failed = getenv("PFL_TEST_S3_ENDPOINT") != NULL ? run_real()
                                                    : cmocka_run_group_tests(tests, NULL, NULL);
    pfl_sweep_assert_no_leak();
    return failed;
}
