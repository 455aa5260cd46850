/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of the fleet relay: see hub_port.h. Operators' requests are in operator_requests.c.
 *
 * Happy path: a peer's TLS stream becomes a link. The relay requests an agent's hello and clock,
 * and uses it as its host's connection from then on; an operator's requests are answered. Failures:
 * a silent peer is closed; a second connection of a host replaces the first, which gets a GOAWAY.
 * Ownership: peers own their links; the inventory its hosts. Limits: the port's max_connections,
 * max_per_operator, HOST_CONNECTIONS, streams per connection (proto/h2/h2.h), max_unread_mib.
 */
#include "relay/hub/hub_port.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/io/tls_stream.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/h2/h2_call.h"
#include "proto/tunnel/tunnel.h"
#include "relay/hub/hub_impl.h"

#define SETTLE_TIMEOUT_MS 10000u
#define CLOCK_PERIOD_MS   60000u
#define CLOCK_ROUNDS      5u
#define CLOCK_BODY_BYTES  256u
/* Connections of one host: the current one, and those that got a GOAWAY and are not closed yet. */
#define HOST_CONNECTIONS 4u

static struct pfl_hub_peer *peer_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_hub_peer, node);
}

struct pfl_h2 *pfl_hub_get_agent(const struct pfl_hub *self, const struct pfl_host *host)
{
    struct pfl_hub_peer *p = host->peer;
    struct pfl_h2 *h2 = p != NULL && p->is_ready ? pfl_tunnel_link_get_h2(p->link) : NULL;

    (void)self;
    return h2 != NULL && !pfl_h2_is_going(h2) ? h2 : NULL;
}

const struct pfl_host_inventory *pfl_hub_get_inventory(const struct pfl_hub *self)
{
    return &self->inventory;
}

/* ---- the end of a peer ---- */

static void free_peer(struct pfl_hub_peer *p)
{
    void (*on_ended)(void *user) = p->on_ended;
    void *user = p->user;

    pfl_list_remove(&p->node);
    pfl_mem_free(p);
    on_ended(user);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free_peer(handle->data);
}

static void on_link_closed(void *user, int err, const char *why)
{
    struct pfl_hub_peer *p = user;

    (void)err;
    p->link = NULL;
    pfl_throttle_drop_all(p);
    if (p->host != NULL && p->host->peer == p)
        pfl_host_inventory_leave(&p->hub->inventory, p->host, uv_now(p->hub->loop));
    p->host = NULL; /* which may be forgotten from here on */
    pfl_log_info("tunnel-ended", "address=%s %s=%s reason=%s", p->address,
                 pfl_identity_role_name(p->identity.role), p->identity.name,
                 pfl_log_quote_reason(why));
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

/* ---- agents: clock and hello ---- */

static void ask_clock(struct pfl_hub_peer *p);

static void on_clock_due(uv_timer_t *timer)
{
    struct pfl_hub_peer *p = timer->data;

    p->rounds = 0;
    ask_clock(p);
    pfl_agent_events_start(p);
}

static void on_clock(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_hub_peer *p = user;
    uint64_t now_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);

    if (err == PFL_ECLOSED)
        return; /* the peer may be going */
    if (err == 0 && status == 200 && p->host != NULL &&
        pfl_host_inventory_take_clock(p->host, body, (int64_t)p->asked_ns, (int64_t)now_ns) != 0)
        pfl_log_debug("clock-unusable", "address=%s host=%s", p->address, p->identity.name);
    if (++p->rounds < CLOCK_ROUNDS)
        ask_clock(p);
}

static void ask_clock(struct pfl_hub_peer *p)
{
    struct pfl_h2_call_conf call = {.method = "GET",
                                    .path = PFL_TUNNEL_CLOCK_PATH,
                                    .body_max_bytes = CLOCK_BODY_BYTES,
                                    .on_done = on_clock,
                                    .user = p};
    /* None while a connection that broke is being closed. */
    struct pfl_h2 *agent = p->host != NULL ? pfl_hub_get_agent(p->hub, p->host) : NULL;

    p->asked_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    if (agent == NULL || pfl_h2_call_start(agent, &call, NULL) != 0)
        return; /* the next period asks again */
}

