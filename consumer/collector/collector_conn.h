/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream to a collector through the relay (proto/perfleet/collector.proto): requests out, replies
 * in. Several requests may be under way. When the stream breaks, the owner opens another one and
 * asks again. Callbacks run from the loop.
 */
#ifndef PFL_CONSUMER_COLLECTOR_CONN_H
#define PFL_CONSUMER_COLLECTOR_CONN_H

#include "perfleet/collector.pb-c.h"
#include "tunnel/client.h"

struct pfl_collector_conn;

struct pfl_collector_conn_conf {
    uv_loop_t *loop;
    struct pfl_tunnel_client *tunnel; /* borrowed until on_closed */
    const char *name;                 /* the collector's; borrowed until open returns */
    /* One reply, or a part of one; borrowed until return. May send, pause and close. */
    void (*on_reply)(void *user, const Perfleet__CollectorReply *reply);
    /* Last callback; then it is freed. `why`: "" after pfl_collector_conn_close. */
    void (*on_closed)(void *user, const char *why);
    void *user;
};

/* Requests may be sent at once. PFL_ENOMEM, PFL_EINVAL (no name). */
PFL_MUST_USE int pfl_collector_conn_open(const struct pfl_collector_conn_conf *conf,
                                         struct pfl_collector_conn **ret_conn);
/* Sets the request's id and sends it. PFL_ELIMIT: too large, or too much is unsent; PFL_ENOMEM,
 * PFL_ESTATE: it is closing. */
PFL_MUST_USE int pfl_collector_conn_send(struct pfl_collector_conn *self,
                                         Perfleet__CollectorRequest *request);
/* While paused the collector is held back. */
void pfl_collector_conn_pause(struct pfl_collector_conn *self, bool is_paused);
/* Idempotent; on_closed follows. */
void pfl_collector_conn_close(struct pfl_collector_conn *self);

/* Reads the relay's answer to GET /v1/collectors: how many collectors it names. `ret_name` (room
 * for name_len) gets the last one's name. */
size_t pfl_collector_conn_read_names(struct pfl_span answer, char *ret_name, size_t name_len);

#endif
