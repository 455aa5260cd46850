/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace writer: one sequence of packets, written by one thread straight into chunks.
 * The functions of perfleet.h on `struct perfleet_writer` are implemented here.
 */
#ifndef PFL_PRODUCER_WRITER_H
#define PFL_PRODUCER_WRITER_H

#include "producer/perfleet.h"
#include "producer/shared_memory/arbiter.h"
#include "producer/shared_memory/state.h"

#define PFL_WRITER_SCRATCH_BYTES 1024u

struct pfl_trace_writer_conf {
    struct pfl_arbiter *arbiter; /* the writer takes a reference of its own */
    uint32_t buffer;             /* the service's id of the central buffer, or a reservation */
    enum perfleet_policy policy;
    uint32_t instance;
    uint64_t generation;             /* of the instance: see source.h */
    const _Atomic(uint32_t) *clears; /* how often incremental state was cleared; static storage */
    struct pfl_state *state;         /* of the session; the writer takes a reference; NULL: none */
};

struct pfl_trace_writer;

/* PFL_ENOMEM, PFL_ELIMIT, PFL_ECLOSED. */
PFL_MUST_USE int pfl_trace_writer_new(const struct pfl_trace_writer_conf *conf,
                                      struct pfl_trace_writer **ret_writer);
/* Returns the current chunk and the id. NULL is legal. */
void pfl_trace_writer_free(struct pfl_trace_writer *self);
struct perfleet_writer *pfl_trace_writer_get_public(struct pfl_trace_writer *self);
/* As perfleet_begin for a message that is likely shorter than 128 bytes: then its size takes one
 * byte. Only the outermost message of a packet can be one. */
void pfl_trace_writer_begin_small(struct perfleet_writer *w, uint32_t field);
/* Points to the loss state of perfleet_writer_take_reset; lives as long as the writer. */
const bool *pfl_trace_writer_get_reset(const struct pfl_trace_writer *self);
uint64_t pfl_trace_writer_generation(const struct pfl_trace_writer *self);

#endif
