/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service's state as metrics: see service_view.h.
 *
 * Happy path: feed each reply, which is read in place; then collect. Failures: malformed bytes end
 * the reading. Ownership: none; the strings are copied and cut. Limits: only the rows of the tables
 * here, whatever the service sends.
 */
#include "tunnel/service_view.h"

#include <string.h>

#include "perfetto/consumer_port.fields.h"
#include "perfetto/service_state.fields.h"

#define NS_PER_S 1e9

static int read_figures(struct pfl_service_view *self, struct pfl_span figures)
{
    struct pfl_reader r = pfl_reader_of(figures);
    struct pfl_field f;

    self->has_figures = true;
    while (pfl_reader_field(&r, &f))
        if (f.id < PFL_FIGURES && f.type == PFL_WIRE_VARINT)
            self->figures[f.id] = f.value;
    return r.failed ? PFL_EPARSE : 0;
}

static int read_field(struct pfl_service_view *self, const struct pfl_field *f)
{
    size_t len = f->bytes.len < PFL_SERVICE_VIEW_VERSION_BYTES - 1
                     ? f->bytes.len
                     : PFL_SERVICE_VIEW_VERSION_BYTES - 1;

    if (f->type == PFL_WIRE_BYTES) {
        self->producers += f->id == TRACING_SERVICE_STATE__PRODUCERS;
        self->data_sources += f->id == TRACING_SERVICE_STATE__DATA_SOURCES;
        if (f->id == TRACING_SERVICE_STATE__TRACING_SERVICE_VERSION) {
            memcpy(self->version, f->bytes.data, len);
            self->version[len] = '\0';
        }
        return f->id == TRACING_SERVICE_STATE__PERFLEET_FIGURES ? read_figures(self, f->bytes) : 0;
    }
    if (f->type == PFL_WIRE_VARINT && f->id == TRACING_SERVICE_STATE__NUM_SESSIONS)
        self->sessions = f->value;
    if (f->type == PFL_WIRE_VARINT && f->id == TRACING_SERVICE_STATE__NUM_SESSIONS_STARTED)
        self->sessions_started = f->value;
    return 0;
}

static int read_state(struct pfl_service_view *self, struct pfl_span state)
{
    struct pfl_reader r = pfl_reader_of(state);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        rc = read_field(self, &f);
    return rc == 0 && r.failed ? PFL_EPARSE : rc;
}

int pfl_service_view_feed(struct pfl_service_view *self, struct pfl_span response_untrusted)
{
    struct pfl_reader r = pfl_reader_of(response_untrusted);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == QUERY_SERVICE_STATE_RESPONSE__SERVICE_STATE && f.type == PFL_WIRE_BYTES)
            rc = read_state(self, f.bytes);
    return rc == 0 && r.failed ? PFL_EPARSE : rc;
}

/* ---- rows ---- */

struct single {
    enum pfl_figure figure;
    enum pfl_metrics_type type;
    const char *name;
    const char *help;
    double unit; /* how many of the figure are one */
};

static const struct single singles[] = {
    {PFL_FIGURE_PRODUCERS_SEEN, PFL_METRICS_COUNTER, "perfleet_service_producers_total",
     "Producers that came.", 1},
    {PFL_FIGURE_CONSUMERS, PFL_METRICS_GAUGE, "perfleet_service_consumers",
     "Connections of consumers, the one that asks among them.", 1},
    {PFL_FIGURE_CONNECTIONS_REFUSED, PFL_METRICS_COUNTER,
     "perfleet_service_connections_refused_total",
     "Connections that were closed at once: their user's rate or share was used up.", 1},
    {PFL_FIGURE_SESSIONS_SEEN, PFL_METRICS_COUNTER, "perfleet_service_sessions_total",
     "Sessions that were begun, clones among them.", 1},
    {PFL_FIGURE_SHARED_MEMORY_BYTES, PFL_METRICS_GAUGE, "perfleet_service_shared_memory_bytes",
     "Memory shared with producers.", 1},
    {PFL_FIGURE_BUFFERS, PFL_METRICS_GAUGE, "perfleet_service_buffers",
     "Central buffers of all sessions.", 1},
    {PFL_FIGURE_BYTES_WRITTEN, PFL_METRICS_COUNTER, "perfleet_service_written_bytes_total",
     "Bytes taken from producers into buffers.", 1},
    {PFL_FIGURE_BYTES_READ, PFL_METRICS_COUNTER, "perfleet_service_read_bytes_total",
     "Bytes of buffers that were read.", 1},
    {PFL_FIGURE_CHUNKS_WRITTEN, PFL_METRICS_COUNTER, "perfleet_service_written_chunks_total",
     "Chunks taken from producers into buffers.", 1},
    {PFL_FIGURE_FLUSHES, PFL_METRICS_COUNTER, "perfleet_service_flushes_total",
     "Flushes of sessions.", 1},
    {PFL_FIGURE_FAILED_FLUSHES, PFL_METRICS_COUNTER, "perfleet_service_flushes_failed_total",
     "Of them, those that a producer did not answer in time.", 1},
    {PFL_FIGURE_SEND_QUEUE_BYTES, PFL_METRICS_GAUGE, "perfleet_service_send_queue_bytes",
     "Bytes that wait to be sent, of all consumers.", 1},
    {PFL_FIGURE_SEND_QUEUE_LONGEST_BYTES, PFL_METRICS_GAUGE,
     "perfleet_service_send_queue_longest_bytes", "Of them, those of the consumer that has most.",
     1},
    {PFL_FIGURE_CPU_NS, PFL_METRICS_COUNTER, "perfleet_service_cpu_seconds_total",
     "Processor time of the service, user and system.", NS_PER_S},
    {PFL_FIGURE_LOOP_BUSY_NS, PFL_METRICS_COUNTER, "perfleet_service_loop_busy_seconds_total",
     "Time in which the service's loop did not wait, since it was asked for first.", NS_PER_S},
    {PFL_FIGURE_LOOP_LONGEST_NS, PFL_METRICS_GAUGE, "perfleet_service_loop_longest_turn_seconds",
     "Longest turn of the service's loop since it was asked for last.", NS_PER_S},
};

