/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of a trace: see trace_pieces.h. Failures: a piece that is longer or shorter than it
 * was asked for. No state but the struct; limits: PFL_TRACE_PIECES_BYTES.
 */
#include "consumer/ask/trace_pieces.h"

#include <assert.h>

void pfl_trace_pieces_init(struct pfl_trace_pieces *self, uint64_t bytes)
{
    *self = (struct pfl_trace_pieces){.left = bytes};
}

enum pfl_trace_pieces_step pfl_trace_pieces_next(struct pfl_trace_pieces *self, bool is_written,
                                                 size_t *ret_len)
{
    if (self->is_awaiting || self->is_over || !is_written)
        return PFL_TRACE_PIECES_WAIT;
    if (self->left == 0) {
        self->is_over = true;
        return PFL_TRACE_PIECES_QUESTION;
    }
    *ret_len = self->left < PFL_TRACE_PIECES_BYTES ? (size_t)self->left : PFL_TRACE_PIECES_BYTES;
    return PFL_TRACE_PIECES_PIECE;
}

void pfl_trace_pieces_begin(struct pfl_trace_pieces *self, size_t len)
{
    assert(!self->is_awaiting && len <= self->left);
    self->offset += len;
    self->left -= len;
    self->awaited = len;
    self->is_awaiting = true;
}

bool pfl_trace_pieces_take(struct pfl_trace_pieces *self, size_t len, bool is_last)
{
    self->is_awaiting = !is_last;
    if (len > self->awaited || (is_last && len != self->awaited))
        return false;
    self->awaited -= len;
    return true;
}
