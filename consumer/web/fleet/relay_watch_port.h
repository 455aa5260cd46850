/* SPDX-License-Identifier: Apache-2.0 */
/* Asks a relay for its own figures every few seconds, and keeps those of the last hour. */
#ifndef PFL_CONSUMER_WEB_FLEET_RELAY_WATCH_PORT_H
#define PFL_CONSUMER_WEB_FLEET_RELAY_WATCH_PORT_H

#include "consumer/web/fleet/fleet_history.h"
#include "tunnel/client.h"

#define PFL_RELAY_WATCH_PERIOD_MS 10000u /* PFL_FLEET_HISTORY_LEN of them are kept */

struct pfl_relay_watch;

struct pfl_relay_watch_conf {
    uv_loop_t *loop;
    struct pfl_tunnel_client *tunnel; /* borrowed until on_closed */
    uint64_t period_ms;               /* 0: PFL_RELAY_WATCH_PERIOD_MS */
    void (*on_closed)(void *user);    /* last callback; it is freed after it */
    void *user;
};

PFL_MUST_USE int pfl_relay_watch_open(const struct pfl_relay_watch_conf *conf,
                                      struct pfl_relay_watch **ret_watch);
/* NULL: it never sent them. Borrowed until control returns to the loop. */
const struct pfl_relay_facts *pfl_relay_watch_get(const struct pfl_relay_watch *self);
/* "" or why it did not send them now, and what to do. Borrowed likewise. */
const char *pfl_relay_watch_get_why(const struct pfl_relay_watch *self);
const struct pfl_fleet_history *pfl_relay_watch_get_history(const struct pfl_relay_watch *self);
/* Asynchronous, idempotent. */
void pfl_relay_watch_close(struct pfl_relay_watch *self);

#endif
