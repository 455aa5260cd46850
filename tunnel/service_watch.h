/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries the tracing service of this host on demand, over its consumer socket, like any consumer:
 * at most once in PFL_SERVICE_WATCH_FRESH_MS, on a connection of its own without a session. Works
 * with perfleetd and with Perfetto's service.
 */
#ifndef PFL_TUNNEL_SERVICE_WATCH_H
#define PFL_TUNNEL_SERVICE_WATCH_H

#include <uv.h>

#include "tunnel/service_view.h"

#define PFL_SERVICE_WATCH_FRESH_MS     1000u
#define PFL_SERVICE_WATCH_TIMEOUT_MS   2000u       /* of one query, including the connect */
#define PFL_SERVICE_WATCH_ANSWER_BYTES (16u << 20) /* of all its replies */

struct pfl_service_watch;

struct pfl_service_watch_conf {
    uv_loop_t *loop;             /* borrowed */
    const char *socket;          /* borrowed until close: path or "@name" */
    void (*on_done)(void *user); /* the data is as fresh as possible */
    void *user;                  /* borrowed until close */
};

/* Queries nothing yet. PFL_ENOMEM. */
PFL_MUST_USE int pfl_service_watch_open(const struct pfl_service_watch_conf *conf,
                                        struct pfl_service_watch **ret_watch);
/* True: the data is fresh. False: a query runs, and on_done follows from the loop. A service that
 * does not answer in time counts as fresh, too: it is unknown. */
bool pfl_service_watch_ask(struct pfl_service_watch *self);
/* Borrowed until close. */
const struct pfl_service_view *pfl_service_watch_get(const struct pfl_service_watch *self);
/* Asynchronous: no further callbacks; frees itself from the loop. NULL is legal. */
void pfl_service_watch_close(struct pfl_service_watch *self);

#endif
