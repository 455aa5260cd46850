/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How threads give notes to the loop, by an eventfd. Instead of libuv's async handles: there the
 * loop, woken by the sender's write, spins until the sender has run once more, and a sender that
 * the loop took the CPU from, or that is nice, does so milliseconds later.
 */
#ifndef PFL_BASE_IO_WAKEUP_H
#define PFL_BASE_IO_WAKEUP_H

#include <stdatomic.h>
#include <uv.h>

#include "base/err.h"

/* Part of what the thread has to tell. */
struct pfl_wakeup_note {
    struct pfl_wakeup_note *next;                  /* wakeup's */
    void (*on_note)(struct pfl_wakeup_note *note); /* on the loop; may free the note */
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
/* No thread posts any more, and nothing is held. */
void pfl_wakeup_close(struct pfl_wakeup *self);
/* The same, and tells when the loop has let go of it. */
void pfl_wakeup_close_to(struct pfl_wakeup *self, void (*on_closed)(struct pfl_wakeup *self));
/* On the loop: what was posted until now is told now. */
void pfl_wakeup_hand_out(struct pfl_wakeup *self);

/* From any thread. on_note follows, once, in the order of posting; until then the note is not
 * posted again. */
void pfl_wakeup_post(struct pfl_wakeup *self, struct pfl_wakeup_note *note);

/* On the loop: it does not end as long as somebody holds this. */
void pfl_wakeup_hold(struct pfl_wakeup *self);
void pfl_wakeup_release(struct pfl_wakeup *self);

#endif
