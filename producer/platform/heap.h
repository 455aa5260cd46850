/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's one place that calls malloc; any thread. Counts live blocks, so that tests can end
 * with zero, and fails the n-th allocation on demand.
 */
#ifndef PFL_PRODUCER_HEAP_H
#define PFL_PRODUCER_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Zeroed; NULL when out of memory or when the product overflows. */
PFL_MUST_USE void *pfl_heap_zalloc(size_t size_bytes);
/* As realloc for `count` elements: on failure `ptr` stays valid; new bytes are not zeroed. */
PFL_MUST_USE void *pfl_heap_resize(void *ptr, size_t count, size_t size_bytes);
/* `len` bytes followed by a NUL. */
PFL_MUST_USE char *pfl_heap_copy(const void *src, size_t len);
void pfl_heap_free(void *ptr);

/* Whole pages from the kernel, zeroed: for what a thread may need inside a signal handler, where
 * malloc is not allowed. `bytes` must be passed again to the functions below. */
PFL_MUST_USE void *pfl_heap_map(size_t bytes);
/* On failure `ptr` (NULL: none yet) stays valid; new bytes are zero. */
PFL_MUST_USE void *pfl_heap_remap(void *ptr, size_t old_bytes, size_t bytes);
void pfl_heap_unmap(void *ptr, size_t bytes);

/* Test hooks. */
uint64_t pfl_heap_live_blocks(void);
/* The n-th allocation from now fails (1 = the next); 0 turns it off. */
void pfl_heap_fail_at(uint64_t nth);
/* Attempts since the last pfl_heap_fail_at. */
uint64_t pfl_heap_attempts(void);

#endif
