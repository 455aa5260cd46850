/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes from threads: see wakeup.h.
 *
 * post puts the note on a lock-free list, and writes to the eventfd if the list was empty;
 * otherwise a wake-up is already pending. The loop reads the eventfd, takes the whole list,
 * reverses it and calls on_note for each. No thread waits for another.
 * Failures: only at open, if no descriptor is available. Owns the descriptor; posters own their
 * notes.
 */
#include "base/io/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Acquire: pairs with the release in post, of this note and, as changes pass on what the value
 * before them carried, of all before it. */
static struct pfl_wakeup_note *take_all(struct pfl_wakeup *self)
{
    struct pfl_wakeup_note *newest =
        atomic_exchange_explicit(&self->notes, NULL, memory_order_acquire);
    struct pfl_wakeup_note *oldest = NULL;

    while (newest != NULL) {
        struct pfl_wakeup_note *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

void pfl_wakeup_hand_out(struct pfl_wakeup *self)
{
    struct pfl_wakeup_note *note = take_all(self);

    while (note != NULL) {
        struct pfl_wakeup_note *next = note->next;

        note->on_note(note);
        note = next;
    }
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct pfl_wakeup *self = poll->data;
    uint64_t count;

    (void)status;
    (void)events;
    if (read(self->fd, &count, sizeof(count)) >= 0)
        pfl_wakeup_hand_out(self);
}

int pfl_wakeup_open(struct pfl_wakeup *self, uv_loop_t *loop)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (fd < 0)
        return PFL_EIO;
    *self = (struct pfl_wakeup){.fd = fd};
    if (uv_poll_init(loop, &self->poll, fd) != 0) {
        (void)close(fd);
        return PFL_EIO;
    }
    self->poll.data = self;
    (void)uv_poll_start(&self->poll, UV_READABLE, on_poll);
    uv_unref((uv_handle_t *)&self->poll);
    return 0;
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct pfl_wakeup *self = handle->data;

    self->on_closed(self);
}

void pfl_wakeup_close_to(struct pfl_wakeup *self, void (*on_closed)(struct pfl_wakeup *self))
{
    assert(self->holds == 0);
    self->on_closed = on_closed;
    uv_close((uv_handle_t *)&self->poll, on_closed != NULL ? on_poll_closed : NULL);
    (void)close(self->fd);
}

void pfl_wakeup_close(struct pfl_wakeup *self)
{
    pfl_wakeup_close_to(self, NULL);
}

void pfl_wakeup_post(struct pfl_wakeup *self, struct pfl_wakeup_note *note)
{
    static const uint64_t one = 1;
    struct pfl_wakeup_note *newest = atomic_load_explicit(&self->notes, memory_order_relaxed);

    do {
        note->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&self->notes, &newest, note,
                                                    memory_order_release, memory_order_relaxed));
    /* From here on the note may be gone. */
    if (newest != NULL)
        return;
    while (write(self->fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

void pfl_wakeup_hold(struct pfl_wakeup *self)
{
    if (self->holds++ == 0)
        uv_ref((uv_handle_t *)&self->poll);
}

void pfl_wakeup_release(struct pfl_wakeup *self)
{
    assert(self->holds != 0);
    if (--self->holds == 0)
        uv_unref((uv_handle_t *)&self->poll);
}
