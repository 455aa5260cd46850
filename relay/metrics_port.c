/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's metrics: see metrics_port.h and docs/metrics.md.
 *
 * Happy path: for each request, query the service if the relay serves one (tunnel/service_watch.h),
 * have the rows of hosts made in turns of the loop (hub/host_figures.h), walk connections and
 * streams and write their counters. An operator gets only the hosts that the policy permits, users
 * of the socket get all. Failures: a service that does not answer has no metrics; those of the
 * encoder end the answer. Ownership: listener, watch, rows and timer; borrows the port. Limits:
 * rows of a host for each of PFL_HOST_INVENTORY_MAX_HOSTS; those of host_figures.h; the encoder's
 * maximum.
 */
#include "relay/metrics_port.h"

#include <stdio.h>

#include "base/mem.h"
#include "relay/accept/tls_port_impl.h"
#include "relay/hub/host_figures.h"
#include "tunnel/service_watch.h"

/* Rows of hosts are made for so long in a turn of the loop, and in the next one after. */
#define PFL_RELAY_METRICS_TURN_US 500u
#define PAUSE_MS                  1u
#define NS_PER_US                 1000u

struct pfl_relay_metrics {
    struct pfl_tls_port *port;         /* borrowed */
    struct pfl_metrics_port *listener; /* owned; NULL once it is closed */
    struct pfl_service_watch *watch;   /* owned; NULL: it serves no socket of this host */
    struct pfl_host_figures hosts;     /* peers NULL: there are none */
    uv_timer_t turn;                   /* of what is made; or of texts that get old */
};

/* A family with one row for each direction. */
static void both_ways(struct pfl_metrics *m, enum pfl_metrics_type type, const char *const text[2],
                      const uint64_t values[2])
{
    static const struct pfl_metrics_label to_host = {"direction", "to_host"};
    static const struct pfl_metrics_label to_operator = {"direction", "to_operator"};

    pfl_metrics_family(m, type, text[0], text[1]);
    pfl_metrics_row(m, &to_host, 1, (double)values[0]);
    pfl_metrics_row(m, &to_operator, 1, (double)values[1]);
}

static void collect_flow(const struct pfl_traffic *sum, struct pfl_metrics *m)
{
    static const char *const bytes[] = {"perfleet_relay_stream_bytes_total",
                                        "Bytes carried in streams."};
    static const char *const held[] = {"perfleet_relay_stream_held_bytes",
                                       "Bytes that came from one side and wait for the other."};
    static const char *const used[] = {"perfleet_relay_stream_window_used_bytes",
                                       "Bytes sent in streams and not used up by that side."};

    both_ways(m, PFL_METRICS_COUNTER, bytes,
              (const uint64_t[]){sum->bytes_to_host, sum->bytes_to_operator});
    both_ways(m, PFL_METRICS_GAUGE, held,
              (const uint64_t[]){sum->held_to_host, sum->held_to_operator});
    both_ways(m, PFL_METRICS_GAUGE, used,
              (const uint64_t[]){sum->unused_to_host, sum->unused_to_operator});
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_send_queue_bytes",
                       "Bytes that wait for the kernel, of all connections.", (double)sum->queued);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_send_queue_longest_bytes",
                       "Of them, those of the connection that has most.",
                       (double)sum->queued_longest);
}

static void collect_traffic(const struct pfl_tls_port *p, struct pfl_metrics *m)
{
    struct pfl_traffic sum = {0};

    if (p->takers.hub != NULL)
        pfl_hub_get_traffic(p->takers.hub, &sum);
    if (p->takers.direct != NULL)
        pfl_direct_add_traffic(p->takers.direct, &sum);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_streams",
                       "Operators' streams to hosts now.", (double)sum.open);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_audit_lines_lost_total",
                       "Lines that could not be written to the audit log.",
                       (double)pfl_audit_log_get_lost(p->takers.audit));
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_streams_total",
                       "Operators' streams begun or resumed.", (double)sum.begun);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_stream_resumes_total",
                       "Of them, those resumed.", (double)sum.resumed);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_streams_cut_total",
                       "Streams whose connection was lost on one side.", (double)sum.cut);
    collect_flow(&sum, m);
}

