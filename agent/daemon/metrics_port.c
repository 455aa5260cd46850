/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's metrics: see metrics_port.h and docs/metrics.md.
 *
 * Happy path: for each request, query the service (tunnel/service_watch.h), collect relays and
 * streams, write. Failures: a service that does not answer has no metrics; those of the encoder end
 * the answer. Ownership: listener and watch; borrows the agent.
 */
#include "agent/daemon/metrics_port.h"

#include "agent/daemon/port_impl.h"
#include "agent/daemon/stream/stream_port.h"
#include "base/mem.h"
#include "tunnel/service_watch.h"

struct pfl_agent_metrics {
    struct pfl_agent *agent;           /* borrowed */
    struct pfl_metrics_port *listener; /* owned */
    struct pfl_service_watch *watch;   /* owned */
};

/* Of all connections of a kind. */
struct queue {
    uint64_t bytes;
    uint64_t longest_bytes;
};

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
    struct queue to_relays;
    struct queue to_service;
    uint64_t window_bytes; /* of streams that are carried */
    uint64_t window_used_bytes;
    unsigned streams_waiting;
    int64_t certificate_end_s; /* UNIX time */
    int64_t crl_end_s;         /* INT64_MAX without one */
};

static void add_queue(struct queue *self, uint64_t bytes)
{
    self->bytes += bytes;
    if (bytes > self->longest_bytes)
        self->longest_bytes = bytes;
}

static void add_stream(struct figures *f, const struct pfl_agent_stream_info *info)
{
    f->streams_orphaned += !info->is_carried && !info->is_over;
    f->resumes += info->resumes;
    f->sent_bytes += info->sent_bytes;
    f->window_bytes += info->window_bytes;
    f->window_used_bytes += info->unused_bytes;
    f->streams_waiting += info->is_waiting;
    add_queue(&f->to_service, info->queued_bytes);
}

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

        if (dialer == NULL || pfl_dialer_get_h2(dialer) == NULL)
            continue;
        f.relays_connected++;
        add_queue(&f.to_relays, pfl_dialer_get_queued_bytes(dialer));
    }
    PFL_LIST_EACH (it, &self->streams) {
        struct pfl_agent_stream_info info;

        pfl_agent_stream_get_info(pfl_agent_stream_of_node(it), &info);
        add_stream(&f, &info);
    }
    *ret_figures = f;
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

static void collect_queues(const struct figures *f, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label relay = {"towards", "relay"};
    static const struct pfl_metrics_label service = {"towards", "service"};

    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_agent_send_queue_bytes",
                       "Bytes that wait for the kernel, of all connections.");
    pfl_metrics_row(m, &relay, 1, (double)f->to_relays.bytes);
    pfl_metrics_row(m, &service, 1, (double)f->to_service.bytes);
    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_agent_send_queue_longest_bytes",
                       "Of them, those of the connection that has most.");
    pfl_metrics_row(m, &relay, 1, (double)f->to_relays.longest_bytes);
    pfl_metrics_row(m, &service, 1, (double)f->to_service.longest_bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_stream_window_bytes",
                       "What operators let streams send at a time.", (double)f->window_bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_stream_window_used_bytes",
                       "Of it, what was sent and is not used up by the operator.",
                       (double)f->window_used_bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_streams_waiting",
                       "Carried streams that have more to send now.", f->streams_waiting);
}

static void collect_losses(const struct pfl_agent_metrics *self, struct pfl_metrics *m)
{
    const struct pfl_spool_pool *pool = &self->agent->pool;

    pfl_service_view_collect_losses(pfl_service_watch_get(self->watch), m);
    pfl_service_view_row_loss(m, "tunnel", "stream_expired", pool->expired);
    pfl_service_view_row_loss(m, "tunnel", "spool_broken", pool->broken);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_spools_full_total",
                       "Streams whose spool was full: the service was held back.",
                       (double)pool->full);
}

