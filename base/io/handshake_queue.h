/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handshakes that a process serves, of all its ports on one loop: base/pending_handshakes.h
 * says who may go on, this measures what they cost and calls those that had to wait. A turn of the
 * loop computes steps for PFL_HANDSHAKE_TURN_US at most, and at least one; others are served in
 * between. What is refused is logged (limited) and counted.
 */
#ifndef PFL_BASE_IO_HANDSHAKE_QUEUE_H
#define PFL_BASE_IO_HANDSHAKE_QUEUE_H

#include <uv.h>

#include "base/metrics.h"
#include "base/pending_handshakes.h"

#define PFL_HANDSHAKE_TURN_US 2000u

struct pfl_handshake_queue;

/* One of them: in the stream that makes it. */
struct pfl_handshake_turn {
    struct pfl_pending_handshake handshake;
    /* From the loop: pfl_handshake_queue_begin may be called, and will say yes. */
    void (*on_turn)(void *user);
    /* Made room for a newer one, and is removed. May come from within another's add. */
    void (*on_ousted)(void *user);
    void *user;
    bool is_kept; /* its connection lives */
};

/* `max` unfinished at a time, but no more than a quarter of what files may be open; `per_min` begun
 * by one address, 0: no limit. Keeps no loop alive. PFL_ENOMEM. */
PFL_MUST_USE int pfl_handshake_queue_open(uv_loop_t *loop, unsigned max, unsigned per_min,
                                          struct pfl_handshake_queue **ret_queue);
/* Asynchronous: gone with the last handshake and the last connection that is kept. NULL is legal.
 */
void pfl_handshake_queue_close(struct pfl_handshake_queue *self);
/* How many may be unfinished. */
unsigned pfl_handshake_queue_get_max(const struct pfl_handshake_queue *self);

/* One more begins on the socket `fd`; the callbacks are set. PFL_EAGAIN: its address has to wait
 * (logged). */
PFL_MUST_USE int pfl_handshake_queue_add(struct pfl_handshake_queue *self,
                                         struct pfl_handshake_turn *turn, int fd);
/* True: its next step is to be computed now, and pfl_handshake_queue_end called. False: on_turn
 * will come. */
bool pfl_handshake_queue_begin(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn);
void pfl_handshake_queue_end(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn);
/* It is done, and the peer has shown who it is: its address is proven as long as its connection
 * lives. Again and again, at least once within PFL_PENDING_HANDSHAKES_PROVEN_MS; until remove. */
void pfl_handshake_queue_keep(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn);
/* It is over, or its connection. Idempotent. */
void pfl_handshake_queue_remove(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn);

void pfl_handshake_queue_collect(const struct pfl_handshake_queue *self,
                                 struct pfl_metrics *metrics);

#endif
