/* SPDX-License-Identifier: Apache-2.0 */
/* The allocation sweep over base/mem's fault hook: see sweep.h. Gives up after MAX_RUNS. */
#include "tests/support/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "tests/support/recorded.h"

#define MAX_RUNS 100000u

void pfl_sweep_assert_no_leak(void)
{
    struct pfl_mem_stats stats;

    pfl_mem_stats_get(&stats);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.live_bytes, 0);
}

void pfl_sweep(pfl_sweep_body body, void *arg, bool tolerant)
{
    struct pfl_mem_stats before;

    pfl_mem_stats_get(&before);
    pfl_record_hold(true);
    for (uint64_t nth = 1; nth <= MAX_RUNS; nth++) {
        struct pfl_mem_stats after;
        int rc;

        pfl_mem_fail_at(nth);
        rc = body(arg);
        pfl_mem_stats_get(&after);
        pfl_mem_fail_at(0);
        assert_int_equal(after.live_blocks, before.live_blocks);
        assert_int_equal(after.live_bytes, before.live_bytes);
        if (after.allocations < nth) {
            assert_int_equal(rc, 0);
            pfl_record_hold(false);
            return;
        }
        if (!tolerant || rc != 0)
            assert_int_equal(rc, PFL_ENOMEM);
    }
    fail_msg("the body still allocates after %u runs", MAX_RUNS);
}
