/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes notes from threads to the loop, by an eventfd. libuv's uv_async makes the loop spin until
 * the sender returns from its write; a preempted or nice sender makes it spin for milliseconds.
 */
#ifndef PFL_BASE_IO_WAKEUP_H
#define PFL_BASE_IO_WAKEUP_H

#include <stdatomic.h>
#include <uv.h>

#include "base/err.h"

/* Part of the thread's own object. */
struct pfl_wakeup_note {
    struct pfl_wakeup_note *next;                  /* wakeup's */
    void (*on_note)(struct pfl_wakeup_note *note); /* called on the loop; may free the note */
};

struct pfl_wakeup {
    uv_poll_t poll;
    int fd;                                  /* owned */
    _Atomic(struct pfl_wakeup_note *) notes; /* the newest first */
    unsigned holds;
    void (*on_closed)(struct pfl_wakeup *self);
};

/* `self` must stay where it is until the loop has run after the close. PFL_EIO. */
PFL_MUST_USE int pfl_wakeup_open(struct pfl_wakeup *self, uv_loop_t *loop);
/* Call when no thread posts any more, and nothing is held. */
void pfl_wakeup_close(struct pfl_wakeup *self);
/* The same; `on_closed` is called when the loop has released it. */
void pfl_wakeup_close_to(struct pfl_wakeup *self, void (*on_closed)(struct pfl_wakeup *self));
/* On the loop: calls on_note for what was posted until now. */
void pfl_wakeup_hand_out(struct pfl_wakeup *self);

/* From any thread. on_note follows, once, in the order of posting; until then the note is not
 * posted again. */
void pfl_wakeup_post(struct pfl_wakeup *self, struct pfl_wakeup_note *note);

/* On the loop: keeps the loop alive until it is released. */
void pfl_wakeup_hold(struct pfl_wakeup *self);
void pfl_wakeup_release(struct pfl_wakeup *self);

#endif
