/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is connected, and which host is reached by whom: see peer_table.h.
 *
 * Happy path: a connection is admitted and added; when its settings came, an agent takes the place
 * of an older connection of its host; when it is gone, its host has left, and stays in the
 * inventory. Connections of a name are found by its hash, however many others there are. Failures:
 * an operator with too many connections, an inventory that has no room. Ownership: the inventory;
 * peers are the shell's. Limits: max_per_operator, PFL_PEER_TABLE_OF_HOST, host_inventory.h's.
 */
#include "relay/hub/peer_table.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "perfleet/policy.fields.h"
#include "proto/h2/h2.h"
#include "relay/hub/audit_context.h"

_Static_assert(PFL_POLICY_NAME_BYTES == PFL_IDENTITY_NAME_BYTES,
               "a pattern of the policy is as long as a name may be");

static struct pfl_hub_peer *peer_of(struct pfl_list *of_name)
{
    return PFL_CONTAINER_OF(of_name, struct pfl_hub_peer, of_name);
}

void pfl_peer_table_init(struct pfl_peer_table *self, const struct pfl_peer_table_conf *conf)
{
    memset(self, 0, sizeof(*self));
    self->shell = conf->shell;
    self->max_per_operator = conf->max_per_operator;
    self->forget_after_ms = conf->forget_after_ms;
    (void)snprintf(self->relay, sizeof(self->relay), "%s", conf->relay);
    (void)snprintf(self->boot_id, sizeof(self->boot_id), "%s", conf->boot_id);
    pfl_list_init(&self->peers);
    for (size_t i = 0; i < PFL_PEER_TABLE_BUCKETS; i++)
        pfl_list_init(&self->buckets[i]);
    pfl_list_init(&self->collectors);
    pfl_host_inventory_init(&self->inventory);
}

void pfl_peer_table_fini(struct pfl_peer_table *self)
{
    pfl_host_inventory_fini(&self->inventory);
}

uint64_t pfl_peer_table_get_now_ms(const struct pfl_peer_table *self)
{
    return self->shell->get_now_ms(self->shell->user);
}

/* ---- admission ---- */

static bool is_same(const struct pfl_hub_peer *p, const struct pfl_identity *identity,
                    bool is_collector)
{
    return p->identity.role == identity->role && p->is_collector == is_collector &&
           strcmp(p->identity.name, identity->name) == 0;
}

/* It is the connection of its host, or of its collector. */
static bool counts(const struct pfl_hub_peer *p)
{
    return p->host != NULL || p->of_collectors.next != NULL;
}

/* Those of that name are in it, oldest first, and few others. */
static struct pfl_list *bucket_of(struct pfl_peer_table *self, const char *name)
{
    return &self->buckets[pfl_hash_str(name) % PFL_PEER_TABLE_BUCKETS];
}

static unsigned count_of(struct pfl_peer_table *self, const struct pfl_identity *identity)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, bucket_of(self, identity->name))
        count += is_same(peer_of(it), identity, false);
    return count;
}

/* Old connections that a host or a collector keeps when it has newer ones must not fill the port:
 * the oldest unused one is closed. */
static struct pfl_hub_peer *oust(struct pfl_peer_table *self, const struct pfl_identity *identity,
                                 bool is_collector)
{
    struct pfl_hub_peer *oldest = NULL;
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, bucket_of(self, identity->name)) {
        struct pfl_hub_peer *p = peer_of(it);

        if (p->is_evicted || !is_same(p, identity, is_collector))
            continue;
        count++;
        if (oldest == NULL && !counts(p))
            oldest = p;
    }
    if (count < PFL_PEER_TABLE_OF_HOST || oldest == NULL)
        return NULL;
    oldest->is_evicted = true;
    return oldest;
}

static struct pfl_hub_peer *find_collector(const struct pfl_peer_table *self, const char *name)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->collectors) {
        struct pfl_hub_peer *p = PFL_CONTAINER_OF(it, struct pfl_hub_peer, of_collectors);

        if (strcmp(p->identity.name, name) == 0)
            return p;
    }
    return NULL;
}

