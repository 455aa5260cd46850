/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shell of the fleet relay: see hub_port.h. It has the connections, their timers, clocks and
 * logs; the cores of this folder decide.
 *
 * Happy path: a peer's TLS stream becomes a link. The relay requests an agent's hello and clock
 * (agent_hello.h), and uses it as its host's connection from then on; an operator's requests are
 * answered (operator_requests.h). Failures: a silent peer is closed; a second connection of a host
 * replaces the first, which gets a GOAWAY. Ownership: peers own their links; the
 * tables are part of the hub. Limits: the port's max_connections, peer_table.h's, streams per
 * connection (proto/h2/h2.h), stream_table.h's.
 */
#include "relay/hub/hub_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/io/tls_stream.h"
#include "base/mem.h"
#include "proto/tunnel/tunnel.h"
#include "relay/hub/agent_hello.h"
#include "relay/hub/hub_log_port.h"
#include "relay/hub/operator_requests.h"
#include "relay/hub/throttle.h"
#include "tunnel/link.h"

#define SETTLE_TIMEOUT_MS 10000u
#define CLOCK_PERIOD_MS   60000u
#define PACE_MS           10u

struct pfl_hub {
    uv_loop_t *loop;
    struct pfl_audit_log *audit;
    uint64_t silence_ms;
    int64_t certificate_end_s; /* of the relay: for operators that ask */
    int64_t crl_end_s;
    struct pfl_hub_shell shell; /* our part, for the cores */
    struct pfl_hub_log log;
    struct pfl_peer_table peers;
    struct pfl_stream_table streams;
    struct pfl_operator_requests requests;
    struct pfl_trigger_passing triggers;
};

struct connection {
    struct pfl_hub_peer peer;     /* in the table, owned until on_ended */
    struct pfl_hub *hub;          /* borrowed: outlives us */
    struct pfl_tunnel_link *link; /* owned until its on_closed */
    uv_timer_t timer; /* until the peer's settings; then an agent's clock, an operator's pace */
    struct pfl_agent_hello hello; /* of an agent */
    uint64_t who;                 /* a hash of its name */
    void (*on_ended)(void *user);
    void *user;
};

static struct connection *connection_of(const struct pfl_hub_peer *peer)
{
    return PFL_CONTAINER_OF(peer, struct connection, peer);
}

static struct connection *node_of(struct pfl_list *node)
{
    return connection_of(PFL_CONTAINER_OF(node, struct pfl_hub_peer, node));
}

/* ---- what the cores need: hub_shell.h ---- */

static uint64_t get_now_ms(void *user)
{
    const struct pfl_hub *self = user;

    return uv_now(self->loop);
}

