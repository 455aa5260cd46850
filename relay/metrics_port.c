/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's figures: see metrics_port.h and docs/metrics.md.
 *
 * Happy path: for each scrape, walk connections, streams and hosts and write what they count.
 * Failures: those of the encoder, which end the answer. Ownership: borrows the port. Limits: rows
 * of a host for each of PFL_INVENTORY_MAX_HOSTS; the encoder's maximum.
 */
#include "relay/metrics_port.h"

#include "relay/inventory.h"
#include "relay/port_impl.h"

#define NS_PER_S 1e9

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

/* False: there is no such figure of this host. */
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

static void collect_hosts(const struct pfl_inventory *inventory, struct pfl_metrics *m)
{
    struct pfl_list *it;
    unsigned connected = 0;

    PFL_LIST_EACH (it, &inventory->hosts)
        connected += PFL_CONTAINER_OF(it, struct pfl_host, node)->peer != NULL;
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_hosts_known",
                       "Hosts that are connected or were.", inventory->count);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_hosts_connected",
                       "Hosts whose agent is connected.", connected);
    for (int f = 0; f < HOST_FIGURES; f++) {
        pfl_metrics_family(m, PFL_METRICS_GAUGE, host_families[f].name, host_families[f].help);
        PFL_LIST_EACH (it, &inventory->hosts) {
            const struct pfl_host *host = PFL_CONTAINER_OF(it, struct pfl_host, node);
            struct pfl_metrics_label label = {"host", host->name};
            double value;

            if (get_figure(host, (enum host_figure)f, &value))
                pfl_metrics_row(m, &label, 1, value);
        }
    }
}

static void add_raw(const struct pfl_port *p, struct pfl_traffic *sum)
{
    struct pfl_forward_stats stats;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &p->connections) {
        const struct pfl_port_connection *c =
            PFL_CONTAINER_OF(it, struct pfl_port_connection, node);

        if (c->forward == NULL)
            continue;
        pfl_forward_get_stats(c->forward, &stats);
        sum->open++;
        sum->bytes_to_host += stats.bytes_to_local;
        sum->bytes_to_operator += stats.bytes_to_remote;
    }
    sum->begun += p->ended.begun;
    sum->bytes_to_host += p->ended.bytes_to_host;
    sum->bytes_to_operator += p->ended.bytes_to_operator;
}

static void collect_traffic(const struct pfl_port *p, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label to_host = {"direction", "to_host"};
    static const struct pfl_metrics_label to_operator = {"direction", "to_operator"};
    struct pfl_traffic sum = {0};

    if (p->hub != NULL)
        pfl_hub_get_traffic(p->hub, &sum);
    add_raw(p, &sum);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_streams",
                       "Operators' streams to hosts now.", (double)sum.open);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_streams_total",
                       "Operators' streams begun or resumed.", (double)sum.begun);
    pfl_metrics_family(m, PFL_METRICS_COUNTER, "perfleet_relay_stream_bytes_total",
                       "Bytes carried in streams.");
    pfl_metrics_row(m, &to_host, 1, (double)sum.bytes_to_host);
    pfl_metrics_row(m, &to_operator, 1, (double)sum.bytes_to_operator);
}

static void collect_certificates(const struct pfl_port *p, struct pfl_metrics *m)
{
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_certificate_expiry_timestamp_seconds",
                       "When the own certificate ends.",
                       (double)pfl_tls_conf_get_identity(p->tls)->not_after_s);
    if (p->conf.files.crl_path != NULL)
        pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_crl_expiry_timestamp_seconds",
                           "When the first of the revocation lists ends.",
                           (double)pfl_tls_conf_get_crl_end(p->tls));
}

static void collect(void *user, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label labels[] = {{"program", "perfleet-relay"},
                                                      {"version", PFL_VERSION}};
    struct pfl_port *p = user;

    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_build_info", "Always 1.");
    pfl_metrics_row(m, labels, 2, 1);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_relay_connections",
                       "Connections now, unfinished handshakes among them.", p->count);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_connections_total",
                       "Connections that came.", (double)p->accepted);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_relay_connections_refused_total",
                       "Of them, those that ended before they were let in.", (double)p->refused);
    collect_traffic(p, m);
    collect_certificates(p, m);
    if (p->hub != NULL)
        collect_hosts(pfl_hub_get_inventory(p->hub), m);
}

static const char *refuse(void *user, const struct pfl_tls_identity *who)
{
    const struct pfl_port *p = user;
    struct pfl_identity_refusal why;

    if (pfl_identity_authorize(who->uri, p->fleet, PFL_IDENTITY_OPERATOR, &why) == 0)
        return NULL;
    return why.reason;
}

int pfl_relay_metrics_open(const struct pfl_daemon_conf *conf, uv_loop_t *loop,
                           struct pfl_port *port, struct pfl_metrics_port **ret_door)
{
    struct pfl_metrics_port_conf door = {
        .loop = loop,
        .listen_address = conf->metrics_listen,
        .socket_path = conf->metrics_socket,
        .files = conf->port.files,
        .refuse = refuse,
        .collect = collect,
        .user = port,
    };

    if (conf->metrics_listen == NULL && conf->metrics_socket == NULL)
        return 0;
    return pfl_metrics_port_open(&door, ret_door);
}
