/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests to a host in each state of a recording, and the handling of its answers. Happy path:
 * entering a state makes its request, the answer advances it. Failures: a request that cannot be
 * made and a negative answer fail the host, with the service's text if it has one. Answers that
 * arrive after their state are ignored.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/host/host_recording_impl.h"
#include "consumer/host/session_find.h"
#include "perfetto/consumer_port.fields.h"

#define FLUSH_FLAGS        (4u | 2u << 4) /* explicit, by a command line (docs/abi/service.md 4) */
#define SETUP_HEADER_MAX   16u
#define FLUSH_REQUEST_MAX  32u
#define PROGRESS_MIN_BYTES (16u * 1024)
#define READ_REQUEST_MAX   16u

static void fail_code(struct pfl_host_recording *h, int rc)
{
    pfl_host_recording_fail(h, rc == PFL_ENOENT ? "its service is too old: it lacks a method"
                               : rc == PFL_ELIMIT
                                   ? "the request is larger than the protocol allows (128 KiB)"
                                   : pfl_err_str(rc));
}

void pfl_host_recording_ask(struct pfl_host_recording *self, const char *method,
                            struct pfl_span args, pfl_rpc_reply_cb cb)
{
    int rc = pfl_host_conn_invoke(self->conn, method, args, cb, self);

    if (rc != 0 && self->state == PFL_HOST_CLOSING)
        pfl_host_recording_close_now(self);
    else if (rc == PFL_ESTATE) /* it is about to say why it ended */
        return;
    else if (rc != 0 && self->state > PFL_HOST_READING)
        pfl_host_recording_close_when_read(self);
    else if (rc != 0)
        fail_code(self, rc);
}

static struct pfl_span no_args(void)
{
    return pfl_span_of(NULL, 0);
}

static void close_clock(struct pfl_host_recording *h)
{
    pfl_clock_probe_fini(&h->probe);
    h->is_clock_ready = false;
    if (h->clock_conn != NULL)
        pfl_host_conn_close(h->clock_conn);
}

static void stop_here(struct pfl_host_recording *h)
{
    close_clock(h);
    pfl_host_recording_move(h, PFL_HOST_STOPPED);
}

int pfl_host_recording_on_session_end(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    char why[512];

    h->is_session_over = true;
    if (h->conf.task == PFL_HOST_TASK_READ)
        return 0;
    if (h->has_own_wait && h->state <= PFL_HOST_READY) {
        bool is_refused = false;

        while (pfl_reader_field(&r, &f))
            is_refused |= f.id == ENABLE_TRACING_RESPONSE__ERROR;
        if (is_refused)
            pfl_host_recording_attach_watched(h);
        else
            h->report.has_ended_itself = true; /* pfl_host_recording_begin copies at once */
        return 0;
    }
    if (h->state == PFL_HOST_SETUP || h->state == PFL_HOST_READY) {
        snprintf(why, sizeof(why), "the service ended the session");
        while (pfl_reader_field(&r, &f))
            if (f.id == ENABLE_TRACING_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES)
                snprintf(why, sizeof(why), "the service refuses the config: %s",
                         pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
        pfl_host_recording_fail(h, why);
    } else if (h->state == PFL_HOST_RECORDING || h->state == PFL_HOST_STARTING) {
        h->report.has_ended_itself = true;
        if (h->state == PFL_HOST_RECORDING)
            pfl_host_recording_move(h, h->conf.task == PFL_HOST_TASK_WATCH ? PFL_HOST_DETACHING
                                                                           : PFL_HOST_STATS);
    } else if (h->state == PFL_HOST_FLUSHING || h->state == PFL_HOST_DISABLING) {
        pfl_host_recording_move(h, PFL_HOST_STATS);
    }
    return 0;
}

static int on_fence(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_SETUP)
        return 0;
    if (!reply->success || pfl_losses_parse(reply->body, &h->report.baseline) != 0)
        pfl_host_recording_fail(h, "the service did not make a session");
    else
        pfl_host_recording_move(h, PFL_HOST_READY);
    return 0;
}

/* What the host cannot report stays unknown, and the recording continues. */
static int on_offers(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;
    int rc = reply->success ? pfl_session_take_state(reply->body, &h->service_state) : PFL_EPROTO;

    if (rc == 0 && reply->has_more)
        return 0;
    if (rc == 0)
        pfl_registered_sources_match(h->conf.trace_config, pfl_buf_get(&h->service_state),
                                     &h->report.sources);
    pfl_buf_fini(&h->service_state);
    pfl_buf_init(&h->service_state, PFL_SERVICE_STATE_MAX_BYTES);
    return 0;
}

