/* SPDX-License-Identifier: Apache-2.0 */
/* Getting a first certificate: the key, its proof, the answer's judgement, and whom it asks. */
#include "base/io/enroll.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <mbedtls/md.h>
#include <mbedtls/x509_crt.h>

#include "base/io/loop.h"
#include "base/io/tls_stream.h"
#include "tests/support/sweep.h"
#include "tests/unit/base/io/pki.h"

#define URI        "perfleet://lab/host/new"
#define QUESTION   "may I?"
#define ANSWER     "you may"
#define TIMEOUT_MS 60000u
#define FILE_MAX   16384u

extern char **environ;

static uint8_t ca_sha256[PFL_ENROLL_HASH_BYTES];
static uint8_t other_sha256[PFL_ENROLL_HASH_BYTES];

static void run_shell(const char *script)
{
    char where[128];
    char *argv[] = {"sh", "-ec", (char *)(uintptr_t)script, "sh", where, NULL};
    pid_t pid;
    int status = -1;

    (void)snprintf(where, sizeof(where), "%s", pki_path("."));
    assert_int_equal(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void read_file(const char *name, char ret_text[FILE_MAX])
{
    FILE *f = fopen(pki_path(name), "r");
    size_t len;

    assert_non_null(f);
    len = fread(ret_text, 1, FILE_MAX - 1, f);
    ret_text[len] = '\0';
    assert_int_equal(fclose(f), 0);
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(pki_path(name), "w");

    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void read_fingerprint(const char *name, uint8_t ret_sha256[PFL_ENROLL_HASH_BYTES])
{
    mbedtls_x509_crt crt;

    mbedtls_x509_crt_init(&crt);
    assert_int_equal(mbedtls_x509_crt_parse_file(&crt, pki_path(name)), 0);
    assert_int_equal(mbedtls_md(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), crt.raw.p,
                                crt.raw.len, ret_sha256),
                     0);
    mbedtls_x509_crt_free(&crt);
}

static int group_set_up(void **state)
{
    int rc = pki_setup(state);

    read_fingerprint("ca.pem", ca_sha256);
    read_fingerprint("other/ca.pem", other_sha256);
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_enroll *make(void)
{
    struct pfl_enroll *e;

    assert_int_equal(pfl_enroll_new(&e), 0);
    return e;
}

/* ---- the key and its request ---- */

static void every_key_is_another_and_makes_a_request_that_openssl_takes(void **state)
{
    char keys[2][PFL_ENROLL_PEM_MAX];
    char request[PFL_ENROLL_PEM_MAX];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pfl_enroll *e = make();

        assert_int_equal(pfl_enroll_get_key(e, keys[i]), 0);
        assert_int_equal(pfl_enroll_get_request(e, "new", request), 0);
        pfl_enroll_free(e);
    }
    assert_string_not_equal(keys[0], keys[1]);
    write_file("req.pem", request);
    run_shell("openssl req -in $1/req.pem -noout -verify -subject 2>&1 | grep -qE 'CN ?= ?new'");
}

static int make_one(void *arg)
{
    struct pfl_enroll *e;
    int rc = pfl_enroll_new(&e);

    (void)arg;
    if (rc == 0)
        pfl_enroll_free(e);
    return rc;
}

static void without_memory_there_is_no_key_and_nothing_is_left(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
    pfl_enroll_free(NULL);
}

/* RFC 4231, test case 2. */
static void the_proof_is_hmac_sha_256(void **state)
{
    static const uint8_t expected[] = {0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e,
                                       0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75, 0xc7,
                                       0x5a, 0x00, 0x3f, 0x08, 0x9d, 0x27, 0x39, 0x83,
                                       0x9d, 0xec, 0x58, 0xb9, 0x64, 0xec, 0x38, 0x43};
    uint8_t mac[PFL_ENROLL_HASH_BYTES];

    (void)state;
    assert_int_equal(pfl_enroll_prove(pfl_span_of("Jefe", 4),
                                      pfl_span_of("what do ya want for nothing?", 28), mac),
                     0);
    assert_memory_equal(mac, expected, sizeof(mac));
}

/* ---- the answer ---- */

/* Signs the request of `e` with the fleet's authority: $1/mine.pem, and the chain. */
static void sign(struct pfl_enroll *e, char ret_chain[FILE_MAX])
{
    char request[PFL_ENROLL_PEM_MAX];

    assert_int_equal(pfl_enroll_get_request(e, "new", request), 0);
    write_file("req.pem", request);
    write_file("ext", "subjectAltName=URI:" URI "\nbasicConstraints=CA:FALSE\n");
    run_shell(
        "openssl x509 -req -in $1/req.pem -CA $1/ca.pem -CAkey $1/ca.key -set_serial 99 -days 2 "
        "-extfile $1/ext -out $1/mine.pem 2>/dev/null; cat $1/mine.pem $1/ca.pem >$1/chain.pem");
    read_file("chain.pem", ret_chain);
}

static void a_certificate_for_our_key_name_and_authority_is_taken(void **state)
{
    struct pfl_enroll *e = make();
    char chain[FILE_MAX];

    (void)state;
    sign(e, chain);
    assert_int_equal(pfl_enroll_check(e, chain, ca_sha256, URI), 0);
    assert_string_equal(pfl_enroll_get_error(e), "");
    pfl_enroll_free(e);
}

static void expect_refusal(struct pfl_enroll *e, const char *chain, const uint8_t *sha256,
                           const char *uri, const char *why)
{
    assert_int_equal(pfl_enroll_check(e, chain, sha256, uri), PFL_ETLS);
    if (strstr(pfl_enroll_get_error(e), why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", pfl_enroll_get_error(e), why);
}

static void any_other_certificate_is_refused_with_the_reason(void **state)
{
    struct pfl_enroll *e = make();
    struct pfl_enroll *other = make();
    char chain[FILE_MAX];
    char text[FILE_MAX];

    (void)state;
    sign(e, chain);
    expect_refusal(e, chain, ca_sha256, "perfleet://lab/host/ne", "another name");
    expect_refusal(other, chain, ca_sha256, URI, "another key");
    expect_refusal(e, chain, other_sha256, URI, "authority is not the one");
    expect_refusal(e, "", ca_sha256, URI, "no certificates");
    expect_refusal(e, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ca_sha256,
                   URI, "no certificates");
    run_shell("cat $1/mine.pem $1/ca.pem $1/other/ca.pem >$1/more.pem");
    read_file("more.pem", text);
    expect_refusal(e, text, ca_sha256, URI, "other certificates than ours and the authority's");
    run_shell("cat $1/mine.pem $1/other/ca.pem $1/ca.pem >$1/more.pem");
    read_file("more.pem", text);
    expect_refusal(e, text, ca_sha256, URI, "other certificates than ours and the authority's");
    read_file("mine.pem", text); /* the authority's is missing */
    expect_refusal(e, text, ca_sha256, URI, "authority is not the one");
    pfl_enroll_free(other);
    pfl_enroll_free(e);
}

static void
a_certificate_that_another_authority_signed_is_refused_beside_the_right_one(void **state)
{
    struct pfl_enroll *e = make();
    char chain[FILE_MAX];

    (void)state;
    sign(e, chain);
    run_shell("openssl x509 -req -in $1/req.pem -CA $1/other/ca.pem -CAkey $1/other/ca.key "
              "-set_serial 98 "
              "-days 2 -extfile $1/ext -out $1/forged.pem 2>/dev/null; cat $1/forged.pem $1/ca.pem "
              ">$1/chain.pem");
    read_file("chain.pem", chain);
    expect_refusal(e, chain, ca_sha256, URI, "not of the authority that the token names");
    pfl_enroll_free(e);
}

static void one_that_is_over_is_refused_with_a_word_about_clocks(void **state)
{
    struct pfl_enroll *e = make();
    char chain[FILE_MAX];

    (void)state;
    sign(e, chain);
    /* openssl ca, since openssl 3.4 refuses x509 -days -1 */
    run_shell("mkdir -p $1/past; : >$1/past/index; printf '%s\\n' '[ca]' default_ca=d '[d]' "
              "database=$1/past/index new_certs_dir=$1/past rand_serial=yes default_md=sha256 "
              "policy=p '[p]' commonName=supplied >$1/past/ca.cnf; openssl ca -batch -notext "
              "-config $1/past/ca.cnf -in $1/req.pem -cert $1/ca.pem -keyfile $1/ca.key "
              "-startdate 20200101000000Z -enddate 20200201000000Z -extfile $1/ext "
              "-out $1/over.pem 2>/dev/null; cat $1/over.pem $1/ca.pem >$1/chain.pem");
    read_file("chain.pem", chain);
    expect_refusal(e, chain, ca_sha256, URI, "not valid now");
    pfl_enroll_free(e);
}

/* ---- the server, in a process of its own: one connection ---- */

enum manner { ANSWERS, FLOODS, HANGS_UP };

static struct {
    uv_loop_t loop;
    struct pfl_stream *stream;
    enum manner manner;
    bool was_asked;
} server;

static void on_data(void *user, struct pfl_span data)
{
    static uint8_t flood[65536];
    struct iovec iov = {.iov_base = (void *)(uintptr_t)ANSWER, .iov_len = sizeof(ANSWER) - 1};

    (void)user;
    server.was_asked = data.len == sizeof(QUESTION) - 1;
    if (server.manner == HANGS_UP) {
        pfl_stream_close(server.stream);
        return;
    }
    if (server.manner == FLOODS)
        iov = (struct iovec){flood, sizeof(flood)};
    (void)!pfl_stream_writev(server.stream, &iov, 1, -1);
    pfl_stream_close_after_flush(server.stream, TIMEOUT_MS);
}

static void on_eof(void *user)
{
    (void)user;
    pfl_stream_close(server.stream);
}

static void on_closed(void *user, int err)
{
    (void)user;
    (void)err;
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_eof = on_eof, .on_closed = on_closed};

/* Exits with 0 when it was asked, else with 3. */
static void serve(int listener)
{
    const struct pfl_stream_conf stream = {
        .loop = &server.loop, .ops = &ops, .queue_max_bytes = 1 << 20};
    struct pfl_tls_handshake handshake = {.timeout_ms = TIMEOUT_MS};
    struct pfl_tls_files files = {.is_server = true, .is_enrolling = true};
    char paths[3][128];
    char why[256];
    int fd;

    (void)snprintf(paths[0], sizeof(paths[0]), "%s", pki_path("ca.pem"));
    (void)snprintf(paths[1], sizeof(paths[1]), "%s", pki_path("host-a.pem"));
    (void)snprintf(paths[2], sizeof(paths[2]), "%s", pki_path("host-a.key"));
    files.ca_path = paths[0];
    files.cert_path = paths[1];
    files.key_path = paths[2];
    if (pfl_loop_init(&server.loop) != 0 ||
        pfl_tls_conf_new(&files, why, sizeof(why), &handshake.conf) != 0)
        _exit(2);
    fd = accept(listener, NULL, NULL);
    if (fd < 0 || pfl_tls_stream_open(&stream, &handshake, fd, &server.stream) != 0)
        _exit(2);
    (void)uv_run(&server.loop, UV_RUN_DEFAULT);
    _exit(server.was_asked ? 0 : 3);
}

struct conversation {
    int rc;
    int server_code;
    char why[256];
    struct pfl_buf answer;
};

static void ask(const uint8_t *sha256, const char *uri_prefix, enum manner manner,
                struct conversation *ret)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pfl_enroll *e = make();
    struct pfl_enroll_server to = {.host = "127.0.0.1",
                                   .ca_sha256 = sha256,
                                   .uri_prefix = uri_prefix,
                                   .timeout_ms = TIMEOUT_MS};
    char port[16];
    int status;
    pid_t pid;

    assert_int_equal(bind(listener, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&in, &len), 0);
    assert_int_equal(listen(listener, 1), 0);
    (void)snprintf(port, sizeof(port), "%u", ntohs(in.sin_port));
    to.port = port;
    server.manner = manner;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        serve(listener);
    (void)close(listener);
    pfl_buf_init(&ret->answer, 4096);
    ret->rc = pfl_enroll_ask(e, &to, pfl_span_of(QUESTION, sizeof(QUESTION) - 1), &ret->answer);
    (void)snprintf(ret->why, sizeof(ret->why), "%s", pfl_enroll_get_error(e));
    pfl_enroll_free(e);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    ret->server_code = WEXITSTATUS(status);
}

static void a_server_of_the_authority_is_asked_and_its_answer_read_to_the_end(void **state)
{
    struct conversation c;

    (void)state;
    ask(ca_sha256, "perfleet://lab/host/", ANSWERS, &c);
    assert_int_equal(c.rc, 0);
    assert_int_equal(c.server_code, 0);
    assert_int_equal(c.answer.len, sizeof(ANSWER) - 1);
    assert_memory_equal(pfl_buf_get(&c.answer).data, ANSWER, sizeof(ANSWER) - 1);
    pfl_buf_fini(&c.answer);
}

static void a_server_of_another_authority_or_kind_is_reported_nothing(void **state)
{
    struct conversation c;

    (void)state;
    ask(other_sha256, "perfleet://lab/host/", ANSWERS, &c);
    assert_int_equal(c.rc, PFL_ETLS);
    assert_int_equal(c.server_code, 3);
    assert_non_null(strstr(c.why, "authority is not the one"));
    pfl_buf_fini(&c.answer);
    ask(ca_sha256, "perfleet://lab/relay/", ANSWERS, &c);
    assert_int_equal(c.rc, PFL_ETLS);
    assert_int_equal(c.server_code, 3);
    assert_non_null(strstr(c.why, "no relay of this fleet"));
    pfl_buf_fini(&c.answer);
}

static void an_answer_that_is_too_long_is_cut_off(void **state)
{
    struct conversation c;

    (void)state;
    ask(ca_sha256, "perfleet://lab/host/", FLOODS, &c);
    assert_int_equal(c.rc, PFL_ELIMIT);
    assert_true(c.answer.len <= 4096);
    assert_non_null(strstr(c.why, "too long"));
    pfl_buf_fini(&c.answer);
}

static void a_server_that_hangs_up_is_an_error_and_no_answer(void **state)
{
    struct conversation c;

    (void)state;
    ask(ca_sha256, "perfleet://lab/host/", HANGS_UP, &c);
    assert_int_equal(c.answer.len, 0);
    assert_int_equal(c.server_code, 0);
    pfl_buf_fini(&c.answer);
}

static void nobody_there_is_said_with_the_address(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);
    int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* bound, never listened on */
    struct pfl_enroll *e = make();
    struct pfl_enroll_server to = {
        .host = "127.0.0.1", .ca_sha256 = ca_sha256, .uri_prefix = "", .timeout_ms = TIMEOUT_MS};
    struct pfl_buf answer;
    char port[16];

    (void)state;
    assert_int_equal(bind(taken, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&in, &len), 0);
    (void)snprintf(port, sizeof(port), "%u", ntohs(in.sin_port));
    to.port = port;
    pfl_buf_init(&answer, 4096);
    assert_int_equal(pfl_enroll_ask(e, &to, pfl_span_of("x", 1), &answer), PFL_EIO);
    assert_non_null(strstr(pfl_enroll_get_error(e), port));
    pfl_buf_fini(&answer);
    pfl_enroll_free(e);
    (void)close(taken);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_key_is_another_and_makes_a_request_that_openssl_takes),
        TEST(without_memory_there_is_no_key_and_nothing_is_left),
        TEST(the_proof_is_hmac_sha_256),
        TEST(a_certificate_for_our_key_name_and_authority_is_taken),
        TEST(any_other_certificate_is_refused_with_the_reason),
        TEST(a_certificate_that_another_authority_signed_is_refused_beside_the_right_one),
        TEST(one_that_is_over_is_refused_with_a_word_about_clocks),
        TEST(a_server_of_the_authority_is_asked_and_its_answer_read_to_the_end),
        TEST(a_server_of_another_authority_or_kind_is_reported_nothing),
        TEST(an_answer_that_is_too_long_is_cut_off),
        TEST(a_server_that_hangs_up_is_an_error_and_no_answer),
        TEST(nobody_there_is_said_with_the_address),
    };

    return cmocka_run_group_tests(tests, group_set_up, pki_teardown);
}