static void collect_handshakes(const struct pfl_tls_port *p, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label old = {"version", "1.2"};
    static const struct pfl_metrics_label current = {"version", "1.3"};

    pfl_metrics_family(m, PFL_METRICS_COUNTER, "perfleet_relay_tls_handshakes_total",
                       "TLS handshakes done, by version.");
    pfl_metrics_row(m, &old, 1, (double)p->connections.handshakes_1_2);
    pfl_metrics_row(m, &current, 1, (double)p->connections.handshakes_1_3);
}

static void collect_certificates(const struct pfl_tls_port *p, struct pfl_metrics *m)
{
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_certificate_expiry_timestamp_seconds",
                       "When the own certificate ends.",
                       (double)pfl_tls_conf_get_identity(p->tls)->not_after_s);
    if (p->conf.files.crl_path != NULL)
        pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_crl_expiry_timestamp_seconds",
                           "When the first of the revocation lists ends.",
                           (double)pfl_tls_conf_get_crl_end(p->tls));
}

static void collect_service(const struct pfl_relay_metrics *self, struct pfl_metrics *m)
{
    const struct pfl_service_view *view;

    if (self->watch == NULL)
        return;
    view = pfl_service_watch_get(self->watch);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_service_reachable",
                       "1 when the tracing service of this host answers, else 0: asked now.",
                       view->is_known);
    pfl_service_view_collect(view, m);
    pfl_service_view_collect_losses(view, m);
}

/* ---- the hosts ---- */

static void on_turn(uv_timer_t *timer);

/* Questions do not postpone a turn. */
static void plan_turn(struct pfl_relay_metrics *self)
{
    uint64_t wait_ms = PFL_HOST_FIGURES_FRESH_MS;

    if (pfl_host_figures_is_making(&self->hosts))
        wait_ms = PAUSE_MS;
    else if (!pfl_host_figures_drop_old(&self->hosts, uv_now(self->turn.loop)))
        return;
    if (!uv_is_active((uv_handle_t *)&self->turn) || uv_timer_get_due_in(&self->turn) > wait_ms)
        (void)uv_timer_start(&self->turn, on_turn, wait_ms, 0);
}

static void on_turn(uv_timer_t *timer)
{
    struct pfl_relay_metrics *self = timer->data;
    uint64_t end_ns = uv_hrtime() + PFL_RELAY_METRICS_TURN_US * NS_PER_US;
    bool is_any_made = !pfl_host_figures_is_making(&self->hosts); /* an old one: gives its place */

    while (pfl_host_figures_is_making(&self->hosts) && uv_hrtime() < end_ns)
        is_any_made |= pfl_host_figures_proceed(&self->hosts, uv_now(timer->loop));
    plan_turn(self);
    if (is_any_made)
        pfl_metrics_port_proceed(self->listener);
}

/* ---- the listener ---- */

/* Whose hosts the answer has. */
static void read_viewer(const struct pfl_tls_identity *who, struct pfl_identity *ret_viewer)
{
    ret_viewer->name[0] = '\0';
    /* refuse has parsed it */
    if (who != NULL && pfl_identity_parse(who->uri, ret_viewer) != 0)
        (void)snprintf(ret_viewer->name, sizeof(ret_viewer->name), "?"); /* matches no rule */
}

