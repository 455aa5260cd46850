/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatches calls of stream.h to a stream's implementation. No state; fails only as the
 * implementation fails.
 */
#include "base/io/stream.h"

#include <assert.h>
#include <string.h>

#include "base/io/stream_impl.h"

bool pfl_stream_sum_iov(const struct iovec *iov, int iov_len, size_t *ret_bytes)
{
    size_t sum = 0;

    if (iov_len < 0)
        return false;
    for (int i = 0; i < iov_len; i++) {
        if (iov[i].iov_len > SIZE_MAX / 2 - sum)
            return false;
        sum += iov[i].iov_len;
    }
    *ret_bytes = sum;
    return true;
}

int pfl_stream_writev(struct pfl_stream *self, const struct iovec *iov, int iov_len, int fd)
{
    return self->vtable->writev(self, iov, iov_len, fd);
}

size_t pfl_stream_queued_bytes(const struct pfl_stream *self)
{
    return self->vtable->queued_bytes(self);
}

bool pfl_stream_may_go_on(struct pfl_stream *self)
{
    return self->vtable->may_go_on == NULL || self->vtable->may_go_on(self);
}

void pfl_stream_read_stop(struct pfl_stream *self)
{
    self->vtable->read_stop(self);
}

void pfl_stream_read_start(struct pfl_stream *self)
{
    self->vtable->read_start(self);
}

void pfl_stream_shutdown(struct pfl_stream *self)
{
    self->vtable->shutdown(self);
}

void pfl_stream_close(struct pfl_stream *self)
{
    self->vtable->close(self);
}

void pfl_stream_close_after_flush(struct pfl_stream *self, uint64_t timeout_ms)
{
    self->vtable->close_after_flush(self, timeout_ms);
}

int pfl_stream_get_errno(const struct pfl_stream *self)
{
    return self->vtable->get_errno(self);
}

const char *pfl_stream_get_error(const struct pfl_stream *self)
{
    return self->vtable->get_error != NULL ? self->vtable->get_error(self) : "";
}

void pfl_stream_set_user(struct pfl_stream *self, const struct pfl_stream_ops *ops, void *user)
{
    assert(ops != NULL && ops->on_closed != NULL);
    self->ops = ops;
    self->user = user;
}

size_t pfl_stream_gather(uint8_t *dst, size_t max, const struct iovec **iov, int *iov_len,
                         size_t *skip)
{
    size_t n = 0;

    while (*iov_len > 0 && n < max) {
        size_t left = (*iov)->iov_len - *skip;
        size_t take = left < max - n ? left : max - n;

        if (take != 0)
            memcpy(dst + n, (const uint8_t *)(*iov)->iov_base + *skip, take);
        n += take;
        *skip += take;
        if (take == left) {
            (*iov)++;
            (*iov_len)--;
            *skip = 0;
        }
    }
    return n;
}
