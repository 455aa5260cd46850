/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The outgoing queue of one socket: see fdqueue.h.
 *
 * Happy path: append copies the bytes into the last block or into one new block; get returns
 * pieces; consume frees the blocks that are sent. A descriptor always begins a block. Failures: an
 * append that fails has changed nothing. Ownership: the queue owns blocks and the duplicates of
 * descriptors. Limits: PFL_FDQUEUE_MAX_FDS; bytes are limited by the caller.
 */
#include "base/io/fdqueue.h"

#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* Small writes share a block of at least this much. */
#define BLOCK_MIN_BYTES 2048u

struct block {
    struct pfl_list node;
    int fd; /* owned; goes with data[start]; -1 none */
    size_t start;
    size_t end;
    size_t capacity;
    uint8_t data[];
};

static struct block *block_of(const struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct block, node);
}

void pfl_fdqueue_init(struct pfl_fdqueue *self)
{
    *self = (struct pfl_fdqueue){.bytes = 0};
    pfl_list_init(&self->blocks);
}

static void drop_fd(struct pfl_fdqueue *self, struct block *b)
{
    if (b->fd < 0)
        return;
    close(b->fd);
    b->fd = -1;
    self->fds--;
}

static void free_block(struct pfl_fdqueue *self, struct block *b)
{
    drop_fd(self, b);
    pfl_list_remove(&b->node);
    pfl_mem_free(b);
}

void pfl_fdqueue_fini(struct pfl_fdqueue *self)
{
    if (self->blocks.next == NULL)
        return;
    while (!pfl_list_is_empty(&self->blocks))
        free_block(self, block_of(self->blocks.next));
    self->bytes = 0;
}

/* Copies iov[skip ..) to `dst`. */
static void copy_iov(uint8_t *dst, const struct iovec *iov, int iov_len, size_t skip)
{
    for (int i = 0; i < iov_len; i++) {
        size_t len = iov[i].iov_len;

        if (skip >= len) {
            skip -= len;
            continue;
        }
        memcpy(dst, (const uint8_t *)iov[i].iov_base + skip, len - skip);
        dst += len - skip;
        skip = 0;
    }
}

static int add_block(struct pfl_fdqueue *self, size_t len, int fd, struct block **ret_block)
{
    size_t capacity = len > BLOCK_MIN_BYTES || fd >= 0 ? len : BLOCK_MIN_BYTES;
    struct block *b;

    if (fd >= 0 && self->fds >= PFL_FDQUEUE_MAX_FDS)
        return PFL_ELIMIT;
    b = pfl_mem_alloc(sizeof(*b) + capacity);
    if (b == NULL)
        return PFL_ENOMEM;
    *b = (struct block){.fd = -1, .capacity = capacity};
    if (fd >= 0) {
        b->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (b->fd < 0) {
            pfl_mem_free(b);
            return PFL_EIO;
        }
        self->fds++;
    }
    pfl_list_append(&self->blocks, &b->node);
    *ret_block = b;
    return 0;
}

int pfl_fdqueue_append(struct pfl_fdqueue *self, const struct iovec *iov, int iov_len, size_t skip,
                       int fd)
{
    struct block *b = NULL;
    size_t len = 0;
    int rc;

    for (int i = 0; i < iov_len; i++)
        len += iov[i].iov_len;
    assert(skip <= len);
    len -= skip;
    if (len == 0)
        return 0;
    if (fd < 0 && !pfl_list_is_empty(&self->blocks)) {
        b = block_of(self->blocks.prev);
        if (b->capacity - b->end < len)
            b = NULL;
    }
    if (b == NULL) {
        rc = add_block(self, len, fd, &b);
        if (rc != 0)
            return rc;
    }
    copy_iov(b->data + b->end, iov, iov_len, skip);
    b->end += len;
    self->bytes += len;
    return 0;
}

int pfl_fdqueue_get(const struct pfl_fdqueue *self, struct iovec *iov, int max, int *ret_fd)
{
    const struct pfl_list *it;
    int n = 0;

    *ret_fd = -1;
    PFL_LIST_EACH (it, &self->blocks) {
        struct block *b = block_of(it);

        if (n == max || (n > 0 && b->fd >= 0))
            break;
        if (n == 0)
            *ret_fd = b->fd;
        iov[n].iov_base = b->data + b->start;
        iov[n].iov_len = b->end - b->start;
        n++;
    }
    return n;
}

void pfl_fdqueue_consume(struct pfl_fdqueue *self, size_t len)
{
    assert(len <= self->bytes);
    self->bytes -= len;
    while (len > 0) {
        struct block *b = block_of(self->blocks.next);
        size_t n = b->end - b->start;

        if (len < n) {
            drop_fd(self, b);
            b->start += len;
            return;
        }
        len -= n;
        free_block(self, b);
    }
}