static int admit_collector(const struct pfl_peer_table *self, const char *name)
{
    if (!pfl_policy_gives_anywhere(self->policy, name, ROLE__COLLECT))
        return PFL_EPERM;
    return self->collectors_len < PFL_PEER_TABLE_COLLECTORS || find_collector(self, name) != NULL
               ? 0
               : PFL_ELIMIT;
}

int pfl_peer_table_admit(struct pfl_peer_table *self, const struct pfl_identity *identity,
                         bool is_collector, struct pfl_hub_peer **ret_evicted)
{
    bool is_one = is_collector || identity->role == PFL_IDENTITY_HOST;
    int rc = is_collector ? admit_collector(self, identity->name) : 0;

    if (rc == 0 && !is_one && count_of(self, identity) >= self->max_per_operator)
        rc = PFL_ELIMIT;
    if (rc == 0)
        *ret_evicted = is_one ? oust(self, identity, is_collector) : NULL;
    return rc;
}

void pfl_peer_table_add(struct pfl_peer_table *self, struct pfl_hub_peer *peer)
{
    peer->table = self;
    pfl_list_init(&peer->throttled);
    pfl_list_append(&self->peers, &peer->node);
    pfl_list_append(bucket_of(self, peer->identity.name), &peer->of_name);
}

/* ---- agents are connections of hosts, and collectors have one that counts ---- */

static int join(struct pfl_peer_table *self, struct pfl_hub_peer *peer,
                struct pfl_hub_peer **ret_replaced)
{
    struct pfl_host *host = pfl_host_inventory_find(&self->inventory, peer->identity.name);
    struct pfl_hub_peer *older = host != NULL ? host->peer : NULL;
    int rc = pfl_host_inventory_join(&self->inventory, peer->identity.name, peer, &peer->host);

    if (rc != 0)
        return rc;
    if (older != NULL)
        older->host = NULL;
    memcpy(peer->host->address, peer->address, sizeof(peer->address));
    peer->host->certificate_end_s = peer->certificate_end_s;
    peer->host->tls_version = peer->tls_version;
    *ret_replaced = older;
    return 0;
}

static void leave_collectors(struct pfl_peer_table *self, struct pfl_hub_peer *peer)
{
    if (peer->of_collectors.next == NULL)
        return;
    pfl_list_remove(&peer->of_collectors);
    self->collectors_len--;
}

/* An older connection of that name stays, and waits: several processes may be one collector. */
static void join_collector(struct pfl_peer_table *self, struct pfl_hub_peer *peer)
{
    struct pfl_hub_peer *older = find_collector(self, peer->identity.name);

    if (older != NULL)
        leave_collectors(self, older);
    pfl_list_append(&self->collectors, &peer->of_collectors);
    self->collectors_len++;
}

/* The newest connection that waits takes the place of the one that counted. */
static void succeed_collector(struct pfl_peer_table *self, const struct pfl_hub_peer *gone)
{
    struct pfl_hub_peer *next = NULL;
    struct pfl_list *it;

    PFL_LIST_EACH (it, bucket_of(self, gone->identity.name)) {
        struct pfl_hub_peer *p = peer_of(it);

        if (p != gone && !p->is_evicted && p->state == PFL_HUB_PEER_READY &&
            is_same(p, &gone->identity, true))
            next = p;
    }
    if (next != NULL)
        join_collector(self, next);
}

int pfl_peer_table_settle(struct pfl_peer_table *self, struct pfl_hub_peer *peer,
                          struct pfl_hub_peer **ret_replaced)
{
    peer->state = PFL_HUB_PEER_READY;
    *ret_replaced = NULL;
    if (peer->is_collector) {
        join_collector(self, peer);
        return 0;
    }
    return peer->identity.role == PFL_IDENTITY_HOST ? join(self, peer, ret_replaced) : 0;
}

