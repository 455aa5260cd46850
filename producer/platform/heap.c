/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The producer library's allocations: libc's heap, and pages of the kernel, counted.
 *
 * Never called for a packet. Connections and data sources live on the heap; writers, thread state
 * and the lists of a batch in pages. The counters are relaxed atomics; they order nothing.
 */
#include "producer/platform/heap.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

void *pfl_heap_map(size_t bytes)
{
    return pfl_heap_remap(NULL, 0, bytes);
}

void *pfl_heap_remap(void *ptr, size_t old_bytes, size_t bytes)
{
    void *mapped;

    if (must_fail())
        return NULL;
    if (ptr != NULL) {
        mapped = mremap(ptr, old_bytes, bytes, MREMAP_MAYMOVE);
        return mapped == MAP_FAILED ? NULL : mapped;
    }
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return mapped;
}

void pfl_heap_unmap(void *ptr, size_t bytes)
{
    if (ptr == NULL)
        return;
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    munmap(ptr, bytes);
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
