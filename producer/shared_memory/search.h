/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a free chunk in shared memory: see search.c. */
#ifndef PFL_PRODUCER_SEARCH_H
#define PFL_PRODUCER_SEARCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "abi/state.h"

/* A chunk that a writer holds; `header` NULL: none. */
struct pfl_arbiter_chunk {
    struct pfl_chunk_header *header;
    uint32_t page;
    uint32_t index;
    uint32_t payload_bytes;
};

struct pfl_search {
    _Atomic(uint32_t) next_page; /* where it starts */
    _Atomic(uint32_t) misses;    /* failed searches since the last success */
};

static inline void pfl_search_init(struct pfl_search *self)
{
    atomic_init(&self->next_page, 0);
    atomic_init(&self->misses, 0);
}

/* True: the chunk is being written, its header must be set. False: none is free. */
bool pfl_search_take(struct pfl_search *self, const struct pfl_smb *smb,
                     struct pfl_arbiter_chunk *ret_chunk);
/* After a failed search: would another fail? Sometimes returns false to test that. */
bool pfl_search_is_likely_full(struct pfl_search *self, const struct pfl_smb *smb);
/* Waits, yielding, until the page where the next search starts changes, or a limit is reached. */
void pfl_search_watch(struct pfl_search *self, const struct pfl_smb *smb);

#endif
