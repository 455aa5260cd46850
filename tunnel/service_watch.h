/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the tracing service of this host for its figures when somebody wants them, over its
 * consumer socket, as any consumer could: at most once in PFL_SERVICE_WATCH_FRESH_MS, on a
 * connection of its own that has no session. Works before perfleetd and before Perfetto's service.
 */
#ifndef PFL_TUNNEL_SERVICE_WATCH_H
#define PFL_TUNNEL_SERVICE_WATCH_H

#include <uv.h>

#include "tunnel/service_view.h"

#define PFL_SERVICE_WATCH_FRESH_MS     1000u
#define PFL_SERVICE_WATCH_TIMEOUT_MS   2000u       /* of one question, connecting and all */
#define PFL_SERVICE_WATCH_ANSWER_BYTES (16u << 20) /* of all its replies */

struct pfl_service_watch;

struct pfl_service_watch_conf {
    uv_loop_t *loop;             /* borrowed */
    const char *socket;          /* borrowed until close: path or "@name" */
    void (*on_done)(void *user); /* what is known is as fresh as it can be */
    void *user;                  /* borrowed until close */
};

/* Asks nothing yet. PFL_ENOMEM. */
PFL_MUST_USE int pfl_service_watch_open(const struct pfl_service_watch_conf *conf,
                                        struct pfl_service_watch **ret_watch);
/* True: what is known is fresh. False: the service is being asked, and on_done will come, from the
 * loop. A service that does not answer, or not in time, is fresh as well: it is not known. */
bool pfl_service_watch_ask(struct pfl_service_watch *self);
/* Borrowed until close. */
const struct pfl_service_view *pfl_service_watch_get(const struct pfl_service_watch *self);
/* Asynchronous: no callback any more; frees itself from the loop. NULL is legal. */
void pfl_service_watch_close(struct pfl_service_watch *self);

#endif
