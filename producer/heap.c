/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer library's allocations: libc's heap, counted.
 *
 * Never called for a packet: connections, data sources, writers and the lists of a batch are all
 * that live here. The counters are relaxed atomics; they order nothing.
 */
#include "producer/heap.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(uint64_t) live_blocks;
static _Atomic(uint64_t) attempts;
static _Atomic(uint64_t) fail_at;

static bool must_fail(void)
{
    uint64_t nth = atomic_fetch_add_explicit(&attempts, 1, memory_order_relaxed) + 1;

    return nth == atomic_load_explicit(&fail_at, memory_order_relaxed);
}

void *pfl_heap_zalloc(size_t size_bytes)
{
    void *ptr = must_fail() ? NULL : calloc(1, size_bytes == 0 ? 1 : size_bytes);

    if (ptr != NULL)
        atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return ptr;
}

void *pfl_heap_resize(void *ptr, size_t count, size_t size_bytes)
{
    void *grown;

    if (must_fail() || count == 0 || size_bytes == 0)
        return NULL;
    grown = reallocarray(ptr, count, size_bytes);
    if (grown != NULL && ptr == NULL)
        atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return grown;
}

char *pfl_heap_copy(const void *src, size_t len)
{
    char *copy = pfl_heap_zalloc(len + 1);

    if (copy != NULL && len != 0)
        memcpy(copy, src, len);
    return copy;
}

void pfl_heap_free(void *ptr)
{
    if (ptr == NULL)
        return;
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    free(ptr);
}

uint64_t pfl_heap_live_blocks(void)
{
    return atomic_load_explicit(&live_blocks, memory_order_relaxed);
}

void pfl_heap_fail_at(uint64_t nth)
{
    atomic_store_explicit(&attempts, 0, memory_order_relaxed);
    atomic_store_explicit(&fail_at, nth, memory_order_relaxed);
}

uint64_t pfl_heap_attempts(void)
{
    return atomic_load_explicit(&attempts, memory_order_relaxed);
}
