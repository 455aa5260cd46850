/* SPDX-License-Identifier: Apache-2.0 */
/* The recording stream owner: see endpoint.h. ctest ends a test that waits forever. */
#include "tests/unit/base/io/endpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"

static void on_data(void *user, struct pfl_span data)
{
    struct endpoint *e = user;

    assert_false(e->is_inside_call);
    assert_int_equal(e->closes, 0);
    assert_true(data.len > 0);
    e->data_calls++;
    e->received_bytes += data.len;
    if (!e->drops_data)
        assert_int_equal(pfl_buf_append(&e->received, data.data, data.len), 0);
    if (e->stops_in_data)
        pfl_stream_read_stop(e->stream);
    if (e->closes_in_data)
        pfl_stream_close(e->stream);
}

static void on_fd(void *user, int fd)
{
    struct endpoint *e = user;

    assert_true(e->fd_count < ENDPOINT_MAX_FDS);
    e->fd_positions[e->fd_count] = e->received_bytes;
    e->fds[e->fd_count++] = fd;
    if (e->closes_in_fd)
        pfl_stream_close(e->stream);
}

static void on_eof(void *user)
{
    struct endpoint *e = user;

    assert_false(e->is_inside_call);
    e->eofs++;
    if (e->shuts_on_eof)
        pfl_stream_shutdown(e->stream);
}

static void on_writable(void *user)
{
    struct endpoint *e = user;

    assert_false(e->is_inside_call);
    e->writables++;
}

static void on_ready(void *user)
{
    struct endpoint *e = user;

    assert_false(e->is_inside_call);
    e->readies++;
    if (e->stops_in_ready)
        pfl_stream_read_stop(e->stream);
}

static void on_closed(void *user, int err)
{
    struct endpoint *e = user;

    assert_false(e->is_inside_call);
    e->close_err = err;
    e->close_errno = pfl_stream_get_errno(e->stream);
    e->closes++;
    e->stream = NULL;
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data,
    .on_fd = on_fd,
    .on_eof = on_eof,
    .on_writable = on_writable,
    .on_ready = on_ready,
    .on_closed = on_closed,
};

void endpoint_init(struct endpoint *self, uv_loop_t *loop)
{
    *self = (struct endpoint){.loop = loop};
    pfl_buf_init(&self->received, ENDPOINT_MAX_BYTES);
}

void endpoint_fini(struct endpoint *self)
{
    assert_null(self->stream);
    for (int i = 0; i < self->fd_count; i++)
        close(self->fds[i]);
    pfl_buf_fini(&self->received);
}

struct pfl_stream_conf endpoint_conf(struct endpoint *self, size_t max, size_t low)
{
    return (struct pfl_stream_conf){
        .loop = self->loop,
        .ops = &ops,
        .user = self,
        .queue_max_bytes = max,
        .queue_low_bytes = low,
    };
}

void endpoint_open(struct endpoint *self, int fd, size_t max, size_t low)
{
    struct pfl_stream_conf conf = endpoint_conf(self, max, low);

    self->is_inside_call = true;
    assert_int_equal(pfl_fdsock_open(&conf, fd, &self->stream), 0);
    self->is_inside_call = false;
}

int endpoint_write(struct endpoint *self, const void *data, size_t len, int fd)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    int rc;

    self->is_inside_call = true;
    rc = pfl_stream_writev(self->stream, &iov, 1, fd);
    self->is_inside_call = false;
    return rc;
}

void endpoint_run_until(uv_loop_t *loop, const unsigned *counter, unsigned n)
{
    while (*counter < n) {
        if (uv_run(loop, UV_RUN_ONCE) == 0)
            assert_true(*counter >= n); /* nothing left that could bring it */
    }
}

void endpoint_run_until_bytes(struct endpoint *self, uint64_t n)
{
    while (self->received_bytes < n) {
        assert_int_equal(self->closes, 0);
        (void)uv_run(self->loop, UV_RUN_ONCE);
    }
}

void endpoint_run_ready(uv_loop_t *loop)
{
    for (int i = 0; i < 20; i++)
        (void)uv_run(loop, UV_RUN_NOWAIT);
}

void endpoint_close(struct endpoint *self)
{
    if (self->stream == NULL)
        return;
    self->is_inside_call = true;
    pfl_stream_close(self->stream);
    self->is_inside_call = false;
    endpoint_run_until(self->loop, &self->closes, 1);
}

void endpoint_end_loop(uv_loop_t *loop)
{
    (void)uv_run(loop, UV_RUN_NOWAIT);
    assert_int_equal(uv_loop_close(loop), 0);
}
