/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to S3: the host that is signed. With PFL_TEST_S3_ENDPOINT, a server that judges
 * signatures (tests/integration/s3_radosgw_test.sh): what it takes and what it refuses. It has the
 * buckets perfleet-test and perfleet-small, which holds 10 MB, and a key for KMS, "testkey-1".
 */
#include "collector/store/s3_http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "base/io/sha256.h"
#include "collector/store/store.h"
#include "tests/support/pattern.h"
#include "tests/support/sweep.h"

#define BUCKET "s3://perfleet-test"
#define LARGE  UINT64_C(70000001) /* two parts */

/* -- the host that is signed -- */

static void link_begins_with(const char *endpoint, bool has_path_style, const char *expected)
{
    const struct pfl_store_conf conf = {.where = "s3://bucket/some",
                                        .endpoint = endpoint,
                                        .has_path_style = has_path_style,
                                        .region = "eu-central-1"};
    struct pfl_s3_http *http;
    char url[PFL_STORE_URL_BYTES];

    assert_int_equal(pfl_s3_http_new(&conf, &http), 0);
    assert_int_equal(pfl_s3_http_presign(http, "v1/a", 60, url, sizeof(url)), 0);
    url[strcspn(url, "?")] = '\0';
    assert_string_equal(url, expected);
    pfl_s3_http_free(http);
}

/* As browsers and libcurl write the header: else a server computes another signature. */
static void the_signed_host_is_the_one_that_clients_send(void **state)
{
    (void)state;
    link_begins_with(NULL, false, "https://bucket.s3.eu-central-1.amazonaws.com/some/v1/a");
    link_begins_with("https://x.example:443", false, "https://bucket.x.example/some/v1/a");
    link_begins_with("http://x.example:80", true, "http://x.example/bucket/some/v1/a");
    link_begins_with("http://x.example:443", true, "http://x.example:443/bucket/some/v1/a");
    link_begins_with("https://x.example:80", true, "https://x.example:80/bucket/some/v1/a");
    link_begins_with("https://X.Example:09000", true, "https://x.example:9000/bucket/some/v1/a");
    link_begins_with("https://[::1]", true, "https://[::1]/bucket/some/v1/a");
    link_begins_with("https://[::1]:443", true, "https://[::1]/bucket/some/v1/a");
    link_begins_with("https://[FE80::1]:4430", true, "https://[fe80::1]:4430/bucket/some/v1/a");
}

/* -- a server that judges -- */

static bool has_path_style;
static struct pfl_s3_http *http;

static struct pfl_store_conf conf_of(const char *where)
{
    return (struct pfl_store_conf){.where = where,
                                   .endpoint = getenv("PFL_TEST_S3_ENDPOINT"),
                                   .has_path_style = has_path_style,
                                   .staging_dir = "/tmp"};
}

static int begin(void **state)
{
    const struct pfl_store_conf conf = conf_of(BUCKET);

    (void)state;
    return pfl_s3_http_new(&conf, &http);
}

static int end(void **state)
{
    (void)state;
    pfl_s3_http_free(http);
    http = NULL;
    return 0;
}

static struct pfl_store *open_store(const struct pfl_store_conf *conf)
{
    struct pfl_store *store = NULL;
    char why[PFL_STORE_WHY_BYTES];

    assert_int_equal(pfl_store_open(conf, why, &store), 0);
    return store;
}

struct answer {
    char text[4096];
    long status;
};

static int run(struct pfl_s3_call *call, struct answer *ret)
{
    struct pfl_s3_connection *connection = pfl_s3_http_take(http);
    int rc = pfl_s3_http_run(http, connection, call);
    struct pfl_span span = pfl_s3_connection_get_answer(connection);

    (void)snprintf(ret->text, sizeof(ret->text), "%.*s", (int)span.len, (const char *)span.data);
    ret->status = call->status;
    pfl_s3_http_give(http, connection);
    return rc;
}

