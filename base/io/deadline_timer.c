/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deadline by timerfd: see deadline_timer.h.
 *
 * set arms the descriptor, whose readiness the loop reports like any other; on_deadline is called
 * from the loop, with nothing set. Setting the same time again does nothing. Fails only at open, if
 * no descriptor is available. Owns the descriptor.
 */
#include "base/io/deadline_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct pfl_deadline_timer *self = poll->data;
    uint64_t expirations;

    (void)status;
    (void)events;
    if (read(self->fd, &expirations, sizeof(expirations)) < 0)
        return; /* set again since it expired */
    self->at_ms = PFL_DEADLINE_NEVER;
    self->on_deadline(self->user);
}

int pfl_deadline_timer_open(struct pfl_deadline_timer *self, uv_loop_t *loop,
                            void (*on_deadline)(void *user), void *user)
{
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

    if (fd < 0)
        return PFL_EIO;
    *self = (struct pfl_deadline_timer){
        .fd = fd, .at_ms = PFL_DEADLINE_NEVER, .on_deadline = on_deadline, .user = user};
    if (uv_poll_init(loop, &self->poll, fd) != 0) {
        (void)close(fd);
        return PFL_EIO;
    }
    self->poll.data = self;
    (void)uv_poll_start(&self->poll, UV_READABLE, on_poll);
    return 0;
}

void pfl_deadline_timer_set(struct pfl_deadline_timer *self, uint64_t at_ms)
{
    uint64_t ms = at_ms != 0 ? at_ms : 1; /* 0 disarms */
    struct itimerspec spec = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000)}};

    if (at_ms == self->at_ms)
        return;
    if (at_ms == PFL_DEADLINE_NEVER)
        spec = (struct itimerspec){0};
    self->at_ms = at_ms;
    (void)timerfd_settime(self->fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

void pfl_deadline_timer_close(struct pfl_deadline_timer *self)
{
    uv_close((uv_handle_t *)&self->poll, NULL);
    (void)close(self->fd);
}
