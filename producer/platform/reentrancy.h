/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the calling thread inside the library? Then a signal handler that interrupted it must not
 * enter: its own thread may hold locks and have packets half written.
 */
#ifndef PFL_PRODUCER_REENTRANCY_H
#define PFL_PRODUCER_REENTRANCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Volatile: a handler may read it at any moment. */
extern _Thread_local volatile uint32_t pfl_reentrancy_depth;

static inline bool pfl_reentrancy_is_inside(void)
{
    return __builtin_expect(pfl_reentrancy_depth != 0, 0);
}

static inline void pfl_reentrancy_enter(void)
{
    pfl_reentrancy_depth = pfl_reentrancy_depth + 1;
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void pfl_reentrancy_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    pfl_reentrancy_depth = pfl_reentrancy_depth - 1;
}

#endif
