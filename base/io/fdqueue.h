/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that a socket did not accept yet, in order, with descriptors at their places. A list of
 * blocks: sent blocks are freed at once, an empty queue owns nothing.
 */
#ifndef PFL_BASE_IO_FDQUEUE_H
#define PFL_BASE_IO_FDQUEUE_H

#include <sys/uio.h>

#include "base/err.h"
#include "base/list.h"

/* Descriptors waiting in one queue; each is an open file of ours. */
#define PFL_FDQUEUE_MAX_FDS 16u

struct pfl_fdqueue {
    struct pfl_list blocks; /* owned */
    size_t bytes;
    unsigned fds;
};

void pfl_fdqueue_init(struct pfl_fdqueue *self);
/* Drops everything and closes the waiting descriptors. */
void pfl_fdqueue_fini(struct pfl_fdqueue *self);
/*
 * Appends the bytes of `iov` except the first `skip`; `fd` (or -1) is duplicated and sent with the
 * first appended byte. PFL_ENOMEM, PFL_ELIMIT (too many descriptors), PFL_EIO (dup failed); then
 * nothing was appended. The caller limits the bytes.
 */
PFL_MUST_USE int pfl_fdqueue_append(struct pfl_fdqueue *self, const struct iovec *iov, int iov_len,
                                    size_t skip, int fd);
/*
 * The next bytes for one sendmsg, at most `max` pieces, borrowed until consumed; `ret_fd`
 * (borrowed, or -1) belongs with the first of them. Returns the number of pieces, 0 when empty.
 */
int pfl_fdqueue_get(const struct pfl_fdqueue *self, struct iovec *iov, int max, int *ret_fd);
/* The first `len` bytes were sent, and with them the descriptor that pfl_fdqueue_get returned. */
void pfl_fdqueue_consume(struct pfl_fdqueue *self, size_t len);

#endif
