/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the calling thread inside the library? Then a signal handler that interrupted it must not
 * enter: its own thread may hold locks and have packets half written.
 */
#ifndef PFL_PRODUCER_GUARD_H
#define PFL_PRODUCER_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Volatile: a handler may read it at any moment. */
extern _Thread_local volatile uint32_t pfl_guard_depth;

static inline bool pfl_guard_is_inside(void)
{
    return __builtin_expect(pfl_guard_depth != 0, 0);
}

static inline void pfl_guard_enter(void)
{
    pfl_guard_depth = pfl_guard_depth + 1;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void pfl_guard_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    pfl_guard_depth = pfl_guard_depth - 1;
}

#endif
