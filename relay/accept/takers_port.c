/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hub and direct mode of one relay: see takers_port.h.
 *
 * Happy path: the audit log and the policy are opened, then what the relay's role asks for; each
 * gets the policy, and a new one on a reload. Failures: the first one is returned. Ownership: owns
 * all four; connections are owned by the taker that got them. Limits: those of hub and direct mode.
 */
#include "relay/accept/takers_port.h"

#include "base/io/handshake_queue.h"
#include "relay/policy/policy_file_port.h"

static int open_hub(struct pfl_takers *t, const struct pfl_tls_port_conf *conf,
                    const struct pfl_relay_role *role)
{
    struct pfl_hub_conf hub = {.loop = conf->loop,
                               .relay = role->name,
                               .fleet = role->fleet,
                               .audit = t->audit,
                               .quotas = &t->quotas,
                               .silence_ms = conf->silence_ms,
                               .max_per_operator = conf->max_per_operator,
                               .max_unread_mib = conf->max_unread_mib,
                               .forget_after_ms = conf->forget_after_ms};

    return pfl_hub_new(&hub, &t->hub);
}

static int open_direct(struct pfl_takers *t, const struct pfl_tls_port_conf *conf,
                       const struct pfl_relay_role *role)
{
    struct pfl_direct_conf direct = {.loop = conf->loop,
                                     .consumer_socket = conf->consumer_socket,
                                     .host = role->name,
                                     .audit = t->audit,
                                     .quotas = &t->quotas,
                                     .turns = pfl_handshake_queue_get_turns(conf->handshakes),
                                     .max_per_operator = conf->max_per_operator,
                                     .half_closed_timeout_ms = conf->half_closed_timeout_ms};

    return pfl_direct_new(&direct, &t->direct);
}

static void set_policy(struct pfl_takers *t)
{
    if (t->hub != NULL)
        pfl_hub_set_policy(t->hub, t->policy);
    if (t->direct != NULL)
        pfl_direct_set_policy(t->direct, t->policy);
}

void pfl_takers_init(struct pfl_takers *self)
{
    *self = (struct pfl_takers){.hub = NULL};
    pfl_quotas_init(&self->quotas);
}

int pfl_takers_open(struct pfl_takers *self, const struct pfl_tls_port_conf *conf,
                    const struct pfl_relay_role *role)
{
    int rc;

    self->policy_path = conf->policy_path;
    rc = pfl_audit_log_open(conf->audit_path, conf->is_audit_optional, &self->audit);
    if (rc == 0)
        rc = pfl_policy_file_load(self->policy_path, &self->policy);
    if (rc == 0 && role->has_hub)
        rc = open_hub(self, conf, role);
    if (rc == 0 && role->has_direct)
        rc = open_direct(self, conf, role);
    if (rc == 0)
        set_policy(self);
    return rc;
}

void pfl_takers_fini(struct pfl_takers *self)
{
    pfl_hub_free(self->hub);
    pfl_direct_free(self->direct);
    pfl_policy_free(self->policy);
    pfl_quotas_fini(&self->quotas);
    pfl_audit_log_close(self->audit);
}

static const struct pfl_identity_refusal no_collector = {
    "no rule of the policy lets it collect", "give its role collect: true (perfleet-policy(5))"};

static int give_to_hub(struct pfl_takers *t, const struct pfl_takers_peer *peer,
                       struct pfl_identity_refusal *ret_why)
{
    struct pfl_hub_peer_conf conf = {
        .stream = peer->stream,
        .identity = &peer->admission->identity,
        .is_collector = peer->admission->is_collector,
        .address = peer->address,
        .on_ended = peer->on_ended,
        .user = peer->user,
    };
    int rc = pfl_hub_take(t->hub, &conf);

    if (rc == PFL_EPERM)
        *ret_why = no_collector;
    return rc;
}

static int give_to_direct(struct pfl_takers *t, const struct pfl_takers_peer *peer,
                          struct pfl_identity_refusal *ret_why)
{
    struct pfl_direct_peer_conf conf = {
        .stream = peer->stream,
        .identity = &peer->admission->identity,
        .uri = peer->uri,
        .address = peer->address,
        .start_ms = peer->start_ms,
        .on_ended = peer->on_ended,
        .user = peer->user,
    };

    return pfl_direct_take(t->direct, &conf, ret_why);
}

int pfl_takers_give(struct pfl_takers *self, const struct pfl_takers_peer *peer,
                    struct pfl_identity_refusal *ret_why)
{
    return peer->admission->taker == PFL_PEER_TAKER_HUB ? give_to_hub(self, peer, ret_why)
                                                        : give_to_direct(self, peer, ret_why);
}

void pfl_takers_drop(struct pfl_takers *self, enum pfl_peer_taker taker, void *user)
{
    if (taker == PFL_PEER_TAKER_HUB)
        pfl_hub_drop(self->hub, user);
    else
        pfl_direct_drop(self->direct, user);
}

void pfl_takers_reload_policy(struct pfl_takers *self)
{
    struct pfl_policy *old = self->policy;
    struct pfl_policy *fresh = NULL;

    if (pfl_policy_file_load(self->policy_path, &fresh) != 0)
        return;
    self->policy = fresh;
    set_policy(self);
    pfl_policy_free(old);
}

void pfl_takers_drain(struct pfl_takers *self)
{
    if (self->hub != NULL)
        pfl_hub_drain(self->hub);
}

void pfl_takers_close(struct pfl_takers *self)
{
    if (self->direct != NULL)
        pfl_direct_close(self->direct);
    if (self->hub != NULL)
        pfl_hub_close(self->hub);
}
