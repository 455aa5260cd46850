/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's metrics: see metrics_port.h and docs/metrics.md.
 *
 * Happy path: for each request, query the service if the relay serves one (tunnel/service_watch.h),
 * walk connections, streams and hosts and write their counters. An operator gets only the hosts
 * that the policy permits, users of the socket get all. Failures: a service that does not answer
 * has no metrics; those of the encoder end the answer. Ownership: listener and watch; borrows the
 * port. Limits: rows of a host for each of PFL_HOST_INVENTORY_MAX_HOSTS; the encoder's maximum.
 */
#include "relay/metrics_port.h"

#include "base/mem.h"
#include "relay/accept/tls_port_impl.h"
#include "relay/hub/peer_table.h"
#include "tunnel/service_watch.h"

#define NS_PER_S 1e9

struct pfl_relay_metrics {
    struct pfl_tls_port *port;         /* borrowed */
    struct pfl_metrics_port *listener; /* owned */
    struct pfl_service_watch *watch;   /* owned; NULL: it serves no socket of this host */
};

enum host_figure {
    HOST_CONNECTED,
    HOST_STREAMS,
    HOST_CLOCK_OFFSET,
    HOST_CLOCK_ERROR,
    HOST_CERTIFICATE,
    HOST_FIGURES
};

static const struct {
    const char *name;
    const char *help;
} host_families[HOST_FIGURES] = {
    [HOST_CONNECTED] = {"perfleet_relay_host_connected",
                        "1 while the agent of a known host is connected, else 0."},
    [HOST_STREAMS] = {"perfleet_relay_host_streams", "Streams to the host now."},
    [HOST_CLOCK_OFFSET] = {"perfleet_relay_host_clock_offset_seconds",
                           "The host's boot clock less the relay's."},
    [HOST_CLOCK_ERROR] = {"perfleet_relay_host_clock_error_seconds",
                          "How wrong that may be, either way."},
    [HOST_CERTIFICATE] = {"perfleet_relay_host_certificate_expiry_timestamp_seconds",
                          "When the certificate that the host showed last ends."},
};

/* False: this host has no such metric. */
static bool get_figure(const struct pfl_host *host, enum host_figure figure, double *ret_value)
{
    bool is_connected = host->peer != NULL;

    switch (figure) {
    case HOST_CONNECTED:
        *ret_value = is_connected;
        return true;
    case HOST_STREAMS:
        *ret_value = host->streams;
        return is_connected;
    case HOST_CLOCK_OFFSET:
        *ret_value = (double)host->clock_offset_ns / NS_PER_S;
        return is_connected && host->has_clock;
    case HOST_CLOCK_ERROR:
        *ret_value = (double)host->clock_error_ns / NS_PER_S;
        return is_connected && host->has_clock;
    case HOST_CERTIFICATE:
        *ret_value = (double)host->certificate_end_s;
        return host->certificate_end_s != 0;
    default:
        return false;
    }
}

struct viewer {
    const struct pfl_peer_table *peers;
    const char *operator_name; /* NULL: sees all */
};

static void collect_rows(const struct viewer *v, const struct pfl_host *host, bool *is_seen,
                         enum host_figure figure, struct pfl_metrics *m)
{
    struct pfl_metrics_label label = {"host", host->name};
    double value;

    /* Asked of the policy once, with the first figure. */
    if (figure == 0)
        *is_seen = v->operator_name == NULL ||
                   pfl_peer_table_may_see(v->peers, v->operator_name, host->name);
    if (*is_seen && get_figure(host, figure, &value))
        pfl_metrics_row(m, &label, 1, value);
}

static void collect_forgotten(const struct pfl_host_inventory *inventory, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label whys[PFL_HOST_INVENTORY_WHYS] = {
        [PFL_HOST_INVENTORY_ASKED] = {"why", "asked"},
        [PFL_HOST_INVENTORY_AGE] = {"why", "age"},
        [PFL_HOST_INVENTORY_ROOM] = {"why", "room"},
    };

    pfl_metrics_family(m, PFL_METRICS_COUNTER, "perfleet_relay_hosts_forgotten_total",
                       "Hosts that left and are known no more, by why: an operator asked, their "
                       "age, no room.");
    for (int i = 0; i < PFL_HOST_INVENTORY_WHYS; i++)
        pfl_metrics_row(m, &whys[i], 1, (double)inventory->forgotten[i]);
}

static void collect_hosts(const struct viewer *v, struct pfl_metrics *m)
{
    const struct pfl_host_inventory *inventory = &v->peers->inventory;
    bool *are_seen = pfl_mem_calloc(inventory->count + 1, sizeof(*are_seen));
    struct pfl_list *it;
    unsigned connected = 0;

    PFL_LIST_EACH (it, &inventory->hosts)
        connected += PFL_CONTAINER_OF(it, struct pfl_host, node)->peer != NULL;
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_hosts_known",
                       "Hosts that are connected or were.", inventory->count);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_hosts_connected",
                       "Hosts whose agent is connected.", connected);
    collect_forgotten(inventory, m);
    for (int f = 0; are_seen != NULL && f < HOST_FIGURES; f++) {
        size_t i = 0;

        pfl_metrics_family(m, PFL_METRICS_GAUGE, host_families[f].name, host_families[f].help);
        PFL_LIST_EACH (it, &inventory->hosts)
            collect_rows(v, PFL_CONTAINER_OF(it, struct pfl_host, node), &are_seen[i++],
                         (enum host_figure)f, m);
    }
    pfl_mem_free(are_seen);
}

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

/* ---- the listener ---- */

static void collect(void *user, const struct pfl_tls_identity *who, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label labels[] = {{"program", "perfleet-relay"},
                                                      {"version", PFL_VERSION}};
    const struct pfl_relay_metrics *self = user;
    struct pfl_tls_port *p = self->port;
    struct pfl_identity identity = {.name = ""}; /* matches no rule */
    struct viewer viewer = {.operator_name = who != NULL ? identity.name : NULL};

    if (who != NULL && pfl_identity_parse(who->uri, &identity) != 0)
        identity.name[0] = '\0';
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
    if (p->takers.hub != NULL) {
        viewer.peers = pfl_hub_get_peers(p->takers.hub);
        collect_hosts(&viewer, m);
    }
    collect_service(self, m);
}

static bool refresh(void *user)
{
    struct pfl_relay_metrics *self = user;

    return self->watch == NULL || pfl_service_watch_ask(self->watch);
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
    rc = open_parts(self, conf);
    if (rc != 0)
        pfl_relay_metrics_close(self);
    else
        *ret_metrics = self;
    return rc;
}

void pfl_relay_metrics_reload(struct pfl_relay_metrics *self)
{
    if (self != NULL)
        pfl_metrics_port_reload(self->listener);
}

void pfl_relay_metrics_close(struct pfl_relay_metrics *self)
{
    if (self == NULL)
        return;
    pfl_metrics_port_close(self->listener);
    pfl_service_watch_close(self->watch);
    pfl_mem_free(self);
}
