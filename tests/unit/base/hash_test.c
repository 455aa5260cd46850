/* SPDX-License-Identifier: Apache-2.0 */
/* The keyed hash is SipHash-2-4: the vectors are its authors'. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void the_authors_vectors_come_out(void **state)
{
    static const uint64_t wanted[] = {0x726fdb47dd0e0e31u, 0x74f839c593dc67fdu};
    const struct pfl_hash_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
    uint8_t bytes[15];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_true(pfl_hash_keyed(&key, pfl_span_of(bytes, 0)) == wanted[0]);
    assert_true(pfl_hash_keyed(&key, pfl_span_of(bytes, 1)) == wanted[1]);
    assert_true(pfl_hash_keyed(&key, pfl_span_of(bytes, 15)) == 0xa129ca6149be45e5u);
}

static void another_key_makes_another_hash(void **state)
{
    struct pfl_hash_key key = {{1, 2}};
    uint64_t before = pfl_hash_keyed(&key, pfl_span_of("name", 4));

    (void)state;
    key.words[1]++;
    assert_true(pfl_hash_keyed(&key, pfl_span_of("name", 4)) != before);
}

/* As many as possible in one of 64 places. */
static void numbers_chosen_to_meet_do_not_meet_with_another_key(void **state)
{
    const struct pfl_hash_key known = {{0}};
    const struct pfl_hash_key key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
    unsigned counts[64] = {0};
    unsigned chosen = 0;

    (void)state;
    for (uint32_t number = 1; number < 65536; number++) {
        if (pfl_hash_keyed_number(&known, number) % 64 != 0)
            continue;
        counts[pfl_hash_keyed_number(&key, number) % 64]++;
        chosen++;
    }
    assert_true(chosen > 512);
    for (size_t i = 0; i < 64; i++)
        assert_true(counts[i] < 4 * chosen / 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_authors_vectors_come_out),
        cmocka_unit_test(another_key_makes_another_hash),
        cmocka_unit_test(numbers_chosen_to_meet_do_not_meet_with_another_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
