/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a trace to a Trace Processor: in pieces, each when the process has read those before it,
 * then the question. A piece of a collector comes in one or more replies, of which the last may be
 * empty. Pure.
 *
 *     next -> PIECE -> begin -> take* -> next -> ... -> QUESTION
 */
#ifndef PFL_CONSUMER_TRACE_PIECES_H
#define PFL_CONSUMER_TRACE_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_TRACE_PIECES_BYTES (1u << 20)

enum pfl_trace_pieces_step {
    PFL_TRACE_PIECES_WAIT,
    PFL_TRACE_PIECES_PIECE,    /* of `len` bytes from `offset` on */
    PFL_TRACE_PIECES_QUESTION, /* once: the trace is complete */
};

struct pfl_trace_pieces {
    uint64_t offset; /* of the next piece */
    uint64_t left;   /* bytes of the trace that were not asked for yet */
    uint64_t awaited;
    bool is_awaiting; /* the last reply of a piece */
    bool is_over;
};

void pfl_trace_pieces_init(struct pfl_trace_pieces *self, uint64_t bytes);
/* What is to be done now. `is_written`: the process has all that it was given. `ret_len` is set for
 * PIECE. */
enum pfl_trace_pieces_step pfl_trace_pieces_next(struct pfl_trace_pieces *self, bool is_written,
                                                 size_t *ret_len);
/* A piece was asked for; at most what is left. */
void pfl_trace_pieces_begin(struct pfl_trace_pieces *self, size_t len);
/* Bytes of it came. False: the piece has another length. */
bool pfl_trace_pieces_take(struct pfl_trace_pieces *self, size_t len, bool is_last);

#endif