/* `hashed`: of which the SHA-256 is promised. */
static int put_hashed(const char *key, const char *body, const char *hashed)
{
    char hex[PFL_SIGV4_HEX_BYTES];
    struct pfl_s3_call call = {
        .method = "PUT", .key = key, .body = body, .body_len = strlen(body), .sha256 = hex};
    struct pfl_sigv4 *sigv4;
    struct answer answer;

    assert_int_equal(pfl_sigv4_new(&sigv4), 0);
    assert_int_equal(pfl_sigv4_hash(sigv4, pfl_span_of(hashed, strlen(hashed)), hex), 0);
    pfl_sigv4_free(sigv4);
    return run(&call, &answer);
}

static int call_for(const char *method, const char *key, struct answer *ret)
{
    struct pfl_s3_call call = {.method = method, .key = key};

    return run(&call, ret);
}

static void list_with(const char *prefix, struct answer *ret)
{
    struct pfl_s3_call call = {
        .method = "GET", .key = "", .query = {{"list-type", "2"}, {"prefix", prefix}}};

    call.query_len = 2;
    assert_int_equal(run(&call, ret), 0);
}

static size_t take_page(char *data, size_t size, size_t count, void *user)
{
    struct answer *answer = user;
    size_t len = strlen(answer->text);

    (void)snprintf(answer->text + len, sizeof(answer->text) - len, "%.*s", (int)(size * count),
                   data);
    return size * count;
}

/* As who has the link and nothing else. */
static void open_link(const char *url, struct answer *ret)
{
    CURL *curl = curl_easy_init();

    ret->text[0] = '\0';
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_URL, url), CURLE_OK);
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_page), CURLE_OK);
    assert_int_equal(curl_easy_setopt(curl, CURLOPT_WRITEDATA, ret), CURLE_OK);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &ret->status);
    curl_easy_cleanup(curl);
}

static void a_key_can_be_used(const char *key)
{
    struct answer answer;
    char url[PFL_STORE_URL_BYTES];

    assert_int_equal(put_hashed(key, key, key), 0);
    assert_int_equal(call_for("HEAD", key, &answer), 0);
    assert_int_equal(call_for("GET", key, &answer), 0);
    assert_string_equal(answer.text, key);
    assert_int_equal(pfl_s3_http_presign(http, key, 60, url, sizeof(url)), 0);
    open_link(url, &answer);
    assert_string_equal(answer.text, key);
    list_with(key, &answer);
    assert_non_null(strstr(answer.text, "<Contents>"));
    assert_int_equal(call_for("DELETE", key, &answer), 0);
    assert_int_equal(call_for("HEAD", key, &answer), PFL_ENOENT);
}

/* More than the keys of a store have: names of hosts and prefixes come from people. */
static void each_character_of_a_key_is_signed(void **state)
{
    static const char *const keys[] = {"v1/a b",
                                       "v1/a+b",
                                       "v1/a%b",
                                       "v1/a%20b",
                                       "v1/a%2Fb%2fc",
                                       "v1/a=b",
                                       "v1/a&b=c?d#e;f:g,h",
                                       "v1/'\"!*()[]{}|\\^`<>$@~-._",
                                       "v1/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                                       "v1/ leading and trailing ",
                                       "v1/a../b.",
                                       "v1/a//b"};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        a_key_can_be_used(keys[i]);
}

