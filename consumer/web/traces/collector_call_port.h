/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of one page to a collector at the relay: finds the collector by its name, or takes the
 * only one; sends requests; passes replies to the page. All calls but on_done come from the loop.
 */
#ifndef PFL_CONSUMER_WEB_TRACES_COLLECTOR_CALL_PORT_H
#define PFL_CONSUMER_WEB_TRACES_COLLECTOR_CALL_PORT_H

#include "perfleet/collector.pb-c.h"
#include "tunnel/client.h"

struct pfl_collector_call;

struct pfl_collector_call_conf {
    uv_loop_t *loop;
    struct pfl_tunnel_client *tunnel; /* borrowed until on_done */
    const char *collector;            /* NULL: the only one; borrowed until on_done */
    uint64_t timeout_ms;              /* until the next reply */
    /* Send requests now; perhaps before open has returned `call`. */
    void (*on_ready)(void *user, struct pfl_collector_call *call);
    /* A reply, or a part of one; borrowed until return. May send and end. */
    void (*on_reply)(void *user, const Perfleet__CollectorReply *reply);
    /* Last callback, from the loop; the call may be freed. */
    void (*on_done)(void *user);
    void *user;
};

/* PFL_ENOMEM: no callback comes. */
PFL_MUST_USE int pfl_collector_call_open(const struct pfl_collector_call_conf *conf,
                                         struct pfl_collector_call **ret_call);
/* The request's id; 0: it could not be sent, and the call ends. */
uint32_t pfl_collector_call_send(struct pfl_collector_call *self,
                                 Perfleet__CollectorRequest *request);
/* No reply is awaited until the next request. */
void pfl_collector_call_rest(struct pfl_collector_call *self);
/* `why`: "" for success, else why not; the first one counts. on_done follows. Idempotent. */
void pfl_collector_call_end(struct pfl_collector_call *self, const char *why);
/* The sentence of a reply that refuses. Borrowed until the next call. */
const char *pfl_collector_call_quote_why(const Perfleet__CollectorReply *reply);
/* After on_done: false, the relay has no collector. */
bool pfl_collector_call_has_collector(const struct pfl_collector_call *self);
/* "" or why it failed; borrowed until free. */
const char *pfl_collector_call_get_why(const struct pfl_collector_call *self);
void pfl_collector_call_free(struct pfl_collector_call *self); /* after on_done; NULL is legal */

#endif
