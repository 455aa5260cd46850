/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who takes admitted connections: the hub, direct mode, or both, with what they share: policy,
 * quotas and audit log. Part of tls_port.h's object.
 */
#ifndef PFL_RELAY_ACCEPT_TAKERS_PORT_H
#define PFL_RELAY_ACCEPT_TAKERS_PORT_H

#include "relay/accept/peer_admission.h"
#include "relay/accept/relay_role.h"
#include "relay/accept/tls_port.h"
#include "relay/direct/direct_port.h"
#include "relay/hub/hub_port.h"

struct pfl_takers {
    struct pfl_hub *hub;         /* owned; NULL: not a fleet relay */
    struct pfl_direct *direct;   /* owned; NULL: it serves no consumer socket */
    struct pfl_audit_log *audit; /* owned */
    struct pfl_policy *policy;   /* owned; NULL allows all */
    const char *policy_path;     /* borrowed, as in the port's conf */
    struct pfl_quotas quotas;
};

struct pfl_takers_peer {
    struct pfl_stream *stream; /* taken on success */
    const struct pfl_peer_admission *admission;
    const char *uri;     /* borrowed until on_ended */
    const char *address; /* the same */
    uint64_t start_ms;
    void (*on_ended)(void *user);
    void *user; /* names the connection in pfl_takers_drop */
};

void pfl_takers_init(struct pfl_takers *self);
/* Logs failures; after one, too, `self` needs fini. PFL_EINVAL, PFL_EPERM, PFL_EPARSE, PFL_EIO,
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_takers_open(struct pfl_takers *self, const struct pfl_tls_port_conf *conf,
                                 const struct pfl_relay_role *role);
/* Every connection has ended. */
void pfl_takers_fini(struct pfl_takers *self);

/* Not 0: not taken; *ret_why has the reason if the taker knows one. */
PFL_MUST_USE int pfl_takers_give(struct pfl_takers *self, const struct pfl_takers_peer *peer,
                                 struct pfl_identity_refusal *ret_why);
void pfl_takers_drop(struct pfl_takers *self, enum pfl_peer_taker taker, void *user);
/* Reads the policy again; an unusable one is logged, and the old one stays. */
void pfl_takers_reload_policy(struct pfl_takers *self);
void pfl_takers_drain(struct pfl_takers *self);
void pfl_takers_close(struct pfl_takers *self);

#endif