static void a_call_with_these_keys_is_refused(const char *id, const char *secret, const char *code)
{
    char right_id[PFL_S3_CONNECTIONS * 16];
    char right_secret[sizeof(right_id)];
    struct answer answer;

    (void)snprintf(right_id, sizeof(right_id), "%s", getenv("AWS_ACCESS_KEY_ID"));
    (void)snprintf(right_secret, sizeof(right_secret), "%s", getenv("AWS_SECRET_ACCESS_KEY"));
    (void)setenv("AWS_ACCESS_KEY_ID", id != NULL ? id : right_id, 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", secret, 1);
    (void)end(NULL);
    assert_int_equal(begin(NULL), 0);
    (void)setenv("AWS_ACCESS_KEY_ID", right_id, 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", right_secret, 1);
    assert_int_equal(put_hashed("v1/a", "a", "a"), PFL_EPERM);
    assert_non_null(strstr(pfl_store_get_error(), code));
    assert_int_equal(call_for("GET", "v1/a", &answer), PFL_EPERM);
    assert_non_null(strstr(pfl_store_get_error(), code));
    assert_int_equal(call_for("HEAD", "v1/a", &answer), PFL_EPERM);
    assert_non_null(strstr(pfl_store_get_error(), "403"));
}

static void other_keys_are_refused(void **state)
{
    (void)state;
    a_call_with_these_keys_is_refused(NULL, "wrong", "403 SignatureDoesNotMatch");
    a_call_with_these_keys_is_refused("NOBODY", "wrong", "403 InvalidAccessKeyId");
}

static void another_body_than_was_signed_is_refused(void **state)
{
    struct answer answer;

    (void)state;
    assert_int_equal(put_hashed("v1/a", "what came", "what went"), PFL_EIO);
    assert_non_null(strstr(pfl_store_get_error(), "XAmzContentSHA256Mismatch"));
    assert_int_equal(call_for("HEAD", "v1/a", &answer), PFL_ENOENT);
}

static void a_region_of_another_name_is_signed(void **state)
{
    struct pfl_store_conf conf = conf_of(BUCKET);

    conf.region = "eu-central-1";
    (void)end(state);
    assert_int_equal(pfl_s3_http_new(&conf, &http), 0);
    a_key_can_be_used("v1/a");
}

static void a_link_is_for_one_object_and_a_time(void **state)
{
    struct answer answer;
    char url[PFL_STORE_URL_BYTES];

    (void)state;
    assert_int_equal(put_hashed("v1/a", "a", "a"), 0);
    assert_int_equal(put_hashed("v1/b", "b", "b"), 0);
    assert_int_equal(pfl_s3_http_presign(http, "v1/a", 60, url, sizeof(url)), 0);
    *(strstr(url, "v1/a") + 3) = 'b';
    open_link(url, &answer);
    assert_int_equal(answer.status, 403);
    assert_int_equal(pfl_s3_http_presign(http, "v1/a", 1, url, sizeof(url)), 0);
    for (int i = 0; i < 600; i++) {
        open_link(url, &answer);
        if (answer.status != 200)
            break;
        (void)usleep(100000);
    }
    assert_int_equal(answer.status, 403);
    assert_int_equal(call_for("DELETE", "v1/a", &answer), 0);
    assert_int_equal(call_for("DELETE", "v1/b", &answer), 0);
}

/* -- uploads that do not end -- */

static void begin_upload(const char *key)
{
    struct pfl_s3_call call = {.method = "POST", .key = key, .query = {{"uploads", ""}}};
    struct answer answer;

    call.query_len = 1;
    assert_int_equal(run(&call, &answer), 0);
    assert_non_null(strstr(answer.text, "<UploadId>"));
}

static unsigned sweep(const char *where, int64_t age_s)
{
    const struct pfl_store_conf conf = conf_of(where);
    struct pfl_store *store = open_store(&conf);
    unsigned count = 0;

    assert_int_equal(pfl_store_sweep(store, age_s, &count), 0);
    pfl_store_close(store);
    return count;
}

static void uploads_that_nobody_ends_are_swept(void **state)
{
    (void)state;
    begin_upload("some/where/v1/a=b+c@d%20~");
    begin_upload("v1/b");
    assert_int_equal(sweep(BUCKET, 3600), 0);
    assert_int_equal(sweep(BUCKET "/some/where", -60), 1);
    assert_int_equal(sweep(BUCKET, -60), 1);
    assert_int_equal(sweep(BUCKET, -60), 0);
}

static int put_pattern(struct pfl_store *store, const char *key, uint64_t bytes)
{
    struct pfl_sha256 *sha256;
    struct pfl_store_put *put;
    uint8_t hash[PFL_STORE_SHA_BYTES];
    int rc = 0;

    assert_int_equal(pfl_sha256_new(&sha256), 0);
    for (uint64_t at = 0; at < bytes; at += 500000)
        pfl_sha256_add(sha256, pfl_span_of(pfl_pattern_get(at),
                                           bytes - at < 500000 ? (size_t)(bytes - at) : 500000));
    assert_int_equal(pfl_sha256_end(sha256, hash), 0);
    pfl_sha256_free(sha256);
    assert_int_equal(pfl_store_put_new(store, &put), 0);
    assert_int_equal(pfl_store_put_begin(put, key, bytes, hash), 0);
    for (uint64_t at = 0; at < bytes; at += 500000)
        assert_int_equal(pfl_store_put_write(
                             put, pfl_span_of(pfl_pattern_get(at),
                                              bytes - at < 500000 ? (size_t)(bytes - at) : 500000)),
                         0);
    rc = pfl_store_put_commit(put);
    pfl_store_put_free(put);
    return rc;
}

static void an_upload_that_finds_no_room_is_aborted(void **state)
{
    const struct pfl_store_conf conf = conf_of("s3://perfleet-small");
    struct pfl_store *store = open_store(&conf);
    struct pfl_store_object object;
    unsigned count = 0;

    (void)state;
    assert_int_equal(put_pattern(store, "v1/a", LARGE), PFL_EFULL);
    assert_non_null(strstr(pfl_store_get_error(), "QuotaExceeded"));
    assert_int_equal(pfl_store_head(store, "v1/a", &object), PFL_ENOENT);
    assert_int_equal(pfl_store_sweep(store, -60, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(put_pattern(store, "v1/a", 1000), 0);
    assert_int_equal(pfl_store_delete(store, "v1/a"), 0);
    pfl_store_close(store);
}

static bool count_data(void *user, struct pfl_span bytes)
{
    uint64_t *at = user;

    assert_true(pfl_pattern_is(*at, bytes.data, bytes.len));
    *at += bytes.len;
    return true;
}

/* Its key's name is one of the signed headers. */
static void an_object_is_encrypted_where_the_settings_say_so(void **state)
{
    static const uint64_t sizes[] = {100001, LARGE};
    struct pfl_store_conf conf = conf_of(BUCKET);
    const struct pfl_store_range all = {0, UINT64_MAX};
    struct pfl_store *store;

    (void)state;
    conf.encryption = "aws:kms:testkey-1";
    store = open_store(&conf);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t at = 0;

        assert_int_equal(put_pattern(store, "v1/a", sizes[i]), 0);
        assert_int_equal(pfl_store_get(store, "v1/a", &all, count_data, &at), 0);
        assert_int_equal(at, sizes[i]);
    }
    assert_int_equal(pfl_store_delete(store, "v1/a"), 0);
    pfl_store_close(store);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

static int run_real(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_character_of_a_key_is_signed),
        CASE(other_keys_are_refused),
        CASE(another_body_than_was_signed_is_refused),
        CASE(a_region_of_another_name_is_signed),
        CASE(a_link_is_for_one_object_and_a_time),
        CASE(uploads_that_nobody_ends_are_swept),
        CASE(an_upload_that_finds_no_room_is_aborted),
        CASE(an_object_is_encrypted_where_the_settings_say_so),
    };
    int failed;

    has_path_style = true;
    failed = cmocka_run_group_tests_name("the bucket in the path", tests, NULL, NULL);
    has_path_style = false;
    return failed + cmocka_run_group_tests_name("the bucket in the host's name", tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_signed_host_is_the_one_that_clients_send),
    };
    int failed;

    (void)setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE", 0);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", 0);
    (void)unsetenv("AWS_ENDPOINT_URL");
    (void)unsetenv("http_proxy");
    failed = getenv("PFL_TEST_S3_ENDPOINT") != NULL ? run_real()
                                                    : cmocka_run_group_tests(tests, NULL, NULL);
    pfl_sweep_assert_no_leak();
    return failed;
}
