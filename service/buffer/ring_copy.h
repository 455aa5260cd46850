/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a ring as it is at one moment, in turns, while the ring continues to change (copy on
 * write). Writers call pfl_trace_ring_keep before a change; pages that are not copied yet are
 * copied then. A ring has one such copy at a time.
 */
#ifndef PFL_SERVICE_RING_COPY_H
#define PFL_SERVICE_RING_COPY_H

#include "service/buffer/trace_ring.h"

struct pfl_ring_copy;

/*
 * Starts to copy what `from` holds now into `to`, which is empty and as large. `from` may be
 * written to and be freed. Do not use `to` before pfl_ring_copy_more says that it is whole. Both
 * are borrowed; `from` may move with pfl_ring_copy_follow. PFL_ESTATE: `from` is being copied.
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_ring_copy_new(struct pfl_trace_ring *from, struct pfl_trace_ring *to,
                                   struct pfl_ring_copy **ret_copy);
/* Call before `to` is freed. NULL is legal. */
void pfl_ring_copy_free(struct pfl_ring_copy *self);
/* Copies up to `*budget_bytes`, and subtracts what it copied. True: the copy is whole. */
bool pfl_ring_copy_more(struct pfl_ring_copy *self, uint32_t *budget_bytes);

/* For the ring. Copies those pages of this range that are not copied yet. */
void pfl_ring_copy_keep(struct pfl_ring_copy *self, uint32_t offset, uint32_t bytes);
/* The ring struct has moved; its mapping has not. */
void pfl_ring_copy_follow(struct pfl_ring_copy *self, struct pfl_trace_ring *from);
/* The ring is freed: the copy now owns its mapping. */
void pfl_ring_copy_adopt(struct pfl_ring_copy *self);

#endif