/* An agent without a folder for segments has none of these families. */
static void collect_segments(const struct pfl_agent *agent, struct pfl_metrics *m)
{
    struct pfl_segments_figures f;
    struct pfl_orders_figures orders;

    if (agent->segments == NULL || agent->orders == NULL)
        return;
    pfl_segments_get_figures(agent->segments, &f);
    pfl_orders_get_figures(agent->orders, &orders);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_orders",
                       "Orders that collectors put on this host.", orders.all);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_orders_running",
                       "Of them, those that run.", orders.running);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_orders_unput_seconds",
                       "Longest time for which a collector has not put one of them again.",
                       (double)(orders.unput_ms / 1000));
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_orders_expired_total",
                       "Orders that were removed, as their collector did not come again.",
                       (double)orders.expired);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_segments",
                       "Segments that wait for a collector.", (double)f.sums.segments);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_segments_bytes", "Their bytes.",
                       (double)f.sums.bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_segments_gaps",
                       "Gaps that wait for a collector.", (double)f.gaps);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_segments_have_room",
                       "1 when the disk has room for segments, else 0.", f.has_room);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_segments_total",
                       "Segments that the service wrote.", (double)f.taken);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_segments_bytes_total",
                       "Bytes of these segments.", (double)f.taken_bytes);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_segments_released_total",
                       "Segments and gaps that a collector released.", (double)f.released);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_segments_removed_total",
                       "Segments that a quota removed before a collector read them.",
                       (double)f.removed);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_agent_segments_removed_bytes_total",
                       "Their bytes.", (double)f.removed_bytes);
}

static void collect_own(const struct pfl_agent_metrics *self, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label labels[] = {{"program", "perfleet-agent"},
                                                      {"version", PFL_VERSION}};
    struct figures f;

    gather(self->agent, &f);
    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_build_info", "Always 1.");
    pfl_metrics_row(m, labels, 2, 1);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_relays",
                       "Relays that the agent dials.", f.relays);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_relays_connected",
                       "Of them, those that it is connected to.", f.relays_connected);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_agent_service_reachable",
                       "1 when the tracing service answers, else 0: asked now.",
                       pfl_service_watch_get(self->watch)->is_known);
    collect_streams(&f, m);
    collect_queues(&f, m);
    collect_segments(self->agent, m);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_certificate_expiry_timestamp_seconds",
                       "When the own certificate ends.", (double)f.certificate_end_s);
    if (f.crl_end_s != INT64_MAX)
        pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_crl_expiry_timestamp_seconds",
                           "When the first of the revocation lists ends.", (double)f.crl_end_s);
}

/* ---- the listener ---- */

static void collect(void *user, const struct pfl_tls_identity *who, struct pfl_metrics *m)
{
    const struct pfl_agent_metrics *self = user;

    (void)who; /* no identity in it */
    collect_own(self, m);
    pfl_service_view_collect(pfl_service_watch_get(self->watch), m);
    collect_losses(self, m);
}

static bool refresh(void *user, const struct pfl_tls_identity *who)
{
    struct pfl_agent_metrics *self = user;

    (void)who; /* all see the same */
    return pfl_service_watch_ask(self->watch);
}

static void on_asked(void *user)
{
    struct pfl_agent_metrics *self = user;

    pfl_metrics_port_proceed(self->listener);
}

static const char *refuse(void *user, const struct pfl_tls_identity *who)
{
    const struct pfl_agent_metrics *self = user;
    struct pfl_identity_refusal why;

    if (pfl_identity_authorize(who->uri, self->agent->fleet, PFL_IDENTITY_OPERATOR, &why) == 0)
        return NULL;
    return why.reason;
}

int pfl_agent_metrics_open(const struct pfl_agent_daemon_conf *conf, uv_loop_t *loop,
                           struct pfl_agent *agent, struct pfl_agent_metrics **ret_metrics)
{
    struct pfl_agent_metrics *self;
    struct pfl_metrics_port_conf listener = {
        .loop = loop,
        .listen_address = conf->metrics_listen,
        .socket_path = conf->metrics_socket,
        .files = conf->agent.files,
        .refuse = refuse,
        .refresh = refresh,
        .collect = collect,
    };
    struct pfl_service_watch_conf watch = {
        .loop = loop, .socket = agent->conf.consumer_socket, .on_done = on_asked};
    int rc;

    if (conf->metrics_listen == NULL && conf->metrics_socket == NULL)
        return 0;
    self = pfl_mem_zalloc(sizeof(*self));
    if (self == NULL)
        return PFL_ENOMEM;
    self->agent = agent;
    listener.user = watch.user = self;
    rc = pfl_service_watch_open(&watch, &self->watch);
    if (rc == 0)
        rc = pfl_metrics_port_open(&listener, &self->listener);
    if (rc != 0)
        pfl_agent_metrics_close(self);
    else
        *ret_metrics = self;
    return rc;
}

void pfl_agent_metrics_reload(struct pfl_agent_metrics *self)
{
    if (self != NULL)
        pfl_metrics_port_reload(self->listener);
}

void pfl_agent_metrics_close(struct pfl_agent_metrics *self)
{
    if (self == NULL)
        return;
    pfl_metrics_port_close(self->listener);
    pfl_service_watch_close(self->watch);
    pfl_mem_free(self);
}
