/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves a live view to a browser of this user (live_view.h, hand_over_port.h): asks its owner for
 * copies of the flight recorder as the page wants them, and hands each to the same tab of the UI.
 */
#ifndef PFL_CONSUMER_LIVE_PORT_H
#define PFL_CONSUMER_LIVE_PORT_H

#include "consumer/open/hand_over_port.h"
#include "consumer/open/live_view.h"

struct pfl_live_port;

struct pfl_live_port_conf {
    uv_loop_t *loop;
    struct pfl_live_view_conf view;
    enum pfl_hand_over_way way; /* not DIRECT */
    const char *ui_url;         /* unless the way is OWN */
    const char *ui_dir;         /* if it is */
    uint16_t port;              /* 0: any */
    /* A copy is to be made: pfl_live_port_give or _fail follows. */
    void (*on_wanted)(void *user);
    void (*on_refused)(void *user, const char *why); /* as of pfl_hand_over_port_conf */
    /* It is over: close it. The page was answered why. */
    void (*on_done)(void *user, enum pfl_live_view_end end);
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* As pfl_hand_over_port_new. */
PFL_MUST_USE int pfl_live_port_new(const struct pfl_live_port_conf *conf,
                                   struct pfl_live_port **ret_port,
                                   struct pfl_hand_over_problem *ret_problem);
/* The owner makes a copy now, although no page asked for one yet. */
void pfl_live_port_begin(struct pfl_live_port *self);
/* The copy is there, in the file `path`, which may be removed now; `bytes` were read of the host.
 * As pfl_hand_over_port_replace; on failure pfl_live_port_fail is still to be called. */
PFL_MUST_USE int pfl_live_port_give(struct pfl_live_port *self, const char *path, uint64_t bytes,
                                    struct pfl_hand_over_problem *ret_problem);
/* There is no copy, as `why` says. */
void pfl_live_port_fail(struct pfl_live_port *self, uint64_t bytes, const char *why);
/* Listens. PFL_EIO (the port is taken; logged), PFL_ENOMEM. */
PFL_MUST_USE int pfl_live_port_start(struct pfl_live_port *self);
const struct pfl_hand_over *pfl_live_port_get(const struct pfl_live_port *self);
const struct pfl_live_view *pfl_live_port_get_view(const struct pfl_live_port *self);
/* Asynchronous, idempotent: on_closed follows, from the loop. */
void pfl_live_port_close(struct pfl_live_port *self);

#endif