void pfl_peer_table_leave(struct pfl_peer_table *self, struct pfl_hub_peer *peer)
{
    pfl_list_remove(&peer->waits_for_trigger);
    while (!pfl_list_is_empty(&peer->throttled))
        pfl_list_remove(peer->throttled.next);
    if (peer->host != NULL)
        pfl_host_inventory_leave(&self->inventory, peer->host, pfl_peer_table_get_now_ms(self));
    peer->host = NULL; /* which may be forgotten from here on */
    if (peer->is_collector)
        peer->is_evicted = true; /* until it is removed it succeeds nobody */
    if (peer->of_collectors.next == NULL)
        return;
    leave_collectors(self, peer);
    succeed_collector(self, peer);
}

void pfl_peer_table_remove(struct pfl_peer_table *self, struct pfl_hub_peer *peer)
{
    (void)self;
    pfl_list_remove(&peer->node);
    pfl_list_remove(&peer->of_name);
}

/* On which requests may be made. `p` may be NULL. */
static struct pfl_h2 *get_asking(const struct pfl_peer_table *self, const struct pfl_hub_peer *p)
{
    struct pfl_h2 *h2 = p != NULL && p->state != PFL_HUB_PEER_CONNECTED
                            ? self->shell->get_h2(self->shell->user, p)
                            : NULL;

    return h2 != NULL && !pfl_h2_is_going(h2) ? h2 : NULL;
}

struct pfl_h2 *pfl_peer_table_get_agent(const struct pfl_peer_table *self,
                                        const struct pfl_host *host)
{
    return get_asking(self, host->peer);
}

struct pfl_h2 *pfl_peer_table_get_collector(const struct pfl_peer_table *self, const char *name)
{
    return get_asking(self, find_collector(self, name));
}

struct pfl_h2 *pfl_peer_table_get_h2(const struct pfl_hub_peer *peer)
{
    return peer->host != NULL ? pfl_peer_table_get_agent(peer->table, peer->host) : NULL;
}

/* ---- the policy ---- */

/* Of a host that has said them. Found by its hash: a policy may ask for a label in each rule. */
static const char *get_label(void *user, struct pfl_span name)
{
    const struct pfl_host *host = user;
    const json_t *labels = json_object_get(host->claims, "labels");
    char key[PFL_HOST_INVENTORY_LABEL_BYTES];

    if (name.len >= sizeof(key))
        return NULL;
    memcpy(key, name.data, name.len);
    key[name.len] = '\0';
    return json_string_value(json_object_get(labels, key));
}

void pfl_peer_table_decide(const struct pfl_peer_table *self, const char *operator_name,
                           const char *host, struct pfl_policy_decision *ret_decision)
{
    struct pfl_host *known = pfl_host_inventory_find(&self->inventory, host);
    /* After a restart of the relay, an operator may name the host before its agent comes. */
    bool is_silent = known == NULL || known->claims == NULL;
    struct pfl_policy_question question = {
        .operator_name = operator_name,
        .host = host,
        .get_label = is_silent ? NULL : get_label,
        .user = known,
        .has_no_labels_yet = is_silent,
    };

    pfl_policy_decide(self->policy, &question, ret_decision);
}

bool pfl_peer_table_may_see(const struct pfl_peer_table *self, const char *operator_name,
                            const char *host)
{
    struct pfl_policy_decision decision;

    pfl_peer_table_decide(self, operator_name, host, &decision);
    return decision.is_allowed;
}

bool pfl_peer_table_is_forbidden(const struct pfl_hub_peer *peer)
{
    return peer->is_collector &&
           !pfl_policy_gives_anywhere(peer->table->policy, peer->identity.name, ROLE__COLLECT);
}

/* ---- forgetting ---- */

static void on_forget(void *user, const struct pfl_host *host)
{
    const struct pfl_peer_table *self = user;
    struct pfl_audit_context nobody = {.shell = self->shell};

    memcpy(nobody.host, host->name, sizeof(nobody.host));
    pfl_audit_context_write_forgotten(&nobody, host);
}

void pfl_peer_table_forget_old(struct pfl_peer_table *self)
{
    if (self->forget_after_ms != 0)
        pfl_host_inventory_forget_old(&self->inventory, pfl_peer_table_get_now_ms(self),
                                      self->forget_after_ms, on_forget, self);
}
