/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a merge by the time of their next packets: a binary heap. Pure. */
#ifndef PFL_CONSUMER_RUN_HEAP_H
#define PFL_CONSUMER_RUN_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pfl_run_heap_entry {
    uint64_t at_ns;
    size_t run;
};

/* Zero-initialized, then init. */
struct pfl_run_heap {
    struct pfl_run_heap_entry *entries; /* owned */
    size_t len;
    size_t max;
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_run_heap_init(struct pfl_run_heap *self, size_t max);
void pfl_run_heap_fini(struct pfl_run_heap *self); /* legal on zeroed memory */
/* At most `max` of them. */
void pfl_run_heap_add(struct pfl_run_heap *self, size_t run, uint64_t at_ns);
/* The earliest; of two at the same time, that with the smaller number. SIZE_MAX: there is none. */
size_t pfl_run_heap_get_first(const struct pfl_run_heap *self);
/* The time of the earliest of all others; UINT64_MAX: there are none. */
uint64_t pfl_run_heap_get_second_ns(const struct pfl_run_heap *self);
/* The first one is at this time now, which is not earlier. */
void pfl_run_heap_move_first(struct pfl_run_heap *self, uint64_t at_ns);
void pfl_run_heap_remove_first(struct pfl_run_heap *self);

#endif