/* With the requests that follow, so that it takes no turn of its own. */
static void ask_offers(struct pfl_host_recording *h)
{
    if (pfl_registered_sources_count(h->conf.trace_config) != 0)
        (void)!pfl_host_conn_invoke(h->conn, "QueryServiceState", no_args(), on_offers, h);
}

static void ask_setup(struct pfl_host_recording *h)
{
    size_t size = h->conf.trace_config.len + SETUP_HEADER_MAX;
    uint8_t *args = pfl_mem_alloc(size);
    struct pfl_writer w;

    if (args == NULL) {
        fail_code(h, PFL_ENOMEM);
        return;
    }
    ask_offers(h);
    w = pfl_writer_of(args, size);
    pfl_writer_field_bytes(&w, ENABLE_TRACING_REQUEST__TRACE_CONFIG, h->conf.trace_config.data,
                           h->conf.trace_config.len);
    pfl_host_recording_ask(h, "EnableTracing", pfl_span_of(args, size - w.left),
                           pfl_host_recording_on_session_end);
    pfl_mem_free(args);
    if (h->state == PFL_HOST_SETUP)
        pfl_host_recording_ask(h, "GetTraceStats", no_args(), on_fence);
}

static bool is_config_ours(const struct pfl_host_recording *h)
{
    return h->conf.task == PFL_HOST_TASK_RECORD || h->conf.task == PFL_HOST_TASK_START;
}

static struct pfl_read_budget choose_budget(const struct pfl_host_recording *h)
{
    if (h->conf.has_read_limit)
        return pfl_read_budget_of_limit(h->conf.read_limit_bytes);
    if (h->conf.is_streamed && h->state != PFL_HOST_READING) /* as long as it lasts */
        return pfl_read_budget_of_limit(0);
    if (is_config_ours(h))
        return pfl_read_budget_of_config(h->conf.trace_config);
    if (h->report.has_losses)
        return pfl_read_budget_of_buffers(h->report.losses.buffer_bytes);
    return pfl_read_budget_of_limit(PFL_READ_UNKNOWN_MAX_BYTES);
}

/* A session of others may be as large as its host reports: nothing of it was read yet. */
static bool is_too_large(const struct pfl_host_recording *h)
{
    return !h->conf.has_read_limit && !is_config_ours(h) &&
           h->report.losses.buffer_bytes > PFL_READ_UNKNOWN_MAX_BYTES;
}

static void fail_too_large(struct pfl_host_recording *h)
{
    char why[256];

    snprintf(why, sizeof(why),
             "its session has buffers of %llu MiB, by its own word; --max-host-mib N reads as much "
             "of them as you allow (0: all)",
             (unsigned long long)(h->report.losses.buffer_bytes >> 20));
    pfl_host_recording_fail(h, why);
}

static void fail_over_budget(struct pfl_host_recording *h)
{
    char why[256];

    if (h->conf.has_read_limit)
        snprintf(why, sizeof(why), "it sent more than --max-host-mib %llu: the rest was not read",
                 (unsigned long long)(h->conf.read_limit_bytes >> 20));
    else
        snprintf(why, sizeof(why),
                 "it sent more than its buffers can hold: the rest was not read; --max-host-mib N "
                 "sets another limit");
    pfl_host_recording_fail(h, why);
}

static int on_final_stats(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;
    struct pfl_losses losses;

    if (h->state != PFL_HOST_STATS)
        return 0;
    if (reply->success && pfl_losses_parse(reply->body, &losses) == 0)
        pfl_host_recording_take_losses(h, &losses);
    if (is_too_large(h))
        fail_too_large(h);
    else if (h->is_clock_ready)
        pfl_host_recording_move(h, PFL_HOST_CLOCK_AFTER);
    else
        stop_here(h);
    return 0;
}

static void on_clock(void *user, const struct pfl_clock_line *line)
{
    struct pfl_host_recording *h = user;

    if (h->state == PFL_HOST_CLOCK_BEFORE) {
        h->report.has_clock_before = line != NULL;
        if (line != NULL)
            h->report.clock_before = *line;
        pfl_host_recording_move(h, PFL_HOST_SETUP);
    } else if (h->state == PFL_HOST_CLOCK_AFTER) {
        if (line != NULL)
            h->report.clock_after = *line;
        h->report.has_clock_after = h->report.has_clock_after || line != NULL;
        stop_here(h);
    } else if (line != NULL && h->conf.is_streamed) {
        h->report.clock_after = *line;
        h->report.has_clock_after = true;
        if (h->conf.on_clock != NULL)
            h->conf.on_clock(h->conf.user, h);
    }
}

