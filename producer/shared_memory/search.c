/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for a free chunk, without a lock, by any number of threads.
 *
 * It starts where the last one ended, cuts a free page into one chunk if need be, and takes the
 * first free chunk by compare-and-swap. Full memory is detected cheaply: pages become free in the
 * order in which they were taken, so checking one suffices. A page with a corrupt bitmap is
 * skipped. Only hints are remembered: if they are wrong the search is longer, or free memory is
 * detected some packets later. Owns nothing.
 */
#include "producer/shared_memory/search.h"

#include <sched.h>
#include <time.h>

#define MISSES_TO_SEARCH 16u
#define WATCH_NS         50000 /* what a service that is awake or wakes up needs for a few chunks */

static bool try_page(const struct pfl_smb *smb, uint32_t page_index,
                     struct pfl_arbiter_chunk *ret_chunk)
{
    struct pfl_page_header *page = pfl_smb_page(smb, page_index);
    uint32_t bitmap = pfl_page_bitmap(page);

    if (bitmap == 0) {
        pfl_state_try_partition(page, PFL_PAGE_DIV1);
        bitmap = pfl_page_bitmap(page);
    }
    for (uint32_t i = 0; i < pfl_page_chunks(bitmap); i++) {
        uint32_t taken;

        if (pfl_page_chunk_state(bitmap, i) != PFL_CHUNK_FREE)
            continue;
        if (pfl_state_begin_write(page, i, &taken) != PFL_STATE_DONE)
            continue;
        ret_chunk->header = pfl_smb_chunk(smb, page_index, taken, i);
        ret_chunk->page = page_index;
        ret_chunk->index = i;
        ret_chunk->payload_bytes = pfl_page_payload_bytes(smb->page_bytes, taken);
        return true;
    }
    return false;
}

/* From `at` on: the page that will come free first, if chunks do in the order they were taken in.
 * A page in the hands of a writer will not. */
static uint32_t find_complete(const struct pfl_smb *smb, uint32_t at)
{
    for (uint32_t i = 0; i < smb->pages; i++) {
        uint32_t page = (at + i) % smb->pages;

        if (pfl_page_chunk_state(pfl_page_bitmap(pfl_smb_page(smb, page)), 0) !=
            PFL_CHUNK_BEING_WRITTEN)
            return page;
    }
    return at;
}

bool pfl_search_take(struct pfl_search *self, const struct pfl_smb *smb,
                     struct pfl_arbiter_chunk *ret_chunk)
{
    uint32_t first = atomic_load_explicit(&self->next_page, memory_order_relaxed);
    uint32_t at = first;

    for (uint32_t i = 0; i < smb->pages; i++) {
        if (at >= smb->pages)
            at = 0;
        if (try_page(smb, at, ret_chunk)) {
            atomic_store_explicit(&self->next_page, at + 1, memory_order_relaxed);
            atomic_store_explicit(&self->misses, 0, memory_order_relaxed);
            return true;
        }
        at++;
    }
    atomic_store_explicit(&self->next_page, find_complete(smb, first), memory_order_relaxed);
    atomic_fetch_add_explicit(&self->misses, 1, memory_order_relaxed);
    return false;
}

/* A failed search looks at every page, each in a cache line of its own. After one, checking the
 * page that should become free first is mostly enough. */
bool pfl_search_is_likely_full(struct pfl_search *self, const struct pfl_smb *smb)
{
    uint32_t at = atomic_load_explicit(&self->next_page, memory_order_relaxed);
    uint32_t misses = atomic_load_explicit(&self->misses, memory_order_relaxed);
    uint32_t bitmap;

    if (misses == 0)
        return false;
    atomic_store_explicit(&self->misses, misses + 1, memory_order_relaxed);
    if (misses % MISSES_TO_SEARCH == 0)
        return false;
    bitmap = pfl_page_bitmap(pfl_smb_page(smb, at < smb->pages ? at : 0));
    return pfl_page_layout(bitmap) == PFL_PAGE_DIV1 &&
           pfl_page_chunk_state(bitmap, 0) != PFL_CHUNK_FREE;
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Until the page where the next search starts changes, or not any longer. */
void pfl_search_watch(struct pfl_search *self, const struct pfl_smb *smb)
{
    uint32_t at = atomic_load_explicit(&self->next_page, memory_order_relaxed);
    struct pfl_page_header *page = pfl_smb_page(smb, at < smb->pages ? at : 0);
    uint32_t bitmap = pfl_page_bitmap(page);
    uint64_t until_ns = now_ns() + WATCH_NS;

    do {
        sched_yield();
    } while (pfl_page_bitmap(page) == bitmap && now_ns() < until_ns);
}
