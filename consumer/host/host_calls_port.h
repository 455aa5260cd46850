/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to the relay for each of many hosts (GET, PUT or DELETE of /v1/hosts/HOST/...), for
 * commands and pages: at most PFL_HOST_CALLS_OPEN at a time, until no host has answered for a
 * while.
 */
#ifndef PFL_CONSUMER_HOST_CALLS_PORT_H
#define PFL_CONSUMER_HOST_CALLS_PORT_H

#include "tunnel/client.h"

#define PFL_HOST_CALLS_OPEN 64u

struct pfl_host_calls;

struct pfl_host_calls_conf {
    uv_loop_t *loop;
    struct pfl_tunnel_client *tunnel; /* borrowed until on_over, as all that follows */
    const char *method;
    const char *leaf; /* of the path: "alarms"; NULL: none */
    const char *name; /* of the path, behind it: a session; "": none */
    const struct pfl_h2_field *fields;
    size_t fields_len;
    size_t hosts_len;
    uint64_t timeout_ms; /* to the next answer, whosever */
    /* The host's name; NULL: this one is left out. */
    const char *(*get_host)(void *user, size_t host);
    /* Once for each host that is not left out, from the loop. `err`, status and body as of struct
     * pfl_tunnel_call; also PFL_ETIMEOUT (no answer in time), PFL_ESTATE (the relay is away). */
    void (*on_answer)(void *user, size_t host, int err, unsigned status, struct pfl_span body);
    /* Last callback, from the loop; the calls may be freed. */
    void (*on_over)(void *user);
    void *user;
};

/* PFL_ENOMEM: no callback comes. */
PFL_MUST_USE int pfl_host_calls_open(const struct pfl_host_calls_conf *conf,
                                     struct pfl_host_calls **ret_calls);
/* Hosts without an answer get PFL_ECLOSED, from here; on_over follows. Idempotent. */
void pfl_host_calls_end(struct pfl_host_calls *self);
void pfl_host_calls_free(struct pfl_host_calls *self); /* after on_over; NULL is legal */

/* Why a host did not do it, in words that end without a point; "" if it did. Without a detail in
 * the answer it is the status. */
void pfl_host_calls_explain(int err, unsigned status, struct pfl_span body, char *ret_why,
                            size_t why_len);

#endif
