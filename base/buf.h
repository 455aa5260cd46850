/* SPDX-License-Identifier: Apache-2.0 */
/* A growable byte buffer with a mandatory maximum. Append at the end, consume in front. */
#ifndef PFL_BASE_BUF_H
#define PFL_BASE_BUF_H

#include "base/bytes.h"
#include "base/err.h"

struct pfl_buf {
    uint8_t *data; /* owned; the content is data[start .. start + len) */
    size_t start;
    size_t len;
    size_t capacity;
    size_t max_bytes;
};

/* No allocation until the first append. max_bytes must be > 0. */
void pfl_buf_init(struct pfl_buf *self, size_t max_bytes);
void pfl_buf_fini(struct pfl_buf *self); /* legal on zeroed memory; keeps max_bytes */

/* PFL_ELIMIT when the content would pass max_bytes, PFL_ENOMEM; then nothing was appended. */
PFL_MUST_USE int pfl_buf_append(struct pfl_buf *self, const void *data, size_t len);
/* Room for `len` bytes at the end; the caller fills some of it and calls pfl_buf_extend. */
PFL_MUST_USE int pfl_buf_reserve(struct pfl_buf *self, size_t len, uint8_t **ret_room);
void pfl_buf_extend(struct pfl_buf *self, size_t len);
/* Drops `len` bytes (at most the content) from the front. An emptied buffer keeps its memory. */
void pfl_buf_consume(struct pfl_buf *self, size_t len);
void pfl_buf_clear(struct pfl_buf *self);

/* Borrowed until the next call that changes the buffer. */
static inline struct pfl_span pfl_buf_get(const struct pfl_buf *self)
{
    return pfl_span_of(self->len != 0 ? self->data + self->start : NULL, self->len);
}

#endif
