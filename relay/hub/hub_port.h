/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet relay: agents' and operators' tunnel connections, the known hosts, and the streams
 * between operators and hosts.
 */
#ifndef PFL_RELAY_HUB_HUB_PORT_H
#define PFL_RELAY_HUB_HUB_PORT_H

#include "base/io/stream.h"
#include "proto/gate/policy.h"
#include "proto/tunnel/identity.h"
#include "relay/hub/traffic.h"
#include "relay/policy/audit_log_port.h"
#include "relay/policy/quota.h"

struct pfl_hub;
struct pfl_peer_table;

struct pfl_hub_conf {
    uv_loop_t *loop;
    const char *relay;           /* our name; copied */
    const char *fleet;           /* copied */
    struct pfl_audit_log *audit; /* borrowed until free */
    struct pfl_quotas *quotas;   /* borrowed until free */
    uint64_t silence_ms;         /* a peer that is silent for that long is closed */
    unsigned max_per_operator; /* connections of one operator at a time; a further one is closed */
    unsigned
        max_unread_mib; /* memory for data that the streams' other ends have not read; shared */
    uint64_t forget_after_ms; /* a host that left that long ago is forgotten; 0: never */
};

PFL_MUST_USE int pfl_hub_new(const struct pfl_hub_conf *conf, struct pfl_hub **ret_hub);
/* Sets the policy (borrowed until the next one; NULL allows all). Kills streams that it forbids,
 * and sends changed roles to the agents. */
void pfl_hub_set_policy(struct pfl_hub *self, const struct pfl_policy *policy);
/* When the relay's certificate, and the first of its revocation lists (0: none), end. */
void pfl_hub_set_ends(struct pfl_hub *self, int64_t certificate_end_s, int64_t crl_end_s);
/* Call after the last peer's on_ended. NULL is legal. */
void pfl_hub_free(struct pfl_hub *self);
/* Ends the connection of the peer with this `user`; its streams become orphans: they can be
 * resumed. */
void pfl_hub_drop(struct pfl_hub *self, const void *user);
void pfl_hub_get_traffic(const struct pfl_hub *self, struct pfl_traffic *ret_traffic);
/* Forgets hosts that left as long ago as the conf says. Call it periodically. */
void pfl_hub_forget_old(struct pfl_hub *self);
/* Answers collectors that wait for changes. Call it about once a second. */
void pfl_hub_run_polls(struct pfl_hub *self);
/* Connected peers and known hosts; borrowed until control returns to the loop. */
const struct pfl_peer_table *pfl_hub_get_peers(const struct pfl_hub *self);
/* Sends every peer a GOAWAY. */
void pfl_hub_drain(struct pfl_hub *self);
/* Closes every connection now. */
void pfl_hub_close(struct pfl_hub *self);

struct pfl_hub_peer_conf {
    struct pfl_stream *stream;           /* a TLS stream that is ready; taken on success */
    const struct pfl_identity *identity; /* verified: a host or an operator of the fleet; copied */
    bool is_collector;                   /* an operator's certificate, and reversed roles */
    const char *address;                 /* copied */
    void (*on_ended)(void *user);        /* last callback */
    void *user;
};

/* PFL_ENOMEM, PFL_ELIMIT; PFL_EPERM: the policy lets that collector collect nowhere. */
PFL_MUST_USE int pfl_hub_take(struct pfl_hub *self, const struct pfl_hub_peer_conf *conf);

#endif
