/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the handshakes of all ports on one loop in turns: measures their CPU time, reports it to
 * pending_handshakes.h, and resumes the ones that it lets continue. A turn of the loop computes
 * steps for at most PFL_HANDSHAKE_TURN_US, and at least one; others are served in between. Refusals
 * are logged (limited) and counted. Connections whose handshake is done have the turns of their
 * input here.
 */
#ifndef PFL_BASE_IO_HANDSHAKE_QUEUE_H
#define PFL_BASE_IO_HANDSHAKE_QUEUE_H

#include <uv.h>

#include "base/io/input_turns.h"
#include "base/metrics.h"
#include "base/pending_handshakes.h"

#define PFL_HANDSHAKE_TURN_US 2000u

struct pfl_handshake_queue;

/* One handshake: part of its stream. */
struct pfl_handshake_turn {
    struct pfl_pending_handshake handshake;
    /* Called from the loop: pfl_handshake_queue_begin may be called, and will return true. */
    void (*on_turn)(void *user);
    /* It was removed to make room for a newer one. May be called from within another's add. */
    void (*on_evicted)(void *user);
    void *user;
    bool is_kept; /* its connection keeps the address proven */
};

/* `max` unfinished at a time, but at most a quarter of the limit of open files; `per_min` begun by
 * one address, 0: no limit. Keeps no loop alive. PFL_ENOMEM. */
PFL_MUST_USE int pfl_handshake_queue_open(uv_loop_t *loop, unsigned max, unsigned per_min,
                                          struct pfl_handshake_queue **ret_queue);
/* Asynchronous: freed with the last handshake and the last kept connection. NULL is legal. */
void pfl_handshake_queue_close(struct pfl_handshake_queue *self);
/* The maximum of unfinished handshakes. */
unsigned pfl_handshake_queue_get_max(const struct pfl_handshake_queue *self);

/* For the input of connections after their handshake. */
struct pfl_input_turns *pfl_handshake_queue_get_turns(const struct pfl_handshake_queue *self);

/* Adds a handshake on the socket `fd`; the callbacks are set. PFL_EAGAIN: its address has to wait
 * (logged). */
PFL_MUST_USE int pfl_handshake_queue_add(struct pfl_handshake_queue *self,
                                         struct pfl_handshake_turn *turn, int fd);
/* True: compute its next step now and call pfl_handshake_queue_end. False: on_turn follows. */
bool pfl_handshake_queue_begin(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn);
void pfl_handshake_queue_end(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn);
/* The handshake is done, and the peer authenticated as `identity`: its address is proven as long as
 * its connection lives. Call repeatedly, at least once within PFL_PENDING_HANDSHAKES_PROVEN_MS,
 * until remove. False, at the first call: that identity connects too often (logged): it counts as
 * a stranger's handshake, and is removed. */
bool pfl_handshake_queue_keep(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn,
                              const char *identity);
/* The handshake, or its connection, is over. Idempotent. */
void pfl_handshake_queue_remove(struct pfl_handshake_queue *self, struct pfl_handshake_turn *turn);

void pfl_handshake_queue_collect(const struct pfl_handshake_queue *self,
                                 struct pfl_metrics *metrics);

#endif