static void on_hello(void *user, int err, unsigned status, struct pfl_span body)
{
    struct pfl_hub_peer *p = user;

    if (err == PFL_ECLOSED)
        return;
    if (err != 0 || status != 200 || p->host == NULL ||
        pfl_host_inventory_take_hello(p->host, body) != 0) {
        pfl_log_warn("hello-unusable", "address=%s host=%s status=%u", p->address, p->identity.name,
                     status);
        return;
    }
    p->has_said_hello = true;
    pfl_hub_review(p->hub, p->host->name);
    pfl_agent_events_start(p);
}

static void ask_hello(struct pfl_hub_peer *p)
{
    struct pfl_h2_call_conf call = {.method = "GET",
                                    .path = PFL_TUNNEL_HELLO_PATH,
                                    .body_max_bytes = PFL_HOST_INVENTORY_HELLO_BYTES,
                                    .on_done = on_hello,
                                    .user = p};

    if (pfl_h2_call_start(pfl_tunnel_link_get_h2(p->link), &call, NULL) != 0)
        pfl_log_warn("hello-unusable", "address=%s host=%s reason=\"it could not be asked\"",
                     p->address, p->identity.name);
}

/* ---- joining ---- */

static void replace(struct pfl_hub_peer *older)
{
    struct pfl_h2 *h2 = pfl_tunnel_link_get_h2(older->link);

    older->host = NULL;
    pfl_agent_events_stop(older);
    pfl_log_warn("host-replaced",
                 "host=%s address=%s reason=\"a newer connection of this host came\"",
                 older->identity.name, older->address);
    if (h2 == NULL || pfl_h2_goaway(h2) != 0)
        pfl_tunnel_link_close(older->link);
}

static void join(struct pfl_hub_peer *p)
{
    struct pfl_host *host = pfl_host_inventory_find(&p->hub->inventory, p->identity.name);

    if (host != NULL && host->peer != NULL)
        replace(host->peer);
    if (pfl_host_inventory_join(&p->hub->inventory, p->identity.name, p, &p->host) != 0) {
        pfl_log_error("host-not-taken", "host=%s reason=\"no room for one more\"",
                      p->identity.name);
        pfl_tunnel_link_close(p->link);
        return;
    }
    memcpy(p->host->address, p->address, sizeof(p->address));
    p->host->certificate_end_s = p->certificate_end_s;
    p->host->tls_version = p->tls_version;
    (void)uv_timer_start(&p->timer, on_clock_due, CLOCK_PERIOD_MS, CLOCK_PERIOD_MS);
    ask_hello(p);
    p->rounds = 0;
    ask_clock(p);
}

static void on_ready(void *user)
{
    struct pfl_hub_peer *p = user;

    p->is_ready = true;
    (void)uv_timer_stop(&p->timer);
    if (p->identity.role == PFL_IDENTITY_HOST)
        join(p);
    pfl_log_info("tunnel-started", "address=%s %s=%s tls=%s", p->address,
                 pfl_identity_role_name(p->identity.role), p->identity.name, p->tls_version);
}

static void on_settle_timeout(uv_timer_t *timer)
{
    struct pfl_hub_peer *p = timer->data;

    if (p->link != NULL)
        pfl_tunnel_link_close(p->link);
}

static unsigned count_of(const struct pfl_hub *hub, const struct pfl_identity *identity)
{
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &hub->peers)
        count += peer_of(it)->identity.role == identity->role &&
                 strcmp(peer_of(it)->identity.name, identity->name) == 0;
    return count;
}

/* Those that a host does not let go when it has newer ones must not fill the port: the oldest that
 * is not the host's own makes room. */
