/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop's turns: see loop_watch.h. A turn is the time between two waits, less the time that the
 * loop waited. Failures: none. Ownership: the caller's storage.
 */
#include "base/io/loop_watch.h"

#include <sys/resource.h>

#define NS_PER_S  1000000000u
#define NS_PER_US 1000u

static void on_turn(uv_prepare_t *handle)
{
    struct pfl_loop_watch *self = handle->data;
    uint64_t now_ns = uv_hrtime();
    uint64_t idle_ns = uv_metrics_idle_time(handle->loop);
    uint64_t passed_ns = now_ns - self->turn_ns;
    uint64_t waited_ns = idle_ns - self->idle_ns;
    uint64_t turn_ns = passed_ns > waited_ns ? passed_ns - waited_ns : 0;

    self->turn_ns = now_ns;
    self->idle_ns = idle_ns;
    self->busy_ns += turn_ns;
    if (turn_ns > self->longest_ns)
        self->longest_ns = turn_ns;
}

void pfl_loop_watch_start(struct pfl_loop_watch *self, uv_loop_t *loop)
{
    if (self->is_open)
        return;
    (void)uv_loop_configure(loop, UV_METRICS_IDLE_TIME);
    (void)uv_prepare_init(loop, &self->turn);
    self->is_open = true;
    self->turn.data = self;
    self->turn_ns = uv_hrtime();
    self->idle_ns = uv_metrics_idle_time(loop);
    (void)uv_prepare_start(&self->turn, on_turn);
    uv_unref((uv_handle_t *)&self->turn);
}

static uint64_t ns_of(struct timeval t)
{
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_usec * NS_PER_US;
}

void pfl_loop_watch_look(struct pfl_loop_watch *self, struct pfl_loop_look *ret_look)
{
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    *ret_look = (struct pfl_loop_look){
        .busy_ns = self->busy_ns,
        .longest_ns = self->longest_ns,
        .cpu_ns = ns_of(usage.ru_utime) + ns_of(usage.ru_stime),
    };
    self->longest_ns = 0;
}

static void on_turn_closed(uv_handle_t *handle)
{
    struct pfl_loop_watch *self = handle->data;

    if (self->on_closed != NULL)
        self->on_closed(self->user);
}

bool pfl_loop_watch_close(struct pfl_loop_watch *self, void (*on_closed)(void *user), void *user)
{
    if (!self->is_open)
        return false;
    self->is_open = false;
    self->on_closed = on_closed;
    self->user = user;
    uv_close((uv_handle_t *)&self->turn, on_turn_closed);
    return true;
}
