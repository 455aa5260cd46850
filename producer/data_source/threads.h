/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writers of each thread, one per instance, and the generations by which a thread detects that
 * one of them belongs to a past life of its instance.
 */
#ifndef PFL_PRODUCER_THREADS_H
#define PFL_PRODUCER_THREADS_H

#include <stdatomic.h>
#include <stdint.h>

/* The instance of the slot is used by a session / no longer. Connection thread. */
void pfl_threads_begin_life(uint32_t slot, uint32_t instance);
void pfl_threads_end_life(uint32_t slot, uint32_t instance);
/* The current life's number; never used twice. */
const _Atomic(uint64_t) *pfl_threads_life(uint32_t slot, uint32_t instance); /* static storage */
uint64_t pfl_threads_generation(uint32_t slot, uint32_t instance);

void pfl_threads_clear_incremental(uint32_t slot, uint32_t instance);
/* Static storage. */
const _Atomic(uint32_t) *pfl_threads_clears(uint32_t slot, uint32_t instance);

#endif
