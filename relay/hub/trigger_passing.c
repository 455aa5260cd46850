/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards triggers to other hosts: see trigger_passing.h.
 *
 * Happy path: each host gets each trigger of the log once, in order. One at a time is in flight to
 * a host, as a PUT in the operator's name. Failures: one that cannot be started is tried again with
 * the next trigger, or with the clock exchange; one whose connection was lost is reported.
 * Ownership: a passing is freed when its answer came. Limits: trigger_log.h's.
 */
#include "relay/hub/trigger_passing.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "perfleet/policy.fields.h"
#include "proto/gate/role.h"
#include "proto/h2/h2_call.h"
#include "proto/tunnel/tunnel.h"
#include "relay/hub/audit_context.h"

#define PASSING_BODY_BYTES 4096u
#define HOSTS_OF_ANSWER    2u /* that get it with each answer: so some are always in flight */

/* A trigger in flight to one host. */
struct passing {
    struct pfl_trigger_passing *all;  /* borrowed: outlives the call */
    struct pfl_hub_peer *agent;       /* the same */
    struct pfl_audit_context context; /* the operator's name, and the target host */
    char detail[PFL_AUDIT_LOG_DETAIL_BYTES];
};

static void go_on_with(struct pfl_trigger_passing *self, struct pfl_hub_peer *agent);
static void go_on(struct pfl_trigger_passing *self, unsigned hosts);

static void on_answer(void *user, int err, unsigned status, struct pfl_span body)
{
    struct passing *t = user;
    struct pfl_trigger_passing *all = t->all;
    struct pfl_hub_peer *agent = t->agent;

    (void)body;
    /* 410 (or 404, of an agent that knows no alarms): it waits for nothing. */
    if (err == PFL_ECLOSED)
        pfl_audit_context_report(&t->context, PFL_HUB_TRIGGER_NOT_PASSED, 0, t->detail);
    else if (err != 0 || (status != 404 && status != 410))
        pfl_audit_context_write(&t->context, "snapshot", err == 0 ? status : 502,
                                &(struct pfl_audit_context_more){.detail = t->detail});
    pfl_mem_free(t);
    agent->is_passing = false;
    go_on_with(all, agent);
    go_on(all, HOSTS_OF_ANSWER);
}

static struct passing *make(struct pfl_trigger_passing *all, struct pfl_hub_peer *agent,
                            const struct pfl_trigger_log_entry *r)
{
    struct passing *t = pfl_mem_zalloc(sizeof(*t));

    if (t == NULL)
        return NULL;
    t->all = all;
    t->agent = agent;
    t->context.shell = all->peers->shell;
    (void)snprintf(t->context.who, sizeof(t->context.who), "%s", r->operator_name);
    (void)snprintf(t->context.host, sizeof(t->context.host), "%s", agent->host->name);
    if (r->order[0] != '\0')
        (void)snprintf(t->detail, sizeof(t->detail), "order=%s trigger=%s raised_at=%s id=%s",
                       r->order, r->trigger, r->host, r->id);
    else
        (void)snprintf(t->detail, sizeof(t->detail), "session=%s trigger=%s raised_at=%s",
                       r->session, r->trigger, r->host);
    return t;
}

/* PFL_ENOMEM, errors of pfl_h2_call_start. */
static int start(struct passing *t, const struct pfl_trigger_log_entry *r,
                 struct pfl_span role_of_operator)
{
    char role[PFL_ROLE_FIELD_BYTES];
    char path[PFL_IDENTITY_NAME_BYTES + 32];
    char ago[24];
    struct pfl_h2_field fields[6] = {{PFL_TUNNEL_H_OPERATOR, r->operator_name},
                                     {PFL_TUNNEL_H_TRIGGER, r->trigger},
                                     {PFL_TUNNEL_H_RAISED_AT, r->host},
                                     {PFL_TUNNEL_H_RAISED_AGO, ago}};
    bool is_order = r->order[0] != '\0';
    struct pfl_h2_call_conf call = {.method = "PUT",
                                    .path = path,
                                    .fields = fields,
                                    .fields_len = 4,
                                    .body_max_bytes = PASSING_BODY_BYTES,
                                    .on_done = on_answer,
                                    .user = t};
    uint64_t now_ms = pfl_peer_table_get_now_ms(t->all->peers);

    (void)snprintf(path, sizeof(path), "%s/%s/raised",
                   is_order ? PFL_TUNNEL_ORDERS_PATH : PFL_TUNNEL_ALARMS_PATH,
                   is_order ? r->order : r->session);
    (void)snprintf(ago, sizeof(ago), "%llu",
                   (unsigned long long)pfl_trigger_log_get_ago_ms(r, now_ms));
    pfl_role_write(role_of_operator, role);
    if (is_order)
        fields[call.fields_len++] = (struct pfl_h2_field){PFL_TUNNEL_H_TRIGGER_ID, r->id};
    if (role[0] != '\0')
        fields[call.fields_len++] = (struct pfl_h2_field){PFL_TUNNEL_H_ROLE, role};
    return pfl_h2_call_start(pfl_peer_table_get_h2(t->agent), &call, NULL);
}

