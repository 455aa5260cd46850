/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting point: agents' and operators' tunnel connections, which hosts there are, and the
 * streams between the two.
 */
#ifndef PFL_RELAY_HUB_HUB_PORT_H
#define PFL_RELAY_HUB_HUB_PORT_H

#include "base/io/stream.h"
#include "proto/tunnel/identity.h"
#include "relay/hub/traffic.h"
#include "relay/policy/audit_log_port.h"
#include "relay/policy/policy.h"
#include "relay/policy/quota.h"

/* The least that max_unread_mib may be. */
#define PFL_HUB_UNREAD_MIN_MIB 64u

/* What the connections of one operator, or of one host, take of a turn of the loop. */
#define PFL_HUB_TURN_NS 2000000u

struct pfl_hub;
struct pfl_host_inventory;

struct pfl_hub_conf {
    uv_loop_t *loop;
    const char *relay;           /* our name; copied */
    const char *fleet;           /* copied */
    struct pfl_audit_log *audit; /* borrowed until free */
    struct pfl_quotas *quotas;   /* borrowed until free */
    uint64_t silence_ms;         /* a peer that says nothing for so long is given up */
    unsigned max_per_operator;   /* connections of one operator at a time; the next is closed */
    unsigned max_unread_mib;     /* memory for what streams' other ends have not read; shared */
    uint64_t forget_after_ms;    /* a host that left so long ago is forgotten; 0: never */
};

PFL_MUST_USE int pfl_hub_new(const struct pfl_hub_conf *conf, struct pfl_hub **ret_hub);
/* From now on this is the policy (borrowed until the next one; NULL allows all). Streams that it
 * forbids are killed; those that it puts under another role are told to their agents. */
void pfl_hub_set_policy(struct pfl_hub *self, const struct pfl_policy *policy);
/* After the last peer's on_ended. NULL is legal. */
void pfl_hub_free(struct pfl_hub *self);
/* Ends the connection of the peer with this `user`; its streams are lost to it, and orphans. */
void pfl_hub_drop(struct pfl_hub *self, const void *user);
void pfl_hub_get_traffic(const struct pfl_hub *self, struct pfl_traffic *ret_traffic);
/* Forgets the hosts that left so long ago as the conf says. To be called now and then. */
void pfl_hub_forget_old(struct pfl_hub *self);
/* The hosts that it knows; borrowed until the loop goes on. */
const struct pfl_host_inventory *pfl_hub_get_inventory(const struct pfl_hub *self);
/* Whether the policy lets this operator know of that host. */
bool pfl_hub_may_see(const struct pfl_hub *self, const char *operator_name, const char *host);
/* To be called at the end of each turn of the loop. */
void pfl_hub_end_turn(struct pfl_hub *self);
/* Asks every peer to go. */
void pfl_hub_drain(struct pfl_hub *self);
/* Ends every connection now. */
void pfl_hub_close(struct pfl_hub *self);

struct pfl_hub_peer_conf {
    struct pfl_stream *stream;           /* a TLS stream that is ready; taken on success */
    const struct pfl_identity *identity; /* verified: a host or an operator of the fleet; copied */
    const char *address;                 /* copied */
    void (*on_ended)(void *user);        /* last one */
    void *user;
};

/* PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_hub_take(struct pfl_hub *self, const struct pfl_hub_peer_conf *conf);

#endif
