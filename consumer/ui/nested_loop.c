/* SPDX-License-Identifier: Apache-2.0 */
/* A libuv loop inside another: see nested_loop.h. Owns the inner loop and three handles on the
 * outer one, until on_closed. */
#include "consumer/ui/nested_loop.h"

#include "base/io/loop.h"

static void on_timer(uv_timer_t *handle)
{
    (void)handle; /* the next prepare turns it */
}

static void turn(struct pfl_nested_loop *l)
{
    int timeout_ms;

    if (l->is_closing)
        return;
    l->turns++;
    (void)uv_run(&l->inner, UV_RUN_NOWAIT);
    timeout_ms = l->on_turn(l->user) ? 0 : uv_backend_timeout(&l->inner);
    if (timeout_ms >= 0)
        (void)uv_timer_start(&l->timer, on_timer, (uint64_t)timeout_ms, 0);
}

static void on_prepare(uv_prepare_t *handle)
{
    turn(handle->data);
}

static void on_inner_ready(uv_poll_t *handle, int status, int events)
{
    (void)handle; /* the next prepare turns it */
    (void)status;
    (void)events;
}

int pfl_nested_loop_open(struct pfl_nested_loop *self, uv_loop_t *outer)
{
    if (pfl_loop_init(&self->inner) != 0)
        return PFL_EIO;
    (void)uv_poll_init(outer, &self->poll, uv_backend_fd(&self->inner));
    (void)uv_prepare_init(outer, &self->prepare);
    (void)uv_timer_init(outer, &self->timer);
    self->poll.data = self->prepare.data = self->timer.data = self;
    self->handles = 3;
    (void)uv_poll_start(&self->poll, UV_READABLE, on_inner_ready);
    (void)uv_prepare_start(&self->prepare, on_prepare);
    return 0;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_nested_loop *l = handle->data;

    if (--l->handles == 0)
        l->on_closed(l->user);
}

void pfl_nested_loop_close(struct pfl_nested_loop *self)
{
    self->is_closing = true;
    (void)uv_loop_close(&self->inner);
    uv_close((uv_handle_t *)&self->poll, on_handle_closed);
    uv_close((uv_handle_t *)&self->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&self->timer, on_handle_closed);
}