static void make_room(struct pfl_hub *hub, const struct pfl_identity *identity)
{
    struct pfl_hub_peer *oldest = NULL;
    struct pfl_list *it;
    unsigned count = 0;

    PFL_LIST_EACH (it, &hub->peers) {
        struct pfl_hub_peer *p = peer_of(it);

        if (p->is_ousted || p->identity.role != PFL_IDENTITY_HOST ||
            strcmp(p->identity.name, identity->name) != 0)
            continue;
        count++;
        if (oldest == NULL && p->host == NULL)
            oldest = p;
    }
    if (count < HOST_CONNECTIONS || oldest == NULL)
        return;
    oldest->is_ousted = true;
    if (oldest->link != NULL)
        pfl_tunnel_link_close(oldest->link);
}

/* ---- its part of a turn of the loop ---- */

static bool on_input(void *user)
{
    struct pfl_hub_peer *p = user;

    p->input_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    return pfl_fair_turn_may(&p->hub->fair_turn, p->who, &p->round);
}

/* Since it was asked, or since the piece before: decryption is in it, too. */
static void on_read(void *user)
{
    struct pfl_hub_peer *p = user;
    uint64_t now_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);

    pfl_fair_turn_take(&p->hub->fair_turn, p->who, now_ns - p->input_ns);
    p->input_ns = now_ns;
}

void pfl_hub_end_turn(struct pfl_hub *self)
{
    pfl_fair_turn_end(&self->fair_turn);
}

int pfl_hub_take(struct pfl_hub *self, const struct pfl_hub_peer_conf *conf)
{
    bool is_agent = conf->identity->role == PFL_IDENTITY_HOST;
    struct pfl_hub_peer *p;
    int rc;

    if (!is_agent && count_of(self, conf->identity) >= self->max_per_operator)
        return PFL_ELIMIT;
    if (is_agent)
        make_room(self, conf->identity);
    p = pfl_mem_zalloc(sizeof(*p));
    if (p == NULL)
        return PFL_ENOMEM;
    p->hub = self;
    p->identity = *conf->identity;
    p->on_ended = conf->on_ended;
    p->user = conf->user;
    p->tls_version = pfl_tls_stream_get_version(conf->stream);
    p->certificate_end_s = pfl_tls_stream_get_identity(conf->stream)->not_after_s;
    (void)snprintf(p->address, sizeof(p->address), "%s", conf->address);
    p->who = pfl_shares_hash(p->identity.name, strlen(p->identity.name)) + p->identity.role;
    p->input_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    rc = pfl_tunnel_link_open(
        &(struct pfl_tunnel_link_conf){
            .loop = self->loop,
            .stream = conf->stream,
            .h2 = {.is_answering = !is_agent,
                   .window_bytes =
                       is_agent ? PFL_TUNNEL_DATA_WINDOW_BYTES : PFL_TUNNEL_CONTROL_WINDOW_BYTES,
                   .on_request = is_agent ? NULL : pfl_operator_requests_on_request,
                   .on_ready = on_ready,
                   .user = p},
            .quiet_ms = self->silence_ms / PFL_TUNNEL_SILENCE_FACTOR,
            .on_input = on_input,
            .on_read = on_read,
            .on_closed = on_link_closed,
            .user = p,
        },
        &p->link);
    if (rc != 0) {
        pfl_mem_free(p);
        return rc;
    }
    (void)uv_timer_init(self->loop, &p->timer);
    p->timer.data = p;
    (void)uv_timer_start(&p->timer, on_settle_timeout, SETTLE_TIMEOUT_MS, 0);
    pfl_list_init(&p->held);
    pfl_list_append(&self->peers, &p->node);
    return 0;
}

/* ---- the hub ---- */

