/* SPDX-License-Identifier: Apache-2.0 */
/* Direct mode: operators' connections to the consumer socket of this host, byte for byte. */
#ifndef PFL_RELAY_DIRECT_DIRECT_PORT_H
#define PFL_RELAY_DIRECT_DIRECT_PORT_H

#include "base/io/stream.h"
#include "proto/gate/policy.h"
#include "proto/tunnel/identity.h"
#include "relay/hub/traffic.h"
#include "relay/policy/audit_log_port.h"
#include "relay/policy/quota.h"

struct pfl_direct;

struct pfl_direct_conf {
    uv_loop_t *loop;
    const char *consumer_socket;   /* borrowed until free */
    const char *host;              /* our name, for the policy; copied */
    struct pfl_audit_log *audit;   /* borrowed until free */
    struct pfl_quotas *quotas;     /* borrowed until free */
    struct pfl_input_turns *turns; /* of all connections; borrowed until free */
    unsigned max_per_operator;     /* connections of one operator at a time */
    uint64_t half_closed_timeout_ms;
};

PFL_MUST_USE int pfl_direct_new(const struct pfl_direct_conf *conf, struct pfl_direct **ret_direct);
/* After the last connection's on_ended. NULL is legal. */
void pfl_direct_free(struct pfl_direct *self);
/* From now on this is the policy (borrowed until the next one; NULL allows all). Connections that
 * it forbids end, the others get their role of it. */
void pfl_direct_set_policy(struct pfl_direct *self, const struct pfl_policy *policy);

struct pfl_direct_peer_conf {
    struct pfl_stream *stream; /* a TLS stream that is ready (direct_proxy.h); taken on success */
    const struct pfl_identity *identity; /* verified: an operator of the fleet; copied */
    const char *uri;                     /* the same, as in the certificate; copied */
    const char *address;                 /* copied */
    uint64_t start_ms;                   /* when it came */
    void (*on_ended)(void *user);        /* last one */
    void *user;
};

/* Negative: refused, *ret_refusal says why; its reason is NULL when that was logged already. */
PFL_MUST_USE int pfl_direct_take(struct pfl_direct *self, const struct pfl_direct_peer_conf *conf,
                                 struct pfl_identity_refusal *ret_refusal);
/* Ends the connection with this `user`. */
void pfl_direct_drop(struct pfl_direct *self, const void *user);
/* Ends all. */
void pfl_direct_close(struct pfl_direct *self);
/* Adds what it has carried. */
void pfl_direct_add_traffic(const struct pfl_direct *self, struct pfl_traffic *traffic);

#endif
