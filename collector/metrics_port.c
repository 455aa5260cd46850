/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's metrics: see metrics_port.h. Happy path: for each request, collect relays, hosts,
 * segments and operators, write. Failures: those of the encoder end the answer. Ownership: the
 * listener.
 */
#include "collector/metrics_port.h"

#include "base/io/metrics_port.h"
#include "base/mem.h"

struct pfl_collector_metrics {
    struct pfl_collector_parts parts;
    struct pfl_metrics_port *listener; /* owned */
};

static void collect_hosts(const struct pfl_pull_figures *f, struct pfl_metrics *m)
{
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_hosts",
                       "Hosts that relays report as connected.", f->queue.connected);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_hosts_visited",
                       "Hosts whose segments are being read now.", f->queue.visited);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_hosts_ready",
                       "Hosts with segments that wait for their turn.", f->queue.ready);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_hosts_waiting",
                       "Hosts that wait after a failure.", f->queue.waiting);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_behind_segments",
                       "Segments that connected hosts have and that are not stored.",
                       (double)f->queue.segments_behind);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_behind_bytes", "Their bytes.",
                       (double)f->queue.bytes_behind);
}

static void collect_segments(const struct pfl_pull_figures *f, struct pfl_metrics *m)
{
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_segments_stored_total",
                       "Segments stored and in the index.", (double)f->visits.stored);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_stored_bytes_total",
                       "Their bytes.", (double)f->visits.stored_bytes);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_gaps_total",
                       "Gaps that hosts reported.", (double)f->visits.gaps);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_segments_released_total",
                       "Segments and gaps that hosts were asked to remove.",
                       (double)f->visits.released);
    pfl_metrics_family(m, PFL_METRICS_COUNTER, "perfleet_collector_segments_left_total",
                       "How often a segment was left at its host, by reason.");
    for (unsigned i = 0; i < PFL_VISIT_LEFT_REASONS; i++) {
        struct pfl_metrics_label label = {"reason", pfl_visit_left_name((enum pfl_visit_left)i)};

        pfl_metrics_row(m, &label, 1, (double)f->visits.left[i]);
    }
}

static void collect_visits(const struct pfl_pull_figures *f, struct pfl_metrics *m)
{
    static const char *const ends[] = {"drained", "more", "stuck",  "lost",
                                       "others",  "full", "corrupt"};

    pfl_metrics_family(m, PFL_METRICS_COUNTER, "perfleet_collector_visits_total",
                       "Visits to hosts, by how they ended.");
    for (unsigned i = 0; i < PFL_VISIT_ENDS; i++) {
        struct pfl_metrics_label label = {"end", ends[i]};

        pfl_metrics_row(m, &label, 1, (double)f->ends[i]);
    }
}

static void collect_orders(const struct pfl_rollout_port_figures *f, struct pfl_metrics *m)
{
    static const char *const ends[] = {"done", "again", "lost", "others"};

    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_orders", "Orders of the index.",
                       (double)f->rollout.orders);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_orders_put_total",
                       "How often a host took an order.", (double)f->turns.put);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_orders_removed_total",
                       "How often an order was removed from a host.", (double)f->turns.removed);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_orders_refused_total",
                       "How often the policy or a host refused an order.",
                       (double)f->turns.refused);
    pfl_metrics_family(m, PFL_METRICS_COUNTER, "perfleet_collector_order_turns_total",
                       "Turns of hosts to get their orders, by how they ended.");
    for (unsigned i = 0; i <= PFL_ROLLOUT_LEASED; i++) {
        struct pfl_metrics_label label = {"end", ends[i]};

        pfl_metrics_row(m, &label, 1, (double)f->rollout.ends[i]);
    }
}

static void collect_operators(const struct pfl_operator_figures *f, struct pfl_metrics *m)
{
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_operator_streams",
                       "Streams of operators.", f->streams);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_requests_total",
                       "Requests of operators that have ended.", (double)f->requests);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_requests_refused_total",
                       "Of these, those that were refused or failed.", (double)f->refused);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_sent_bytes_total",
                       "Bytes sent to operators.", (double)f->sent_bytes);
}

static void collect_retention(const struct pfl_retention_figures *f, struct pfl_metrics *m)
{
    static const struct {
        const char *name;
        const char *help;
    } families[] = {
        {"perfleet_collector_deleted_traces_total", "Traces that retention deleted, by cause."},
        {"perfleet_collector_deleted_bytes_total", "Their bytes."},
        {"perfleet_collector_over_bound", "Bytes (of per-trigger and all-traces: traces) above a "
                                          "bound, as the rest is pinned or kept for a while."},
    };
    const uint64_t *const values[] = {f->traces, f->bytes, f->over};

    for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        pfl_metrics_family(m, i == 2 ? PFL_METRICS_GAUGE : PFL_METRICS_COUNTER, families[i].name,
                           families[i].help);
        for (unsigned k = 0; k < PFL_RETENTION_CAUSES; k++) {
            struct pfl_metrics_label label = {
                "cause", pfl_retention_cause_name((enum pfl_retention_cause)k)};

            pfl_metrics_row(m, &label, 1, (double)values[i][k]);
        }
    }
}

