/* SPDX-License-Identifier: Apache-2.0 */
#include "service/buffer/fragments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "abi/fragment.h"

#define SPELLING_MAX 10u
#define TAIL_MAX     6u

/* A size in exactly `bytes` bytes; false when it does not fit. */
static bool spell(uint64_t size, size_t bytes, uint8_t dst[SPELLING_MAX])
{
    for (size_t i = 0; i < bytes && i < SPELLING_MAX; i++) {
        dst[i] = (uint8_t)(size & 0x7fu) | (i + 1 < bytes ? 0x80u : 0);
        size >>= 7;
    }
    return size == 0;
}

/* A payload of its own allocation, so that a sanitizer sees a read past its end. */
static uint8_t *payload_of(const uint8_t *spelling, size_t spelling_bytes, size_t data_bytes)
{
    uint8_t *payload = malloc(spelling_bytes + data_bytes + 1);

    assert_non_null(payload);
    memcpy(payload + 1, spelling, spelling_bytes);
    memset(payload + 1 + spelling_bytes, 0xff, data_bytes);
    return payload;
}

static void expect_size(const uint8_t *spelling, size_t spelling_bytes, uint64_t size,
                        size_t data_bytes)
{
    uint8_t *room = payload_of(spelling, spelling_bytes, data_bytes);
    uint8_t *payload = room + 1; /* at an odd address */
    size_t bytes = spelling_bytes + data_bytes;
    struct pfl_fragments walk = pfl_fragments_of(payload, bytes, 0);
    struct pfl_fragments_sum sum = pfl_fragments_measure(payload, bytes, 1);
    struct pfl_fragment fragment;
    enum pfl_fragments_state state = pfl_fragments_next(&walk, &fragment);

    if (size == PFL_FRAGMENT_DROP) {
        assert_int_equal(state, PFL_FRAGMENTS_DROPPED);
        assert_true(sum.is_dropped);
    } else if (size > data_bytes) {
        assert_int_equal(state, PFL_FRAGMENTS_CORRUPT);
        assert_true(sum.is_short);
        assert_int_equal(sum.valid_bytes, 0);
    } else {
        assert_int_equal(state, PFL_FRAGMENTS_OK);
        assert_int_equal(fragment.bytes, size);
        assert_ptr_equal(fragment.data, payload + spelling_bytes);
        assert_int_equal(sum.valid_bytes, spelling_bytes + size);
        assert_int_equal(sum.last_fragment, spelling_bytes);
    }
    free(room);
}

static void every_spelling_of_a_size_is_read_alike(void **state)
{
    static const uint64_t sizes[] = {0,     1,       2,       5,         127,
                                     128,   255,     4095,    16383,     16384,
                                     65535, 2097151, 2097152, 268435455, 1u << 31};
    uint8_t spelling[SPELLING_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t bytes = 1; bytes <= SPELLING_MAX; bytes++) {
            if (!spell(sizes[i], bytes, spelling))
                continue;
            for (size_t tail = 0; tail <= TAIL_MAX; tail++)
                expect_size(spelling, bytes, sizes[i], tail);
            if (sizes[i] <= 2097152)
                expect_size(spelling, bytes, sizes[i], sizes[i]);
        }
    }
}

static void a_size_without_an_end_is_corrupt_wherever_the_payload_ends(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes <= SPELLING_MAX + 4; bytes++) {
        uint8_t *payload = malloc(bytes);
        struct pfl_fragments walk = pfl_fragments_of(payload, bytes, 0);
        struct pfl_fragment fragment;

        assert_non_null(payload);
        memset(payload, 0x80, bytes);
        assert_int_equal(pfl_fragments_next(&walk, &fragment), PFL_FRAGMENTS_CORRUPT);
        assert_true(pfl_fragments_measure(payload, bytes, 1).is_short);
        free(payload);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_a_size_is_read_alike),
        cmocka_unit_test(a_size_without_an_end_is_corrupt_wherever_the_payload_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
