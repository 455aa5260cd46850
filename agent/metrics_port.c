/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's figures: see metrics_port.h and docs/metrics.md.
 *
 * Happy path: for each scrape, look at relays and streams, try the service's socket, write.
 * Failures: those of the encoder, which end the answer. Ownership: borrows the agent.
 */
#include "agent/metrics_port.h"

#include <unistd.h>

#include "agent/port_impl.h"
#include "agent/stream_port.h"
#include "base/io/fdsock.h"

struct figures {
    unsigned relays; /* to be dialled */
    unsigned relays_connected;
    unsigned streams; /* orphans and those that are only remembered among them */
    unsigned streams_orphaned;
    uint64_t streams_begun;
    uint64_t resumes;
    uint64_t sent_bytes;         /* to operators */
    uint64_t spool_memory_bytes; /* of all streams */
    uint64_t spool_disk_bytes;
    int64_t certificate_end_s; /* UNIX time */
    int64_t crl_end_s;         /* INT64_MAX without one */
};

static void gather(const struct pfl_agent *self, struct figures *ret_figures)
{
    struct figures f = {
        .relays = (unsigned)self->conf.relays_len,
        .streams = self->streams_len,
        .streams_begun = self->streams_begun,
        .resumes = self->pool.gone_resumes,
        .sent_bytes = self->pool.gone_sent_bytes,
        .spool_memory_bytes = self->pool.used_bytes,
        .spool_disk_bytes = self->pool.disk_used_bytes,
        .certificate_end_s = pfl_tls_conf_get_identity(self->tls)->not_after_s,
        .crl_end_s = pfl_tls_conf_get_crl_end(self->tls),
    };
    struct pfl_list *it;

    for (size_t i = 0; i < self->conf.relays_len; i++) {
        struct pfl_dialer *dialer = self->uplinks[i].dialer;

        f.relays_connected += dialer != NULL && pfl_dialer_get_h2(dialer) != NULL;
    }
    PFL_LIST_EACH (it, &self->streams) {
        struct pfl_agent_stream_info info;

        pfl_agent_stream_get_info(pfl_agent_stream_of_node(it), &info);
        f.streams_orphaned += !info.is_carried && !info.is_over;
        f.resumes += info.resumes;
        f.sent_bytes += info.sent_bytes;
    }
    *ret_figures = f;
}

static bool is_service_there(const char *socket)
{
    int fd;

    if (pfl_fdsock_connect_unix(socket, &fd) != 0)
        return false;
    close(fd);
    return true;
}

static void collect_streams(const struct figures *f, struct pfl_metrics *m)
{
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_streams",
                       "Operators' streams now, orphans and remembered ones among them.",
                       f->streams);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_streams_orphaned",
                       "Of them, those whose connection is lost and that are not over.",
                       f->streams_orphaned);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_streams_total",
                       "Operators' streams begun.", (double)f->streams_begun);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_stream_resumes_total",
                       "How often streams were resumed.", (double)f->resumes);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_stream_sent_bytes_total",
                       "Bytes sent to operators in streams, each once.", (double)f->sent_bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_spool_memory_bytes",
                       "What the streams' spools hold in memory.", (double)f->spool_memory_bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_spool_disk_bytes",
                       "What the streams' spools hold in files.", (double)f->spool_disk_bytes);
}

static void collect(void *user, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label labels[] = {{"program", "perfleet-agent"},
                                                      {"version", PFL_VERSION}};
    const struct pfl_agent *a = user;
    struct figures f;

    gather(a, &f);
    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_build_info", "Always 1.");
    pfl_metrics_row(m, labels, 2, 1);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_relays",
                       "Relays that the agent dials.", f.relays);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_relays_connected",
                       "Of them, those that it is connected to.", f.relays_connected);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_service_reachable",
                       "1 when the tracing service takes connections, else 0: tried now.",
                       is_service_there(a->conf.consumer_socket));
    collect_streams(&f, m);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_certificate_expiry_timestamp_seconds",
                       "When the own certificate ends.", (double)f.certificate_end_s);
    if (f.crl_end_s != INT64_MAX)
        pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_crl_expiry_timestamp_seconds",
                           "When the first of the revocation lists ends.", (double)f.crl_end_s);
}

static const char *refuse(void *user, const struct pfl_tls_identity *who)
{
    const struct pfl_agent *a = user;
    struct pfl_identity_refusal why;

    if (pfl_identity_authorize(who->uri, a->fleet, PFL_IDENTITY_OPERATOR, &why) == 0)
        return NULL;
    return why.reason;
}

int pfl_agent_metrics_open(const struct pfl_agent_daemon_conf *conf, uv_loop_t *loop,
                           struct pfl_agent *agent, struct pfl_metrics_port **ret_door)
{
    struct pfl_metrics_port_conf door = {
        .loop = loop,
        .listen_address = conf->metrics_listen,
        .socket_path = conf->metrics_socket,
        .files = conf->agent.files,
        .refuse = refuse,
        .collect = collect,
        .user = agent,
    };

    if (conf->metrics_listen == NULL && conf->metrics_socket == NULL)
        return 0;
    return pfl_metrics_port_open(&door, ret_door);
}
