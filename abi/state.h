/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every change of a page's header bitmap, as one compare-and-swap on the whole word
 * (docs/abi/smb.md 3).
 *
 *               partition                  producer                 producer
 *   bitmap 0 ------------> Free --------------------> BeingWritten -----------> Complete
 *       ^                   ^  pfl_state_begin_write     pfl_state_complete        |  |
 *       |                   |                                                      |  |
 *       | last chunk free   |   service                          service           |  |
 *       +-------------------+--------------------- BeingRead <---------------------+  |
 *                           |  pfl_state_end_read        pfl_state_begin_read         |
 *                           +---------------------------------------------------------+
 *                              pfl_state_free_complete (producer without shared memory)
 *
 * Order: the word is loaded with acquire and changed with acquire-release. Complete pairs with the
 * service's load, which makes the writer's stores visible. Free pairs with a writer's load or
 * change: the service's loads precede the next writer's stores. The change itself needs acquire,
 * too: the chunk may have been used and freed since the load, after which the word has its old
 * value again. A failed change and the partition could be weaker; they follow the protocol.
 * tests/unit/weak weakens each order once. The peer is not trusted: a step whose chunk is not in
 * the expected state is refused and changes nothing, and a word that a peer keeps changing costs at
 * most PFL_STATE_ATTEMPTS tries, without sleeping.
 *
 * While the service has the only chunk of a page, no other step in that word is legal, so the
 * service stores it with release order: a read-modify-write would wait until all bytes copied from
 * the chunk have reached memory. A producer that breaks the rule there harms its own chunk.
 */
#ifndef PFL_ABI_STATE_H
#define PFL_ABI_STATE_H

#include "abi/page.h"

#define PFL_STATE_ATTEMPTS 64u

enum pfl_state_result {
    PFL_STATE_DONE = 0,
    PFL_STATE_REFUSED = 1,   /* no such chunk, or not in the state the step starts from */
    PFL_STATE_CONTENDED = 2, /* the word changed under every attempt; nothing was done */
};

/* 0 -> layout. False when the page is partitioned already, whatever its layout. */
static inline bool pfl_state_try_partition(struct pfl_page_header *page,
                                           enum pfl_page_layout layout)
{
    uint32_t expected = 0;

    return atomic_compare_exchange_strong_explicit(&page->bitmap, &expected,
                                                   (uint32_t)layout << PFL_PAGE_LAYOUT_SHIFT,
                                                   memory_order_acq_rel, memory_order_acquire);
}

/* The word after chunk `index` of `seen` moved to state `to`. */
static inline uint32_t pfl_state_after(uint32_t seen, uint32_t index, enum pfl_chunk_state to)
{
    uint32_t next = pfl_page_with_chunk_state(seen, index, to);

    return to == PFL_CHUNK_FREE && (next & PFL_PAGE_STATES_MASK) == 0 ? 0 : next;
}

/*
 * Moves chunk `index` from state `from` to `to`. When `to` is Free and no other chunk of the page
 * is in use, the page loses its layout. `ret_bitmap` (may be NULL) is the word after the step:
 * its layout says where the chunk lies.
 */
static inline enum pfl_state_result pfl_state_move(struct pfl_page_header *page, uint32_t index,
                                                   enum pfl_chunk_state from,
                                                   enum pfl_chunk_state to, uint32_t *ret_bitmap)
{
    uint32_t seen = pfl_page_bitmap(page);

    for (uint32_t i = 0; i < PFL_STATE_ATTEMPTS; i++) {
        uint32_t next;

        if (index >= pfl_page_chunks(seen) || pfl_page_chunk_state(seen, index) != from)
            return PFL_STATE_REFUSED;
        next = pfl_state_after(seen, index, to);
        if (atomic_compare_exchange_strong_explicit(&page->bitmap, &seen, next,
                                                    memory_order_acq_rel, memory_order_acquire)) {
            if (ret_bitmap != NULL)
                *ret_bitmap = next;
            return PFL_STATE_DONE;
        }
    }
    return PFL_STATE_CONTENDED;
}

/* As pfl_state_move, for the owner of the chunk: without a read-modify-write if it is the only
 * one. */
static inline enum pfl_state_result pfl_state_move_own(struct pfl_page_header *page, uint32_t index,
                                                       enum pfl_chunk_state from,
                                                       enum pfl_chunk_state to,
                                                       uint32_t *ret_bitmap)
{
    uint32_t seen = pfl_page_bitmap(page);
    uint32_t next;

    if (pfl_page_layout(seen) != PFL_PAGE_DIV1)
        return pfl_state_move(page, index, from, to, ret_bitmap);
    if (index != 0 || pfl_page_chunk_state(seen, index) != from)
        return PFL_STATE_REFUSED;
    next = pfl_state_after(seen, index, to);
    atomic_store_explicit(&page->bitmap, next, memory_order_release);
    if (ret_bitmap != NULL)
        *ret_bitmap = next;
    return PFL_STATE_DONE;
}

/* Producer: Free -> BeingWritten. On success call pfl_chunk_set_header at once. */
static inline enum pfl_state_result pfl_state_begin_write(struct pfl_page_header *page,
                                                          uint32_t index, uint32_t *ret_bitmap)
{
    return pfl_state_move(page, index, PFL_CHUNK_FREE, PFL_CHUNK_BEING_WRITTEN, ret_bitmap);
}

/* Producer: BeingWritten -> Complete. From then on the chunk must not be touched. */
static inline enum pfl_state_result pfl_state_complete(struct pfl_page_header *page, uint32_t index)
{
    return pfl_state_move(page, index, PFL_CHUNK_BEING_WRITTEN, PFL_CHUNK_COMPLETE, NULL);
}

/* Service: Complete -> BeingRead. Then pfl_chunk_look; find the chunk by `ret_bitmap`. */
static inline enum pfl_state_result pfl_state_begin_read(struct pfl_page_header *page,
                                                         uint32_t index, uint32_t *ret_bitmap)
{
    return pfl_state_move_own(page, index, PFL_CHUNK_COMPLETE, PFL_CHUNK_BEING_READ, ret_bitmap);
}

/* Service: clears the chunk's header, then BeingRead -> Free. */
static inline enum pfl_state_result pfl_state_end_read(struct pfl_page_header *page, uint32_t index,
                                                       struct pfl_chunk_header *chunk)
{
    pfl_chunk_clear_header(chunk);
    return pfl_state_move_own(page, index, PFL_CHUNK_BEING_READ, PFL_CHUNK_FREE, NULL);
}

/* Producer without shared memory: clears the chunk's header, then Complete -> Free. */
static inline enum pfl_state_result pfl_state_free_complete(struct pfl_page_header *page,
                                                            uint32_t index,
                                                            struct pfl_chunk_header *chunk)
{
    pfl_chunk_clear_header(chunk);
    return pfl_state_move(page, index, PFL_CHUNK_COMPLETE, PFL_CHUNK_FREE, NULL);
}

#endif
