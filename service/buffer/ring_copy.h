/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a ring as it is at one moment, made in turns while the ring goes on changing. Who is
 * about to change a part of the ring says so first (pfl_trace_ring_keep): pages of it that are not
 * copied yet are copied then. A ring has one such copy at a time.
 */
#ifndef PFL_SERVICE_RING_COPY_H
#define PFL_SERVICE_RING_COPY_H

#include "service/buffer/trace_ring.h"

struct pfl_ring_copy;

/*
 * From now on `to`, which is empty and as large, gets what `from` has filled now. `from` may be
 * written to and be freed; `to` is not used before pfl_ring_copy_more says that it is whole. Both
 * are borrowed; `from` may move with pfl_ring_copy_follow. PFL_ESTATE: `from` is being copied.
 * PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_ring_copy_new(struct pfl_trace_ring *from, struct pfl_trace_ring *to,
                                   struct pfl_ring_copy **ret_copy);
/* Before `to` goes. NULL is legal. */
void pfl_ring_copy_free(struct pfl_ring_copy *self);
/* Copies up to `*budget_bytes`, and takes from them what it copied. True: the copy is whole. */
bool pfl_ring_copy_more(struct pfl_ring_copy *self, uint32_t *budget_bytes);

/* For the ring. Copies the pages of these bytes that are not copied yet. */
void pfl_ring_copy_keep(struct pfl_ring_copy *self, uint32_t offset, uint32_t bytes);
/* The ring's place has changed; its mapping has not. */
void pfl_ring_copy_follow(struct pfl_ring_copy *self, struct pfl_trace_ring *from);
/* The ring goes: its mapping is the copy's from now on. */
void pfl_ring_copy_adopt(struct pfl_ring_copy *self);

#endif