void pfl_host_recording_skip_clock(struct pfl_host_recording *self)
{
    close_clock(self);
    if (self->state == PFL_HOST_CLOCK_BEFORE)
        pfl_host_recording_move(self, PFL_HOST_SETUP);
    else if (self->state == PFL_HOST_CLOCK_AFTER)
        pfl_host_recording_move(self, PFL_HOST_STOPPED);
}

static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    (void)reply;
    h->is_flushed = true;
    if (h->state == PFL_HOST_FLUSHING && h->hold != PFL_HOLD_VISITED)
        pfl_host_recording_move(h, PFL_HOST_DISABLING);
    return 0;
}

static int on_started(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_STARTING)
        return 0;
    h->report.start_answered_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    if (!reply->success)
        pfl_host_recording_fail(h, "the service refused to start");
    else if (h->conf.task == PFL_HOST_TASK_START)
        pfl_host_recording_move(h, PFL_HOST_DETACHING);
    else
        pfl_host_recording_move(h, h->is_session_over ? PFL_HOST_STATS : PFL_HOST_RECORDING);
    return 0;
}

static int on_freed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    (void)reply;
    if (h->state != PFL_HOST_FREEING)
        return 0;
    if (h->source == PFL_READ_COPY && !h->conf.keeps_session)
        pfl_host_recording_move(h, PFL_HOST_REMOVING);
    else
        pfl_host_recording_begin_close(h);
    return 0;
}

int pfl_host_recording_charge(struct pfl_host_recording *self, uint64_t packets, uint64_t bytes)
{
    self->has_spent_budget = !pfl_read_budget_take(&self->budget, packets, bytes);
    return self->has_spent_budget ? PFL_ELIMIT : 0;
}

static int on_scanned(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_host_recording *h = user;

    if (pfl_host_recording_charge(h, 1, bytes) != 0)
        return PFL_ELIMIT;
    h->report.bytes_read += bytes;
    return h->conf.on_packet(h->conf.user, h, slices, slices_len, bytes);
}

/* Each length is a varint: its last byte has no high bit. */
static uint64_t count_packets(const struct pfl_packet_run *run)
{
    uint64_t packets = 0;

    for (size_t i = 0; i < run->lengths.len; i++)
        packets += run->lengths.data[i] < 0x80;
    return packets;
}

static int on_scanned_run(void *user, const struct pfl_packet_run *run)
{
    struct pfl_host_recording *h = user;
    uint64_t packets = count_packets(run);
    uint64_t bytes = run->rest.len + run->times.len + packets * run->tail.len;
    int rc = pfl_host_recording_charge(h, packets, bytes);

    if (rc != 0)
        return rc;
    rc = h->conf.on_run(h->conf.user, h, run, &bytes);
    h->report.bytes_read += bytes;
    return rc;
}

static const char *why_unreadable(int rc)
{
    switch (rc) {
    case PFL_EPROTO:
        return "the host sent slices or runs that are no trace packets";
    case PFL_ELIMIT:
        return "the host sent more sequences than a host may have";
    case PFL_ENOMEM:
        return "out of memory";
    case PFL_EIO:
        return "the trace file cannot be written";
    default:
        return pfl_err_str(rc);
    }
}

int pfl_host_recording_take_packets(struct pfl_host_recording *self,
                                    const struct pfl_rpc_reply *reply)
{
    uint64_t skipped_bytes = self->scan.skipped_bytes;
    int rc;

    if (!reply->success) {
        pfl_host_recording_fail(self, "the service ended the read-out");
        return PFL_ECLOSED;
    }
    rc = pfl_packet_scan_feed(&self->scan, reply->body, on_scanned, self);
    self->report.skipped_packets = self->scan.skipped;
    if (rc == 0 && self->scan.skipped_bytes != skipped_bytes) /* they were in its buffers, too */
        rc = pfl_host_recording_charge(self, 0, self->scan.skipped_bytes - skipped_bytes);
    if (rc == 0 && !reply->has_more && pfl_packet_scan_is_open(&self->scan))
        rc = PFL_EPROTO;
    if (self->has_spent_budget)
        fail_over_budget(self);
    else if (rc != 0)
        pfl_host_recording_fail(self, why_unreadable(rc));
    return rc;
}

/* A host that answers without data is as stuck as one that does not answer. */
void pfl_host_recording_note_progress(struct pfl_host_recording *self)
{
    uint64_t bytes = self->report.bytes_read + self->scan.partial.len + self->scan.skipped_bytes;

    if (self->is_paused || bytes - self->progress_bytes < PROGRESS_MIN_BYTES)
        return;
    self->progress_bytes = bytes;
    pfl_host_recording_arm(self);
}

