/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of the standard's own examples (FIPS 180-4), whole and in pieces. */
#include "base/io/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static const char *const texts[][2] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

static void assert_hash(struct pfl_sha256 *sha256, const char *hex)
{
    uint8_t hash[PFL_SHA256_BYTES];
    char text[2 * PFL_SHA256_BYTES + 1];

    assert_int_equal(pfl_sha256_end(sha256, hash), 0);
    for (size_t i = 0; i < sizeof(hash); i++)
        (void)snprintf(text + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(text, hex);
}

static void hashes_are_those_of_the_standard_however_the_bytes_come(void **state)
{
    struct pfl_sha256 *sha256;

    (void)state;
    assert_int_equal(pfl_sha256_new(&sha256), 0);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t len = strlen(texts[i][0]);

        for (size_t cut = 0; cut <= len; cut++) {
            pfl_sha256_add(sha256, pfl_span_of(texts[i][0], cut));
            pfl_sha256_add(sha256, pfl_span_of(texts[i][0] + cut, len - cut));
            assert_hash(sha256, texts[i][1]);
        }
    }
    pfl_sha256_free(sha256);
}

static int make_one(void *arg)
{
    struct pfl_sha256 *sha256;
    int rc = pfl_sha256_new(&sha256);

    (void)arg;
    if (rc == 0)
        pfl_sha256_free(sha256);
    return rc;
}

static void without_memory_there_is_none(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_the_standard_however_the_bytes_come),
        cmocka_unit_test(without_memory_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