static bool is_allowed(const struct pfl_policy_decision *decision, bool is_order)
{
    return decision->is_allowed && (!is_order || pfl_policy_gives(decision, ROLE__ORDER));
}

bool pfl_trigger_passing_may(const struct pfl_peer_table *peers, const char *operator_name,
                             const char *host, bool is_order)
{
    struct pfl_policy_decision decision;

    pfl_peer_table_decide(peers, operator_name, host, &decision);
    return is_allowed(&decision, is_order);
}

/* False: it is to be tried again. */
static bool pass(struct pfl_trigger_passing *self, struct pfl_hub_peer *agent,
                 const struct pfl_trigger_log_entry *r)
{
    struct pfl_policy_decision decision;
    struct passing *t;

    pfl_peer_table_decide(self->peers, r->operator_name, agent->host->name, &decision);
    if (!is_allowed(&decision, r->order[0] != '\0') || strcmp(agent->host->name, r->host) == 0)
        return true;
    t = make(self, agent, r);
    if (t == NULL || start(t, r, decision.role) != 0) {
        pfl_mem_free(t);
        return false;
    }
    agent->is_passing = true;
    return true;
}

/* Every host that is looked at costs, whether it gets the trigger or not. */
static bool take_budget(struct pfl_trigger_passing *self, uint64_t now_ms)
{
    if (pfl_token_bucket_get(&self->budget, now_ms) == 0)
        return false;
    pfl_token_bucket_take(&self->budget, 1);
    return true;
}

static void wait_for_turn(struct pfl_trigger_passing *self, struct pfl_hub_peer *agent)
{
    pfl_list_remove(&agent->waits_for_trigger);
    pfl_list_append(&self->waiting, &agent->waits_for_trigger);
}

static void go_on_with(struct pfl_trigger_passing *self, struct pfl_hub_peer *agent)
{
    uint64_t now_ms = pfl_peer_table_get_now_ms(self->peers);
    const struct pfl_trigger_log_entry *r;

    if (agent->state != PFL_HUB_PEER_INTRODUCED || pfl_peer_table_get_h2(agent) == NULL)
        return;
    while (!agent->is_passing &&
           (r = pfl_trigger_log_next(&self->log, agent->passed, now_ms)) != NULL) {
        if (!take_budget(self, now_ms)) {
            wait_for_turn(self, agent);
            return;
        }
        if (!pass(self, agent, r))
            return;
        agent->passed = r->number;
    }
}

static void list_all(struct pfl_trigger_passing *self)
{
    struct pfl_list *it;

    self->listed = self->log.last;
    PFL_LIST_EACH (it, &self->peers->peers) {
        struct pfl_hub_peer *peer = PFL_CONTAINER_OF(it, struct pfl_hub_peer, node);

        if (peer->state == PFL_HUB_PEER_INTRODUCED && peer->passed < self->listed)
            wait_for_turn(self, peer);
    }
}

static void go_on(struct pfl_trigger_passing *self, unsigned hosts)
{
    uint64_t now_ms = pfl_peer_table_get_now_ms(self->peers);

    if (pfl_list_is_empty(&self->waiting) && self->listed != self->log.last)
        list_all(self);
    while (hosts-- != 0 && !pfl_list_is_empty(&self->waiting) &&
           pfl_token_bucket_get(&self->budget, now_ms) != 0) {
        struct pfl_hub_peer *agent =
            PFL_CONTAINER_OF(self->waiting.next, struct pfl_hub_peer, waits_for_trigger);

        pfl_list_remove(&agent->waits_for_trigger);
        go_on_with(self, agent);
    }
}

void pfl_trigger_passing_next(struct pfl_trigger_passing *self, struct pfl_hub_peer *agent)
{
    go_on_with(self, agent);
    go_on(self, self->hosts);
}

void pfl_trigger_passing_raise(struct pfl_trigger_passing *self,
                               const struct pfl_trigger_log_entry *raised)
{
    if (pfl_trigger_log_add(&self->log, raised, pfl_peer_table_get_now_ms(self->peers)))
        go_on(self, self->hosts);
}

void pfl_trigger_passing_init(struct pfl_trigger_passing *self, struct pfl_peer_table *peers)
{
    memset(self, 0, sizeof(*self));
    self->peers = peers;
    self->hosts = PFL_TRIGGER_PASSING_HOSTS;
    pfl_list_init(&self->waiting);
    pfl_token_bucket_set(&self->budget, PFL_TRIGGER_PASSING_PER_S, PFL_TRIGGER_PASSING_AT_ONCE,
                         pfl_peer_table_get_now_ms(peers));
}