int pfl_hub_new(const struct pfl_hub_conf *conf, struct pfl_hub **ret_hub)
{
    struct pfl_hub *h = pfl_mem_zalloc(sizeof(*h));

    if (h == NULL)
        return PFL_ENOMEM;
    h->loop = conf->loop;
    h->audit = conf->audit;
    h->quotas = conf->quotas;
    h->silence_ms = conf->silence_ms;
    h->max_per_operator = conf->max_per_operator;
    h->forget_after_ms = conf->forget_after_ms;
    h->fair_turn.part_ns = PFL_HUB_TURN_NS;
    h->unread.max = (uint64_t)conf->max_unread_mib << 20;
    pfl_list_init(&h->peers);
    pfl_list_init(&h->streams);
    pfl_list_init(&h->forwarded_requests);
    pfl_host_inventory_init(&h->inventory);
    (void)snprintf(h->relay, sizeof(h->relay), "%s", conf->relay);
    (void)snprintf(h->fleet, sizeof(h->fleet), "%s", conf->fleet);
    *ret_hub = h;
    return 0;
}

void pfl_hub_free(struct pfl_hub *self)
{
    if (self == NULL)
        return;
    pfl_log_limit_flush(&self->refused_log, "stream-ended");
    pfl_log_limit_flush(&self->unread_log, "stream-detached");
    pfl_host_inventory_fini(&self->inventory);
    pfl_mem_free(self);
}

void pfl_hub_set_policy(struct pfl_hub *self, const struct pfl_policy *policy)
{
    self->policy = policy;
    pfl_hub_review(self, NULL);
}

/* Of a host that we know and that has said them. */
static const char *get_label(void *user, struct pfl_span name)
{
    const struct pfl_host *host = user;
    json_t *labels = json_object_get(host->claims, "labels");
    const char *key;
    json_t *value;

    json_object_foreach(labels, key, value)
    {
        if (strlen(key) == name.len && memcmp(key, name.data, name.len) == 0)
            return json_string_value(value);
    }
    return NULL;
}

void pfl_hub_decide(const struct pfl_hub *self, const char *operator_name, const char *host,
                    struct pfl_policy_decision *ret_decision)
{
    struct pfl_host *known = pfl_host_inventory_find(&self->inventory, host);
    /* After a restart of the relay an operator may name the host before its agent reconnects. */
    bool is_silent = known == NULL || known->claims == NULL;
    struct pfl_policy_question question = {
        .operator_name = operator_name,
        .host = host,
        .get_label = known != NULL && known->claims != NULL ? get_label : NULL,
        .user = known,
        .has_no_labels_yet = is_silent,
    };

    pfl_policy_decide(self->policy, &question, ret_decision);
}

bool pfl_hub_may_see(const struct pfl_hub *self, const char *operator_name, const char *host)
{
    struct pfl_policy_decision decision;

    pfl_hub_decide(self, operator_name, host, &decision);
    return decision.is_allowed;
}

static void on_forget(void *user, const struct pfl_host *host)
{
    struct pfl_audit_context nobody = {.hub = user};

    memcpy(nobody.host, host->name, sizeof(nobody.host));
    pfl_audit_context_write_forgotten(&nobody, host);
}

void pfl_hub_forget_old(struct pfl_hub *self)
{
    if (self->forget_after_ms != 0)
        pfl_host_inventory_forget_old(&self->inventory, uv_now(self->loop), self->forget_after_ms,
                                      on_forget, self);
}

void pfl_hub_drop(struct pfl_hub *self, const void *user)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->peers) {
        if (peer_of(it)->user == user && peer_of(it)->link != NULL)
            pfl_tunnel_link_close(peer_of(it)->link);
    }
}

void pfl_hub_drain(struct pfl_hub *self)
{
    struct pfl_list *it;

    self->is_draining = true;
    PFL_LIST_EACH (it, &self->peers) {
        struct pfl_hub_peer *p = peer_of(it);
        struct pfl_h2 *h2 = p->link != NULL ? pfl_tunnel_link_get_h2(p->link) : NULL;

        if (h2 != NULL && pfl_h2_goaway(h2) != 0)
            pfl_tunnel_link_close(p->link);
    }
}

void pfl_hub_close(struct pfl_hub *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->peers) {
        if (peer_of(it)->link != NULL)
            pfl_tunnel_link_close(peer_of(it)->link);
    }
}