static const struct {
    enum pfl_figure figure;
    const char *hop;
    const char *cause;
} losses[] = {
    {PFL_FIGURE_LOST_BY_WRITERS, "producer", "writer_dropped"},
    {PFL_FIGURE_MALFORMED_CHUNKS, "producer", "malformed"},
    {PFL_FIGURE_CHUNKS_WITHOUT_BUFFER, "service", "no_buffer"},
    {PFL_FIGURE_MISMATCHED_ENTRIES, "service", "not_committed"},
    {PFL_FIGURE_PATCHES_WITHOUT_BUFFER, "service", "patch_without_buffer"},
    {PFL_FIGURE_INVALID_PACKETS, "service", "invalid_packet"},
    {PFL_FIGURE_OVERWRITTEN_CHUNKS, "buffer", "overwritten"},
    {PFL_FIGURE_DISCARDED_CHUNKS, "buffer", "discarded"},
    {PFL_FIGURE_FAILED_PATCHES, "buffer", "patch_failed"},
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void collect_fill(const uint64_t *figures, struct pfl_metrics *m)
{
    static const struct pfl_metrics_label ring = {"policy", "ring"};
    static const struct pfl_metrics_label discard = {"policy", "discard"};

    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_service_buffer_bytes",
                       "Size of central buffers as configured.");
    pfl_metrics_row(m, &ring, 1, (double)figures[PFL_FIGURE_RING_BYTES]);
    pfl_metrics_row(m, &discard, 1, (double)figures[PFL_FIGURE_DISCARD_BYTES]);
    pfl_metrics_family(m, PFL_METRICS_GAUGE, "perfleet_service_buffer_used_bytes",
                       "Of it, what was filled.");
    pfl_metrics_row(m, &ring, 1, (double)figures[PFL_FIGURE_RING_USED_BYTES]);
    pfl_metrics_row(m, &discard, 1, (double)figures[PFL_FIGURE_DISCARD_USED_BYTES]);
}

static void collect_figures(const uint64_t *figures, struct pfl_metrics *m)
{
    for (size_t i = 0; i < COUNT(singles); i++)
        pfl_metrics_single(m, singles[i].type, singles[i].name, singles[i].help,
                           (double)figures[singles[i].figure] / singles[i].unit);
    collect_fill(figures, m);
}

void pfl_service_view_collect(const struct pfl_service_view *self, struct pfl_metrics *metrics)
{
    const struct pfl_metrics_label version = {"version", self->version};
    const uint64_t *f = self->figures;

    if (!self->is_known)
        return;
    pfl_metrics_family(metrics, PFL_METRICS_GAUGE, "perfleet_service_info", "Always 1.");
    pfl_metrics_row(metrics, &version, 1, 1);
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_service_sessions",
                       "Tracing sessions now.", (double)self->sessions);
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_service_sessions_started",
                       "Of them, those that record.", (double)self->sessions_started);
    pfl_metrics_single(metrics, PFL_METRICS_GAUGE, "perfleet_service_producers", "Producers now.",
                       (double)(self->has_figures ? f[PFL_FIGURE_PRODUCERS] : self->producers));
    pfl_metrics_single(
        metrics, PFL_METRICS_GAUGE, "perfleet_service_data_sources",
        "Data sources that producers have registered.",
        (double)(self->has_figures ? f[PFL_FIGURE_DATA_SOURCES] : self->data_sources));
    if (self->has_figures)
        collect_figures(f, metrics);
}

void pfl_service_view_row_loss(struct pfl_metrics *metrics, const char *hop, const char *cause,
                               uint64_t count)
{
    const struct pfl_metrics_label labels[] = {{"hop", hop}, {"cause", cause}};

    pfl_metrics_row(metrics, labels, 2, (double)count);
}

void pfl_service_view_collect_losses(const struct pfl_service_view *self,
                                     struct pfl_metrics *metrics)
{
    pfl_metrics_family(metrics, PFL_METRICS_COUNTER, "perfleet_losses_total",
                       "What was lost on its way to an operator, by place and cause.");
    for (size_t i = 0; self->is_known && self->has_figures && i < COUNT(losses); i++)
        pfl_service_view_row_loss(metrics, losses[i].hop, losses[i].cause,
                                  self->figures[losses[i].figure]);
}
