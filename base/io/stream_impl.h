/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of an implementation of stream.h: a table, and this struct as its first member. For
 * fdsock.c, tls_stream.c and stream.c alone.
 */
#ifndef PFL_BASE_IO_STREAM_IMPL_H
#define PFL_BASE_IO_STREAM_IMPL_H

#include "base/io/stream.h"

struct pfl_stream_vtable {
    int (*writev)(struct pfl_stream *self, const struct iovec *iov, int iov_len, int fd);
    size_t (*queued_bytes)(const struct pfl_stream *self);
    void (*read_stop)(struct pfl_stream *self);
    void (*read_start)(struct pfl_stream *self);
    void (*shutdown)(struct pfl_stream *self);
    void (*close)(struct pfl_stream *self);
    void (*close_after_flush)(struct pfl_stream *self, uint64_t timeout_ms);
    int (*get_errno)(const struct pfl_stream *self);
    const char *(*get_error)(const struct pfl_stream *self); /* NULL: it has no texts */
    bool (*may_go_on)(struct pfl_stream *self);              /* NULL: always */
};

struct pfl_stream {
    const struct pfl_stream_vtable *vtable; /* static */
    const struct pfl_stream_ops *ops;       /* borrowed from the owner; static */
    void *user;                             /* borrowed from the owner until on_closed */
};

/* Sum of the lengths; false if it overflows or `iov_len` is invalid. */
bool pfl_stream_sum_iov(const struct iovec *iov, int iov_len, size_t *ret_bytes);
/* At most `max` bytes of the pieces, `*skip` of the first left out, to `dst`; advances all three.
 * Returns how many. */
size_t pfl_stream_gather(uint8_t *dst, size_t max, const struct iovec **iov, int *iov_len,
                         size_t *skip);

#endif
