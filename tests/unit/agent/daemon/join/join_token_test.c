/* SPDX-License-Identifier: Apache-2.0 */
/* Join tokens, the request made with one, and answers. */
#include "agent/daemon/join/join_token.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define PRINT  "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eaa"
#define GOOD   "pfl-join:prod:web-1.b:0123456789abcdef:" SECRET ":" PRINT
#define CERT   "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"
#define CA     "-----BEGIN CERTIFICATE-----\nBB\n-----END CERTIFICATE-----\n"
#define CRL    "-----BEGIN X509 CRL-----\nCC\n-----END X509 CRL-----\n"

static void a_token_is_read(void **state)
{
    struct pfl_join_token token;

    (void)state;
    assert_int_equal(pfl_join_token_parse(GOOD "\n", &token), 0);
    assert_string_equal(token.fleet, "prod");
    assert_string_equal(token.name, "web-1.b");
    assert_string_equal(token.id, "0123456789abcdef");
    assert_int_equal(token.secret[31], 0x1f);
    assert_int_equal(token.ca_sha256[0], 0xff);
    assert_int_equal(token.ca_sha256[31], 0xaa);
}

static void a_token_that_is_cut_anywhere_is_refused(void **state)
{
    struct pfl_join_token token;
    char text[sizeof(GOOD)];

    (void)state;
    for (size_t len = 0; len < sizeof(GOOD) - 1; len++) {
        memcpy(text, GOOD, len);
        text[len] = '\0';
        assert_int_equal(pfl_join_token_parse(text, &token), PFL_EPARSE);
    }
}

static void what_is_no_token_is_refused(void **state)
{
    static const char *const bad[] = {
        GOOD "0",
        GOOD ":",
        GOOD " x",
        "pfl-join:prod:../x:0123456789abcdef:" SECRET ":" PRINT,
        "pfl-join:prod:a/b:0123456789abcdef:" SECRET ":" PRINT,
        "pfl-join:.prod:a:0123456789abcdef:" SECRET ":" PRINT,
        "pfl-join:prod:a:0123456789ABCDEF:" SECRET ":" PRINT,
        "pfl-join:prod:a:0123456789abcde:" SECRET ":" PRINT,
        "pfl-join:prod:a:0123456789abcdef:" SECRET "0:" PRINT,
        "pfl-join::a:0123456789abcdef:" SECRET ":" PRINT,
    };
    struct pfl_join_token token;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(pfl_join_token_parse(bad[i], &token), PFL_EPARSE);
}

static void a_request_has_the_tokens_id_and_the_proof_but_not_the_secret(void **state)
{
    struct pfl_join_token token;
    uint8_t mac[PFL_JOIN_HASH_BYTES] = {0xab};
    char text[256];

    (void)state;
    assert_int_equal(pfl_join_token_parse(GOOD, &token), 0);
    assert_int_equal(pfl_join_request_encode(&token, mac, "CSR\n", text, sizeof(text)), 0);
    assert_non_null(strstr(text, "perfleet-join 1\n0123456789abcdef\nab0000"));
    assert_string_equal(text + strlen(text) - 4, "CSR\n");
    assert_null(strstr(text, "0001020304"));
    assert_int_equal(pfl_join_request_encode(&token, mac, "CSR\n", text, 60), PFL_ELIMIT);
}

static void a_grant_is_taken_apart(void **state)
{
    char text[] = "ok\n" CERT CA CRL;
    char without[] = "ok\n" CERT CA;
    struct pfl_join_answer answer;

    (void)state;
    assert_int_equal(pfl_join_answer_parse(text, &answer), 0);
    assert_null(answer.refusal);
    assert_int_equal(answer.cert_len, strlen(CERT));
    assert_int_equal(answer.ca_len, strlen(CA));
    assert_memory_equal(answer.ca, CA, strlen(CA));
    assert_string_equal(answer.crl, CRL);
    assert_int_equal(pfl_join_answer_parse(without, &answer), 0);
    assert_string_equal(answer.crl, "");
    assert_int_equal(answer.ca_len, strlen(CA));
}

static void a_refusal_is_one_line(void **state)
{
    char text[] = "refused: the token has expired\nand more";
    struct pfl_join_answer answer;

    (void)state;
    assert_int_equal(pfl_join_answer_parse(text, &answer), 0);
    assert_string_equal(answer.refusal, "the token has expired");
}

static void a_refusal_does_nothing_to_a_terminal(void **state)
{
    char text[] = "refused: \x1b[2Jgone\r\t\x7f\xc2\x9b \xe2\x80\xae~\n";
    struct pfl_join_answer answer;

    (void)state;
    assert_int_equal(pfl_join_answer_parse(text, &answer), 0);
    assert_string_equal(answer.refusal, "?[2Jgone????? ???~");
}

static void an_answer_that_is_neither_is_refused(void **state)
{
    static const char *const bad[] = {"",        "ok",   "ok\n", "ok\n" CERT, "ok\n" CERT CRL,
                                      "refused", CERT CA};
    struct pfl_join_answer answer;
    char text[512];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memcpy(text, bad[i], strlen(bad[i]) + 1);
        assert_int_equal(pfl_join_answer_parse(text, &answer), PFL_EPARSE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_read),
        cmocka_unit_test(a_token_that_is_cut_anywhere_is_refused),
        cmocka_unit_test(what_is_no_token_is_refused),
        cmocka_unit_test(a_request_has_the_tokens_id_and_the_proof_but_not_the_secret),
        cmocka_unit_test(a_grant_is_taken_apart),
        cmocka_unit_test(a_refusal_is_one_line),
        cmocka_unit_test(a_refusal_does_nothing_to_a_terminal),
        cmocka_unit_test(an_answer_that_is_neither_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
