/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of AWS's S3 API reference ("Signature Calculations for the Authorization Header",
 * "Using Query Parameters"): requests, and the signatures that belong to them. */
#include "collector/store/sigv4.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct pfl_sigv4_keys keys = {
    .id = "AKIAIOSFODNN7EXAMPLE",
    .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    .token = "",
    .region = "us-east-1",
};

static struct pfl_sigv4_request request_of(const char *method, const char *path)
{
    return (struct pfl_sigv4_request){.method = method,
                                      .host = "examplebucket.s3.amazonaws.com",
                                      .path = path,
                                      .sha256 = EMPTY,
                                      .now = 1369353600}; /* 2013-05-24 00:00:00 */
}

static void signature_of_is(const struct pfl_sigv4_request *request,
                            const struct pfl_sigv4_keys *signer, const char *expected)
{
    struct pfl_sigv4 *sigv4;
    struct pfl_sigv4_signed out;
    const char *line;

    assert_int_equal(pfl_sigv4_new(&sigv4), 0);
    assert_int_equal(pfl_sigv4_sign(sigv4, request, signer, &out), 0);
    line = strstr(out.lines[out.lines_len - 1], "Signature=");
    assert_non_null(line);
    assert_string_equal(line + strlen("Signature="), expected);
    pfl_sigv4_free(sigv4);
}

static void signature_is(const struct pfl_sigv4_request *request, const char *expected)
{
    signature_of_is(request, &keys, expected);
}

static void an_object_is_read(void **state)
{
    struct pfl_sigv4_request request = request_of("GET", "/test.txt");

    (void)state;
    request.headers[request.headers_len++] = (struct pfl_sigv4_pair){"range", "bytes=0-9"};
    signature_is(&request, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

/* Some servers give 64 characters; with "AWS4" they are longer than a block of SHA-256. */
static void a_long_secret_signs(void **state)
{
    struct pfl_sigv4_request request = request_of("GET", "/test.txt");
    struct pfl_sigv4_keys signer = keys;

    (void)state;
    signer.secret = EMPTY;
    request.headers[request.headers_len++] = (struct pfl_sigv4_pair){"range", "bytes=0-9"};
    signature_of_is(&request, &signer,
                    "586edd320c87926bbbe934cf7ed58d125f50a1d5df73cdcf72a53983d43c794d");
}

static void an_object_is_put(void **state)
{
    struct pfl_sigv4_request request = request_of("PUT", "/test$file.text");

    (void)state;
    request.headers[request.headers_len++] =
        (struct pfl_sigv4_pair){"date", "Fri, 24 May 2013 00:00:00 GMT"};
    request.headers[request.headers_len++] =
        (struct pfl_sigv4_pair){"x-amz-storage-class", "REDUCED_REDUNDANCY"};
    request.sha256 = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    signature_is(&request, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

static void a_bare_key_of_a_query_is_signed(void **state)
{
    struct pfl_sigv4_request request = request_of("GET", "/");

    (void)state;
    request.query[request.query_len++] = (struct pfl_sigv4_pair){"lifecycle", ""};
    signature_is(&request, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

static void a_query_is_sorted(void **state)
{
    struct pfl_sigv4_request request = request_of("GET", "/");

    (void)state;
    request.query[request.query_len++] = (struct pfl_sigv4_pair){"prefix", "J"};
    request.query[request.query_len++] = (struct pfl_sigv4_pair){"max-keys", "2"};
    signature_is(&request, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

/* The signature is that of AWS's botocore 1.29. */
static void odd_characters_are_escaped_and_a_token_is_signed(void **state)
{
    struct pfl_sigv4_request request =
        request_of("GET", "/v1/a b+c%20=d&e/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    struct pfl_sigv4_keys signer = keys;

    (void)state;
    signer.token = "a/session+token==";
    request.query[request.query_len++] = (struct pfl_sigv4_pair){"prefix", "\xc3\xa4 b+%&=/"};
    request.query[request.query_len++] = (struct pfl_sigv4_pair){"list-type", "2"};
    request.headers[request.headers_len++] =
        (struct pfl_sigv4_pair){"x-amz-server-side-encryption", "aws:kms"};
    signature_of_is(&request, &signer,
                    "3a1d4f9ff5482de40537a9860512597c500d01462412b9fc0b44c611ae1b2e78");
}

static void a_link_is_presigned(void **state)
{
    struct pfl_sigv4_request request = request_of("GET", "/test.txt");
    struct pfl_sigv4 *sigv4;
    char target[PFL_SIGV4_TARGET_BYTES];

    (void)state;
    assert_int_equal(pfl_sigv4_new(&sigv4), 0);
    assert_int_equal(pfl_sigv4_presign(sigv4, &request, &keys, 86400, target), 0);
    assert_string_equal(
        target, "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%"
                "2F20130524"
                "%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
                "X-Amz-SignedHeaders=host&X-Amz-Signature="
                "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
    pfl_sigv4_free(sigv4);
}

static void what_is_too_long_is_refused(void **state)
{
    static char path[20000];
    struct pfl_sigv4_request request = request_of("GET", path);
    struct pfl_sigv4_keys long_keys = keys;
    struct pfl_sigv4 *sigv4;
    struct pfl_sigv4_signed out;

    (void)state;
    assert_int_equal(pfl_sigv4_new(&sigv4), 0);
    memset(path, '/', sizeof(path) - 1);
    assert_int_equal(pfl_sigv4_sign(sigv4, &request, &keys, &out), PFL_ELIMIT);
    path[10] = '\0';
    assert_int_equal(pfl_sigv4_sign(sigv4, &request, &keys, &out), 0);
    memset(path + 100, 'x', 200);
    path[300] = '\0';
    long_keys.secret = path + 100;
    assert_int_equal(pfl_sigv4_sign(sigv4, &request, &long_keys, &out), PFL_ELIMIT);
    pfl_sigv4_free(sigv4);
}

static int open_once(void *arg)
{
    struct pfl_sigv4 *sigv4 = NULL;
    int rc = pfl_sigv4_new(&sigv4);

    (void)arg;
    pfl_sigv4_free(sigv4);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(open_once, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_read),
        cmocka_unit_test(a_long_secret_signs),
        cmocka_unit_test(an_object_is_put),
        cmocka_unit_test(a_bare_key_of_a_query_is_signed),
        cmocka_unit_test(a_query_is_sorted),
        cmocka_unit_test(odd_characters_are_escaped_and_a_token_is_signed),
        cmocka_unit_test(a_link_is_presigned),
        cmocka_unit_test(what_is_too_long_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
