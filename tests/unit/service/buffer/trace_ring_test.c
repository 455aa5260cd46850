/* SPDX-License-Identifier: Apache-2.0 */
/* The ring's own copy: the same bytes whatever way they take, and none beside them. */
#include "service/buffer/trace_ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SOURCE_BYTES 8192u
#define GUARD        0xa5u

static uint8_t source[SOURCE_BYTES];

static void assert_copied(const struct pfl_trace_ring *ring, size_t to, size_t from, size_t bytes)
{
    uint8_t *dst = ring->base + 4096 + to;

    memset(ring->base, GUARD, 4096 + SOURCE_BYTES + 4096);
    pfl_trace_ring_copy(ring, dst, source + from, bytes);
    assert_memory_equal(dst, source + from, bytes);
    for (size_t i = 1; i <= 64; i++) {
        assert_int_equal(dst[-(ptrdiff_t)i], GUARD);
        assert_int_equal(dst[bytes + i - 1], GUARD);
    }
}

static void copy_everywhere(uint64_t ring_bytes)
{
    static const size_t lengths[] = {0,   1,   15,  16,  63,  64,   65,   511,
                                     512, 513, 575, 576, 577, 1000, 4080, 4096};
    struct pfl_trace_ring ring;

    for (size_t i = 0; i < SOURCE_BYTES; i++)
        source[i] = (uint8_t)(i * 31 + i / 256);
    assert_int_equal(pfl_trace_ring_init(&ring, ring_bytes), 0);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t to = 0; to < 64; to += PFL_RECORD_ALIGN)
            for (size_t from = 0; from < 9; from++)
                assert_copied(&ring, to, from, lengths[i]);
    }
    pfl_trace_ring_fini(&ring);
}

static void a_small_ring_gets_what_was_copied(void **state)
{
    (void)state;
    copy_everywhere(64 * 1024);
}

static void a_ring_that_no_cache_holds_gets_what_was_copied(void **state)
{
    (void)state;
    copy_everywhere(64 * 1024 * 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_ring_gets_what_was_copied),
        cmocka_unit_test(a_ring_that_no_cache_holds_gets_what_was_copied),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