static int on_read(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_recording *h = user;

    if (h->pass.is_open)
        return pfl_host_recording_on_pass(h, reply);
    if (h->state != PFL_HOST_READING)
        return 0;
    if (pfl_host_recording_take_packets(h, reply) != 0)
        return 0;
    if (reply->has_more)
        pfl_host_recording_note_progress(h);
    else
        pfl_host_recording_move(h, PFL_HOST_READ_OUT);
    return 0;
}

static void ask_flush(struct pfl_host_recording *h)
{
    uint8_t args[FLUSH_REQUEST_MAX];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_varint(&w, FLUSH_REQUEST__TIMEOUT_MS, h->conf.flush_timeout_ms);
    pfl_writer_field_varint(&w, FLUSH_REQUEST__FLAGS, FLUSH_FLAGS);
    pfl_host_recording_ask(h, "Flush", pfl_span_of(args, sizeof(args) - w.left), on_flushed);
}

static void ask_disable(struct pfl_host_recording *h)
{
    pfl_host_recording_ask(h, "DisableTracing", no_args(), NULL);
}

/* Of a session that is ours, or that is to outlive us. */
static void act_on_session(struct pfl_host_recording *h, void (*act)(struct pfl_host_recording *))
{
    if (h->conf.task == PFL_HOST_TASK_READ)
        pfl_host_recording_visit_session(h, act);
    else
        act(h);
}

/* Packets may come in runs; a service that does not know them ignores the request for them. */
void pfl_host_recording_ask_read(struct pfl_host_recording *self)
{
    uint8_t args[READ_REQUEST_MAX];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    if (self->report.read_began_ns == 0) {
        self->budget = choose_budget(self);
        self->report.read_began_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    }
    self->scan.on_run = on_scanned_run;
    pfl_writer_field_varint(&w, READ_BUFFERS_REQUEST__PERFLEET_ACCEPTS_RUNS, 1);
    pfl_host_recording_ask(self, "ReadBuffers", pfl_span_of(args, sizeof(args) - w.left), on_read);
}

/* A measurement in progress suffices. */
void pfl_host_recording_measure_clock(struct pfl_host_recording *self)
{
    if (!self->probe.is_running &&
        pfl_clock_probe_start(&self->probe, self->clock_conn, on_clock, self) != 0)
        pfl_host_recording_skip_clock(self);
}

/* A session that is over sends the content of its buffers, and data in flight in an agent's spool:
 * a host whose answer has no end is cut short. */
static void bound_last_read(struct pfl_host_recording *h)
{
    struct pfl_read_budget rest = choose_budget(h);

    if (h->conf.has_read_limit || h->report.read_began_ns == 0)
        return; /* of all of it, from the first read on */
    h->budget = pfl_read_budget_and(&rest, PFL_READ_UNKNOWN_MAX_BYTES);
}

void pfl_host_recording_enter(struct pfl_host_recording *self)
{
    switch (self->state) {
    case PFL_HOST_CLOCK_BEFORE:
    case PFL_HOST_CLOCK_AFTER:
        pfl_host_recording_measure_clock(self);
        break;
    case PFL_HOST_SETUP:
        if (self->conf.task == PFL_HOST_TASK_RECORD || self->conf.task == PFL_HOST_TASK_START)
            ask_setup(self);
        else
            pfl_host_recording_find_session(self);
        break;
    case PFL_HOST_STARTING:
        self->report.start_sent_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
        pfl_host_recording_ask(self, "StartTracing", no_args(), on_started);
        break;
    case PFL_HOST_FLUSHING:
        act_on_session(self, ask_flush);
        break;
    case PFL_HOST_DISABLING:
        act_on_session(self, ask_disable);
        break;
    case PFL_HOST_DETACHING:
        pfl_host_recording_detach_session(self);
        break;
    case PFL_HOST_CLONING:
        pfl_host_recording_clone_session(self);
        break;
    case PFL_HOST_STATS:
        pfl_host_recording_ask(self, "GetTraceStats", no_args(), on_final_stats);
        break;
    case PFL_HOST_READING:
        pfl_host_recording_begin_pace(self);
        if (self->conf.is_streamed)
            bound_last_read(self);
        if (!self->pass.is_open) /* else when that one ends */
            pfl_host_recording_ask_read(self);
        break;
    case PFL_HOST_READ_OUT:
        self->report.read_ended_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
        break;
    case PFL_HOST_FREEING:
        if (self->hold == PFL_HOLD_ATTACHED)
            self->hold = PFL_HOLD_NONE;
        pfl_host_recording_ask(self, "FreeBuffers", no_args(), on_freed);
        break;
    case PFL_HOST_REMOVING:
        pfl_host_recording_remove_session(self);
        break;
    default:
        break;
    }
}
