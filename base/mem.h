/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that calls malloc. Counts live bytes and blocks, so that tests can end with
 * zero, and fails the n-th allocation on demand (the allocation sweep, tests/support/sweep.h).
 * Not for the producer library (producer/), which has threads and no dependency but libc.
 */
#ifndef PFL_BASE_MEM_H
#define PFL_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* NULL when out of memory or when count * size overflows; size 0 gives a unique block. */
PFL_MUST_USE void *pfl_mem_alloc(size_t size_bytes);
PFL_MUST_USE void *pfl_mem_zalloc(size_t size_bytes);
PFL_MUST_USE void *pfl_mem_calloc(size_t count, size_t size_bytes);
/* As realloc: on failure `ptr` stays valid. */
PFL_MUST_USE void *pfl_mem_realloc(void *ptr, size_t size_bytes);
PFL_MUST_USE char *pfl_mem_strdup(const char *str);
/* Copies `len` bytes of `str`, which need not end in NUL; the copy does. */
PFL_MUST_USE char *pfl_mem_strndup(const char *str, size_t len);
PFL_MUST_USE void *pfl_mem_memdup(const void *src, size_t len);
void pfl_mem_free(void *ptr); /* NULL is legal */

/* Test hooks. */
struct pfl_mem_stats {
    uint64_t live_blocks;
    uint64_t live_bytes;
    uint64_t allocations; /* attempts since the last pfl_mem_fail_at */
};
void pfl_mem_stats_get(struct pfl_mem_stats *ret_stats);
/* The n-th allocation from now fails (1 = the next); 0 turns it off. Only that one fails. */
void pfl_mem_fail_at(uint64_t nth);

#endif
