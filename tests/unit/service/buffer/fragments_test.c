/* SPDX-License-Identifier: Apache-2.0 */
#include "service/buffer/fragments.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "abi/fragment.h"
#include "base/mem.h"

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
    uint8_t *payload = pfl_mem_alloc(spelling_bytes + data_bytes + 1);

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
    pfl_mem_free(room);
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
        uint8_t *payload = pfl_mem_alloc(bytes);
        struct pfl_fragments walk = pfl_fragments_of(payload, bytes, 0);
        struct pfl_fragment fragment;

        assert_non_null(payload);
        memset(payload, 0x80, bytes);
        assert_int_equal(pfl_fragments_next(&walk, &fragment), PFL_FRAGMENTS_CORRUPT);
        assert_true(pfl_fragments_measure(payload, bytes, 1).is_short);
        pfl_mem_free(payload);
    }
}

/* The sum as the definition has it, a fragment at a time. */
static struct pfl_fragments_sum sum_of(const uint8_t *payload, size_t bytes, uint32_t count)
{
    struct pfl_fragments walk = pfl_fragments_of(payload, bytes, 0);
    struct pfl_fragments_sum sum = {0};
    struct pfl_fragment fragment;

    for (uint32_t i = 0; i < count; i++) {
        enum pfl_fragments_state state = pfl_fragments_next(&walk, &fragment);

        sum.is_dropped = state == PFL_FRAGMENTS_DROPPED;
        sum.is_short = state != PFL_FRAGMENTS_OK && !sum.is_dropped;
        if (state != PFL_FRAGMENTS_OK)
            break;
        sum.last_fragment = (size_t)(fragment.data - payload);
    }
    sum.valid_bytes = (size_t)(walk.pos - payload);
    return sum;
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Runs of sizes that are alike, some of them cut, dropped or endless. */
static size_t fill_runs(uint8_t *payload, size_t bytes, uint32_t *random)
{
    size_t at = 0;
    uint64_t size = 0;

    while (bytes - at > SPELLING_MAX) {
        uint32_t dice = next_random(random) % 16;

        if (dice < 3 || at == 0)
            size = next_random(random) % 40;
        if (dice == 3)
            size = next_random(random) % 2 != 0 ? PFL_FRAGMENT_DROP : 1u << 20;
        spell(size, 4, payload + at);
        at += 4;
        if (size > bytes - at)
            break;
        at += size;
    }
    return at;
}

static void runs_of_one_size_are_measured_like_single_fragments(void **state)
{
    uint32_t random = 7;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        uint8_t payload[256] = {0};
        size_t filled = fill_runs(payload, sizeof(payload), &random);
        size_t bytes = next_random(&random) % 4 == 0 ? next_random(&random) % filled : filled;
        uint32_t count = next_random(&random) % 70;
        struct pfl_fragments_sum sum = pfl_fragments_measure(payload, bytes, count);
        struct pfl_fragments_sum expected = sum_of(payload, bytes, count);

        assert_int_equal(sum.valid_bytes, expected.valid_bytes);
        assert_int_equal(sum.last_fragment, expected.last_fragment);
        assert_int_equal(sum.is_short, expected.is_short);
        assert_int_equal(sum.is_dropped, expected.is_dropped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_of_a_size_is_read_alike),
        cmocka_unit_test(runs_of_one_size_are_measured_like_single_fragments),
        cmocka_unit_test(a_size_without_an_end_is_corrupt_wherever_the_payload_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