static int64_t get_boot_ns(void *user)
{
    (void)user;
    return (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
}

static int64_t get_unix_ns(void *user)
{
    (void)user;
    return (int64_t)pfl_clock_now_ns(PFL_CLOCK_REALTIME);
}

static struct pfl_h2 *get_h2(void *user, const struct pfl_hub_peer *peer)
{
    struct pfl_tunnel_link *link = connection_of(peer)->link;

    (void)user;
    return link != NULL ? pfl_tunnel_link_get_h2(link) : NULL;
}

static void on_pace(uv_timer_t *timer)
{
    struct connection *p = timer->data;

    pfl_throttle_run(&p->peer);
}

static void pace(void *user, struct pfl_hub_peer *peer)
{
    uv_timer_t *timer = &connection_of(peer)->timer;

    (void)user;
    if (!uv_is_active((uv_handle_t *)timer))
        (void)uv_timer_start(timer, on_pace, PACE_MS, 0);
}

static void get_figures(void *user, struct pfl_relay_figures *ret_figures)
{
    const struct pfl_hub *self = user;
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    *ret_figures = (struct pfl_relay_figures){
        .certificate_end_s = self->certificate_end_s,
        .crl_end_s = self->crl_end_s,
        .cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
                  (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000,
    };
    pfl_hub_get_traffic(self, &ret_figures->traffic);
}

static bool can_audit(void *user)
{
    const struct pfl_hub *self = user;

    return pfl_audit_log_may_begin(self->audit);
}

static bool audit(void *user, const struct pfl_audit_log_entry *entry)
{
    const struct pfl_hub *self = user;

    return pfl_audit_log_write(self->audit, entry);
}

static void report(void *user, const struct pfl_hub_report *report)
{
    struct pfl_hub *self = user;

    pfl_hub_log_write(&self->log, report, uv_now(self->loop));
}

/* ---- the end of a peer ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct connection *p = handle->data;
    void (*on_ended)(void *user) = p->on_ended;
    void *user = p->user;

    pfl_peer_table_remove(&p->hub->peers, &p->peer);
    pfl_mem_free(p);
    on_ended(user);
}

static const char *kind_of(const struct pfl_hub_peer *peer)
{
    return peer->is_collector ? "collector" : pfl_identity_role_name(peer->identity.role);
}

static void on_link_closed(void *user, int err, const char *why)
{
    struct connection *p = user;

    (void)err;
    p->link = NULL;
    pfl_peer_table_leave(&p->hub->peers, &p->peer);
    pfl_log_info("tunnel-ended", "address=%s %s=%s reason=%s", p->peer.address, kind_of(&p->peer),
                 p->peer.identity.name, pfl_log_quote_reason(why));
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

static void close_link(struct connection *p)
{
    if (p->link != NULL)
        pfl_tunnel_link_close(p->link);
}

/* Sends the peer a GOAWAY; if that fails it is closed. */
static void send_goaway(struct connection *p)
{
    struct pfl_h2 *h2 = get_h2(p->hub, &p->peer);

    if (h2 == NULL || pfl_h2_goaway(h2) != 0)
        close_link(p);
}

/* ---- joining ---- */

static void on_clock_due(uv_timer_t *timer)
{
    struct connection *p = timer->data;

    pfl_agent_hello_repeat(&p->hello);
}

static void replace(struct pfl_hub_peer *older)
{
    pfl_agent_events_stop(older);
    pfl_log_warn("host-replaced",
                 "host=%s address=%s reason=\"a newer connection of this host came\"",
                 older->identity.name, older->address);
    send_goaway(connection_of(older));
}

/* Agents that came together, after a restart of the relay, are not asked together. */
static uint64_t first_clock_ms(const struct connection *p)
{
    return CLOCK_PERIOD_MS / 2 + p->who % (CLOCK_PERIOD_MS / 2);
}

static void start_agent(struct connection *p)
{
    p->hello.agent = &p->peer;
    p->hello.streams = &p->hub->streams;
    p->hello.triggers = &p->hub->triggers;
    (void)uv_timer_start(&p->timer, on_clock_due, first_clock_ms(p), CLOCK_PERIOD_MS);
    pfl_agent_hello_start(&p->hello);
}

static void on_ready(void *user)
{
    struct connection *p = user;
    struct pfl_hub_peer *replaced;
    int rc;

    (void)uv_timer_stop(&p->timer);
    rc = pfl_peer_table_settle(&p->hub->peers, &p->peer, &replaced);
    if (replaced != NULL)
        replace(replaced);
    if (rc != 0) {
        pfl_log_error("host-not-taken", "host=%s reason=\"no room for one more\"",
                      p->peer.identity.name);
        close_link(p);
    } else if (p->peer.host != NULL) {
        start_agent(p);
    }
    pfl_log_info("tunnel-started", "address=%s %s=%s tls=%s", p->peer.address, kind_of(&p->peer),
                 p->peer.identity.name, p->peer.tls_version);
}

static void on_request(void *user, struct pfl_h2_stream *h2_stream, const struct pfl_h2_head *head)
{
    struct connection *p = user;

    pfl_operator_requests_take(&p->hub->requests, &p->peer, h2_stream, head);
}

static void on_settle_timeout(uv_timer_t *timer)
{
    close_link(timer->data);
}

/* ---- a connection comes ---- */

static int open_link(struct connection *p, const struct pfl_hub_peer_conf *conf)
{
    /* Then the relay asks. */
    bool is_reversed = conf->identity->role == PFL_IDENTITY_HOST || conf->is_collector;
    struct pfl_tunnel_link_conf link = {
        .loop = p->hub->loop,
        .stream = conf->stream,
        .h2 = {.is_answering = !is_reversed,
               .window_bytes =
                   is_reversed ? PFL_TUNNEL_DATA_WINDOW_BYTES : PFL_TUNNEL_CONTROL_WINDOW_BYTES,
               .on_request = is_reversed ? NULL : on_request,
               .on_ready = on_ready,
               .user = p},
        .quiet_ms = p->hub->silence_ms / PFL_TUNNEL_SILENCE_FACTOR,
        .on_closed = on_link_closed,
        .user = p,
    };

    return pfl_tunnel_link_open(&link, &p->link);
}

static void init_peer(struct connection *p, struct pfl_hub *hub,
                      const struct pfl_hub_peer_conf *conf)
{
    const struct pfl_identity *identity = conf->identity;

    p->hub = hub;
    p->on_ended = conf->on_ended;
    p->user = conf->user;
    p->peer.identity = *identity;
    p->peer.is_collector = conf->is_collector;
    p->peer.tls_version = pfl_tls_stream_get_version(conf->stream);
    p->peer.certificate_end_s = pfl_tls_stream_get_identity(conf->stream)->not_after_s;
    (void)snprintf(p->peer.address, sizeof(p->peer.address), "%s", conf->address);
    p->who = pfl_shares_hash(identity->name, strlen(identity->name));
}

int pfl_hub_take(struct pfl_hub *self, const struct pfl_hub_peer_conf *conf)
{
    struct pfl_hub_peer *ousted;
    struct connection *p;
    int rc = pfl_peer_table_admit(&self->peers, conf->identity, conf->is_collector, &ousted);

    if (rc != 0)
        return rc;
    if (ousted != NULL)
        close_link(connection_of(ousted));
    p = pfl_mem_zalloc(sizeof(*p));
    if (p == NULL)
        return PFL_ENOMEM;
    init_peer(p, self, conf);
    rc = open_link(p, conf);
    if (rc != 0) {
        pfl_mem_free(p);
        return rc;
    }
    (void)uv_timer_init(self->loop, &p->timer);
    p->timer.data = p;
    (void)uv_timer_start(&p->timer, on_settle_timeout, SETTLE_TIMEOUT_MS, 0);
    pfl_peer_table_add(&self->peers, &p->peer);
    return 0;
}

/* ---- the hub ---- */

int pfl_hub_new(const struct pfl_hub_conf *conf, struct pfl_hub **ret_hub)
{
    struct pfl_hub *h = pfl_mem_zalloc(sizeof(*h));
    char boot_id[PFL_CLOCK_BOOT_ID_BYTES];

    if (h == NULL)
        return PFL_ENOMEM;
    h->loop = conf->loop;
    h->audit = conf->audit;
    h->silence_ms = conf->silence_ms;
    h->shell = (struct pfl_hub_shell){.get_now_ms = get_now_ms,
                                      .get_boot_ns = get_boot_ns,
                                      .get_unix_ns = get_unix_ns,
                                      .get_h2 = get_h2,
                                      .pace = pace,
                                      .get_figures = get_figures,
                                      .can_audit = can_audit,
                                      .audit = audit,
                                      .report = report,
                                      .user = h};
    pfl_clock_read_boot_id(boot_id);
    pfl_peer_table_init(&h->peers,
                        &(struct pfl_peer_table_conf){.shell = &h->shell,
                                                      .relay = conf->relay,
                                                      .boot_id = boot_id,
                                                      .max_per_operator = conf->max_per_operator,
                                                      .forget_after_ms = conf->forget_after_ms});
    pfl_stream_table_init(
        &h->streams,
        &(struct pfl_stream_table_conf){.peers = &h->peers,
                                        .quotas = conf->quotas,
                                        .unread_max_bytes = (uint64_t)conf->max_unread_mib << 20});
    pfl_operator_requests_init(&h->requests, &h->streams, conf->relay, conf->fleet);
    pfl_trigger_passing_init(&h->triggers, &h->peers);
    *ret_hub = h;
    return 0;
}

void pfl_hub_free(struct pfl_hub *self)
{
    if (self == NULL)
        return;
    pfl_hub_log_flush(&self->log);
    pfl_peer_table_fini(&self->peers);
    pfl_mem_free(self);
}

void pfl_hub_set_policy(struct pfl_hub *self, const struct pfl_policy *policy)
{
    struct pfl_list *it;

    self->peers.policy = policy;
    pfl_stream_table_review(&self->streams, NULL);
    pfl_spool_polls_restart(&self->requests.spools);
    PFL_LIST_EACH (it, &self->peers.peers) {
        if (pfl_peer_table_is_forbidden(&node_of(it)->peer))
            close_link(node_of(it));
    }
}

void pfl_hub_set_ends(struct pfl_hub *self, int64_t certificate_end_s, int64_t crl_end_s)
{
    self->certificate_end_s = certificate_end_s;
    self->crl_end_s = crl_end_s;
}

const struct pfl_peer_table *pfl_hub_get_peers(const struct pfl_hub *self)
{
    return &self->peers;
}

void pfl_hub_get_traffic(const struct pfl_hub *self, struct pfl_traffic *ret_traffic)
{
    struct pfl_list *it;

    pfl_stream_table_get_traffic(&self->streams, ret_traffic);
    PFL_LIST_EACH (it, &self->peers.peers) {
        const struct connection *p = node_of(it);

        if (p->link != NULL)
            pfl_traffic_add_queue(ret_traffic, pfl_tunnel_link_get_queued_bytes(p->link));
    }
}

void pfl_hub_forget_old(struct pfl_hub *self)
{
    pfl_peer_table_forget_old(&self->peers);
}

void pfl_hub_run_polls(struct pfl_hub *self)
{
    pfl_spool_polls_run(&self->requests.spools);
}

void pfl_hub_drop(struct pfl_hub *self, const void *user)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->peers.peers) {
        if (node_of(it)->user == user)
            close_link(node_of(it));
    }
}

void pfl_hub_drain(struct pfl_hub *self)
{
    struct pfl_list *it;

    pfl_spool_polls_finish(&self->requests.spools);
    PFL_LIST_EACH (it, &self->peers.peers) {
        struct pfl_h2 *h2 = get_h2(self, &node_of(it)->peer);

        if (h2 != NULL && pfl_h2_goaway(h2) != 0)
            close_link(node_of(it));
    }
}

void pfl_hub_close(struct pfl_hub *self)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->peers.peers)
        close_link(node_of(it));
}