static void collect_cleaning(const struct pfl_cleaner_figures *f, struct pfl_metrics *m)
{
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_cleans",
                       "1 if this collector deletes; one of those that share an index does.",
                       f->clean.is_held);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_live_traces",
                       "Traces and bytes in the index, at the last cycle.",
                       (double)f->retention.live_traces);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_live_bytes", "Their bytes.",
                       (double)f->retention.live_bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_bound_bytes",
                       "Bytes that all traces may have; 0: any number.", (double)f->bound_bytes);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_tombstones",
                       "Deleted traces whose objects are still in the store.",
                       (double)f->clean.tombstones);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_deletions_failed_total",
                       "Deletions that the store refused; they are tried again.",
                       (double)f->clean.failed);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_lost_traces_total",
                       "Traces that the store does not have.", (double)f->clean.lost);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_found_traces_total",
                       "Lost traces that the store has again.", (double)f->clean.found);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_orphans_deleted_total",
                       "Objects that no trace of the index names.", (double)f->clean.orphans);
    pfl_metrics_single(m, PFL_METRICS_COUNTER, "perfleet_collector_leftovers_deleted_total",
                       "Temporary files and uploads that did not end.", (double)f->clean.leftovers);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_unknown_traces",
                       "Whole traces in the store that the index does not have.",
                       (double)f->clean.unknown);
}

static void collect(void *user, const struct pfl_tls_identity *who, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label labels[] = {{"program", "perfleet-collector"},
                                                      {"version", PFL_VERSION}};
    const struct pfl_collector_metrics *self = user;
    const struct pfl_tls_conf *tls = pfl_relays_get_tls(self->parts.relays);
    struct pfl_rollout_port_figures orders;
    struct pfl_operator_figures operators;
    struct pfl_pull_figures f;
    struct pfl_cleaner_figures cleaning;

    (void)who; /* no identity in it */
    pfl_serve_get_figures(self->parts.serve, &operators);
    pfl_pull_get_figures(self->parts.pull, &f);
    pfl_rollout_port_get_figures(self->parts.rollout, &orders);
    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_build_info", "Always 1.");
    pfl_metrics_row(m, labels, 2, 1);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_collector_relays_connected",
                       "Relays that the collector is connected to.",
                       pfl_relays_count_connected(self->parts.relays));
    collect_hosts(&f, m);
    collect_segments(&f, m);
    collect_visits(&f, m);
    collect_orders(&orders, m);
    collect_operators(&operators, m);
    pfl_cleaner_get_figures(self->parts.cleaner, &cleaning);
    collect_retention(&cleaning.retention, m);
    collect_cleaning(&cleaning, m);
    pfl_metrics_single(m, PFL_METRICS_GAUGE, "perfleet_certificate_expiry_timestamp_seconds",
                       "When the own certificate ends.",
                       (double)pfl_tls_conf_get_identity(tls)->not_after_s);
}

static const char *refuse(void *user, const struct pfl_tls_identity *who)
{
    const struct pfl_collector_metrics *self = user;
    struct pfl_identity_refusal why;

    if (pfl_identity_authorize(who->uri, pfl_relays_get_fleet(self->parts.relays),
                               PFL_IDENTITY_OPERATOR, &why) == 0)
        return NULL;
    return why.reason;
}

int pfl_collector_metrics_open(const struct pfl_collector_conf *conf,
                               const struct pfl_collector_parts *parts,
                               struct pfl_collector_metrics **ret_metrics)
{
    struct pfl_collector_metrics *self;
    struct pfl_metrics_port_conf listener = {
        .loop = parts->loop,
        .listen_address = conf->metrics_listen,
        .socket_path = conf->metrics_socket,
        .files = conf->files,
        .refuse = refuse,
        .collect = collect,
    };
    int rc;

    if (conf->metrics_listen == NULL && conf->metrics_socket == NULL)
        return 0;
    self = pfl_mem_zalloc(sizeof(*self));
    if (self == NULL)
        return PFL_ENOMEM;
    self->parts = *parts;
    listener.user = self;
    rc = pfl_metrics_port_open(&listener, &self->listener);
    if (rc != 0)
        pfl_mem_free(self);
    else
        *ret_metrics = self;
    return rc;
}

void pfl_collector_metrics_reload(struct pfl_collector_metrics *self)
{
    if (self != NULL)
        pfl_metrics_port_reload(self->listener);
}

void pfl_collector_metrics_close(struct pfl_collector_metrics *self)
{
    if (self == NULL)
        return;
    pfl_metrics_port_close(self->listener);
    pfl_mem_free(self);
}