static void collect(void *user, const struct pfl_tls_identity *who, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label labels[] = {{"program", "perfleet-relay"},
                                                      {"version", PFL_VERSION}};
    const struct pfl_relay_metrics *self = user;
    struct pfl_tls_port *p = self->port;
    struct pfl_identity viewer;

    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_build_info", "Always 1.");
    pfl_metrics_row(m, labels, 2, 1);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_connections",
                       "Connections now, unfinished handshakes among them.", p->connections.count);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_connections_total",
                       "Connections that came.", (double)p->connections.accepted);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_connections_refused_total",
                       "Of them, those that ended before they were admitted.",
                       (double)p->connections.refused);
    collect_handshakes(p, m);
    collect_traffic(p, m);
    collect_certificates(p, m);
    if (self->hosts.peers != NULL) {
        read_viewer(who, &viewer);
        pfl_host_figures_collect(&self->hosts, viewer.name, m);
    }
    collect_service(self, m);
}

static bool refresh(void *user, const struct pfl_tls_identity *who)
{
    struct pfl_relay_metrics *self = user;
    bool is_fresh = self->watch == NULL || pfl_service_watch_ask(self->watch);
    struct pfl_identity viewer;

    if (self->hosts.peers == NULL)
        return is_fresh;
    read_viewer(who, &viewer);
    if (pfl_host_figures_ask(&self->hosts, viewer.name, uv_now(self->turn.loop)))
        return is_fresh;
    plan_turn(self);
    return false;
}

static void on_asked(void *user)
{
    struct pfl_relay_metrics *self = user;

    pfl_metrics_port_proceed(self->listener);
}

static const char *refuse(void *user, const struct pfl_tls_identity *who)
{
    const struct pfl_relay_metrics *self = user;
    struct pfl_identity_refusal why;

    if (pfl_identity_authorize(who->uri, self->port->role.fleet, PFL_IDENTITY_OPERATOR, &why) == 0)
        return NULL;
    return why.reason;
}

static int open_parts(struct pfl_relay_metrics *self, const struct pfl_relay_daemon_conf *conf)
{
    uv_loop_t *loop = self->port->conf.loop;
    struct pfl_metrics_port_conf listener = {
        .loop = loop,
        .listen_address = conf->metrics_listen,
        .socket_path = conf->metrics_socket,
        .files = conf->port.files,
        .handshakes = self->port->conf.handshakes,
        .refuse = refuse,
        .refresh = refresh,
        .collect = collect,
        .user = self,
    };
    struct pfl_service_watch_conf watch = {
        .loop = loop, .socket = conf->port.consumer_socket, .on_done = on_asked, .user = self};
    int rc = 0;

    if (self->port->takers.hub != NULL)
        self->hosts.peers = pfl_hub_get_peers(self->port->takers.hub);
    if (self->port->takers.hub == NULL || conf->port.is_socket_given)
        rc = pfl_service_watch_open(&watch, &self->watch);
    return rc == 0 ? pfl_metrics_port_open(&listener, &self->listener) : rc;
}

int pfl_relay_metrics_open(const struct pfl_relay_daemon_conf *conf, struct pfl_tls_port *port,
                           struct pfl_relay_metrics **ret_metrics)
{
    struct pfl_relay_metrics *self;
    int rc;

    if (conf->metrics_listen == NULL && conf->metrics_socket == NULL)
        return 0;
    self = pfl_mem_zalloc(sizeof(*self));
    if (self == NULL)
        return PFL_ENOMEM;
    self->port = port;
    (void)uv_timer_init(port->conf.loop, &self->turn);
    self->turn.data = self;
    rc = open_parts(self, conf);
    if (rc != 0)
        pfl_relay_metrics_close(self);
    else
        *ret_metrics = self;
    return rc;
}

static void on_turn_closed(uv_handle_t *handle)
{
    pfl_mem_free(handle->data);
}

void pfl_relay_metrics_reload(struct pfl_relay_metrics *self)
{
    if (self == NULL)
        return;
    pfl_metrics_port_reload(self->listener);
    pfl_host_figures_restart(&self->hosts);
}

void pfl_relay_metrics_close(struct pfl_relay_metrics *self)
{
    if (self == NULL)
        return;
    pfl_metrics_port_close(self->listener);
    pfl_service_watch_close(self->watch);
    pfl_host_figures_fini(&self->hosts);
    uv_close((uv_handle_t *)&self->turn, on_turn_closed);
}
