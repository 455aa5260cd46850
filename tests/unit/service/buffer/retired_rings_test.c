/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of freed buffers: how much of it a turn of the loop releases, and that all of it goes. */
#include "service/buffer/retired_rings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "service/buffer/ring_copy.h"
#include "service/buffer/trace_ring.h"

#define MIB 1048576u
/* A turn ends at the next huge page. */
#define TURN_MAX (PFL_RETIRED_TURN_BYTES + 2 * MIB)

static struct pfl_trace_ring make_ring(uint32_t bytes, uint32_t used_bytes)
{
    struct pfl_trace_ring ring;

    assert_int_equal(pfl_trace_ring_init(&ring, bytes), 0);
    memset(ring.base, 1, used_bytes);
    ring.used_bytes = used_bytes;
    return ring;
}

static bool is_mapped(void *base)
{
    unsigned char page;

    return mincore(base, 4096, &page) == 0;
}

static unsigned run_turns(void)
{
    unsigned turns = 0;

    for (; pfl_retired_rings_get_bytes() != 0; turns++) {
        uint64_t before = pfl_retired_rings_get_bytes();

        pfl_retired_rings_release();
        assert_in_range(before - pfl_retired_rings_get_bytes(), 1, TURN_MAX);
    }
    return turns;
}

static void a_large_ring_is_released_in_turns(void **state)
{
    struct pfl_trace_ring ring = make_ring(64 * MIB, 32 * MIB);
    uint8_t *base = ring.base;

    (void)state;
    pfl_trace_ring_fini(&ring);
    assert_int_equal(pfl_retired_rings_get_bytes(), 32 * MIB);
    assert_false(is_mapped(base + 32 * MIB)); /* never written to */
    assert_true(is_mapped(base + 32 * MIB - 4096));
    pfl_retired_rings_release();
    assert_false(is_mapped(base + 32 * MIB - 4096));
    assert_true(is_mapped(base));
    assert_in_range(run_turns(), 32 * MIB / TURN_MAX, 32 * MIB / PFL_RETIRED_TURN_BYTES);
    assert_false(is_mapped(base));
}

static void a_small_ring_is_released_at_once(void **state)
{
    struct pfl_trace_ring ring = make_ring(64 * MIB, MIB);
    uint8_t *base = ring.base;

    (void)state;
    pfl_trace_ring_fini(&ring);
    assert_int_equal(pfl_retired_rings_get_bytes(), 0);
    assert_false(is_mapped(base));
}

static void several_rings_go_one_after_the_other(void **state)
{
    struct pfl_trace_ring first = make_ring(8 * MIB, 3 * MIB + 5);
    struct pfl_trace_ring second = make_ring(8 * MIB, 8 * MIB);
    uint8_t *bases[] = {first.base, second.base};

    (void)state;
    pfl_trace_ring_fini(&first);
    pfl_trace_ring_fini(&second);
    assert_int_equal(pfl_retired_rings_get_bytes(), 11 * MIB + 4096);
    (void)run_turns();
    assert_false(is_mapped(bases[0]));
    assert_false(is_mapped(bases[1]));
}

static void a_copy_that_is_given_up_leaves_the_ring_it_was_left(void **state)
{
    struct pfl_trace_ring from = make_ring(16 * MIB, 16 * MIB);
    struct pfl_trace_ring to;
    struct pfl_ring_copy *copy;
    uint8_t *base = from.base;

    (void)state;
    assert_int_equal(pfl_trace_ring_init(&to, from.size_bytes), 0);
    assert_int_equal(pfl_ring_copy_new(&from, &to, &copy), 0);
    pfl_trace_ring_fini(&from);
    assert_int_equal(pfl_retired_rings_get_bytes(), 0); /* it is still copied */
    pfl_ring_copy_free(copy);
    assert_int_equal(pfl_retired_rings_get_bytes(), 16 * MIB);
    to.used_bytes = 0;
    pfl_trace_ring_fini(&to);
    (void)run_turns();
    assert_false(is_mapped(base));
}

static void a_copy_that_is_given_up_releases_what_was_written(void **state)
{
    struct pfl_trace_ring from = make_ring(64 * MIB, 16 * MIB);
    struct pfl_trace_ring to;
    struct pfl_ring_copy *copy;
    uint8_t *base = from.base;

    (void)state;
    assert_int_equal(pfl_trace_ring_init(&to, from.size_bytes), 0);
    assert_int_equal(pfl_ring_copy_new(&from, &to, &copy), 0);
    pfl_trace_ring_fini(&from);
    pfl_ring_copy_free(copy);
    assert_int_equal(pfl_retired_rings_get_bytes(), 16 * MIB);
    assert_false(is_mapped(base + 16 * MIB));
    to.used_bytes = 0;
    pfl_trace_ring_fini(&to);
    (void)run_turns();
}

static void turns_grow_with_what_waits(void **state)
{
    uint64_t waits = 0;
    uint64_t before;

    (void)state;
    /* Nothing is written to: the kernel has no pages to make. */
    for (unsigned i = 0; i < 4; i++) {
        struct pfl_trace_ring ring;

        assert_int_equal(pfl_trace_ring_init(&ring, 1024u * MIB), 0);
        ring.used_bytes = ring.size_bytes;
        waits += ring.size_bytes;
        pfl_trace_ring_fini(&ring);
    }
    before = pfl_retired_rings_get_bytes();
    assert_int_equal(before, waits);
    pfl_retired_rings_release();
    assert_in_range(before - pfl_retired_rings_get_bytes(), waits / PFL_RETIRED_TURNS,
                    waits / PFL_RETIRED_TURNS + 2 * MIB);
    pfl_retired_rings_release_all();
    assert_int_equal(pfl_retired_rings_get_bytes(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_ring_is_released_in_turns),
        cmocka_unit_test(a_small_ring_is_released_at_once),
        cmocka_unit_test(several_rings_go_one_after_the_other),
        cmocka_unit_test(a_copy_that_is_given_up_leaves_the_ring_it_was_left),
        cmocka_unit_test(a_copy_that_is_given_up_releases_what_was_written),
        cmocka_unit_test(turns_grow_with_what_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
