/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests to a host in each state of a recording, and the handling of its answers. Happy path:
 * entering a state makes its request, the answer advances it. Failures: a request that cannot be
 * made and a negative answer end the link, with the service's text if it has one. Answers that
 * arrive after their state are ignored.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/host/host_link_impl.h"
#include "consumer/host/session_find.h"
#include "perfetto/consumer_port.fields.h"

#define FLUSH_FLAGS        (4u | 2u << 4) /* explicit, by a command line (docs/abi/service.md 4) */
#define SETUP_HEADER_MAX   16u
#define FLUSH_REQUEST_MAX  32u
#define PROGRESS_MIN_BYTES (16u * 1024)
#define READ_REQUEST_MAX   16u

static void fail_code(struct pfl_host_link *l, int rc)
{
    pfl_host_link_fail(l, rc == PFL_ENOENT ? "its service is too old: it lacks a method"
                          : rc == PFL_ELIMIT
                              ? "the request is larger than the protocol allows (128 KiB)"
                              : pfl_err_str(rc));
}

void pfl_host_link_ask(struct pfl_host_link *self, const char *method, struct pfl_span args,
                       pfl_rpc_reply_cb cb)
{
    int rc = pfl_host_conn_invoke(self->conn, method, args, cb, self);

    if (rc != 0 && self->state == PFL_LINK_CLOSING)
        pfl_host_link_close_now(self);
    else if (rc == PFL_ESTATE) /* it is about to say why it ended */
        return;
    else if (rc != 0 && self->state > PFL_LINK_READING)
        pfl_host_link_close_when_read(self);
    else if (rc != 0)
        fail_code(self, rc);
}

static struct pfl_span no_args(void)
{
    return pfl_span_of(NULL, 0);
}

static void close_clock(struct pfl_host_link *l)
{
    pfl_clock_probe_fini(&l->probe);
    l->is_clock_ready = false;
    if (l->clock_conn != NULL)
        pfl_host_conn_close(l->clock_conn);
}

static void stop_here(struct pfl_host_link *l)
{
    close_clock(l);
    pfl_host_link_move(l, PFL_LINK_STOPPED);
}

int pfl_host_link_on_session_end(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    char why[512];

    l->is_session_over = true;
    if (l->conf.task == PFL_LINK_READ)
        return 0;
    if (l->has_own_wait && l->state <= PFL_LINK_READY) {
        bool is_refused = false;

        while (pfl_reader_field(&r, &f))
            is_refused |= f.id == ENABLE_TRACING_RESPONSE__ERROR;
        if (is_refused)
            pfl_host_link_attach_watched(l);
        else
            l->report.has_ended_itself = true; /* pfl_host_link_begin copies at once */
        return 0;
    }
    if (l->state == PFL_LINK_SETUP || l->state == PFL_LINK_READY) {
        snprintf(why, sizeof(why), "the service ended the session");
        while (pfl_reader_field(&r, &f))
            if (f.id == ENABLE_TRACING_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES)
                snprintf(why, sizeof(why), "the service refuses the config: %s",
                         pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
        pfl_host_link_fail(l, why);
    } else if (l->state == PFL_LINK_RECORDING || l->state == PFL_LINK_STARTING) {
        l->report.has_ended_itself = true;
        if (l->state == PFL_LINK_RECORDING)
            pfl_host_link_move(l, l->conf.task == PFL_LINK_WATCH ? PFL_LINK_DETACHING
                                                                 : PFL_LINK_STATS);
    } else if (l->state == PFL_LINK_FLUSHING || l->state == PFL_LINK_DISABLING) {
        pfl_host_link_move(l, PFL_LINK_STATS);
    }
    return 0;
}

static int on_fence(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    if (l->state != PFL_LINK_SETUP)
        return 0;
    if (!reply->success || pfl_losses_parse(reply->body, &l->report.baseline) != 0)
        pfl_host_link_fail(l, "the service did not make a session");
    else
        pfl_host_link_move(l, PFL_LINK_READY);
    return 0;
}

/* What the host cannot report stays unknown, and the recording continues. */
static int on_offers(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;
    int rc = reply->success ? pfl_session_take_state(reply->body, &l->service_state) : PFL_EPROTO;

    if (rc == 0 && reply->has_more)
        return 0;
    if (rc == 0)
        pfl_offers_judge(l->conf.trace_config, pfl_buf_get(&l->service_state), &l->report.offers);
    pfl_buf_fini(&l->service_state);
    pfl_buf_init(&l->service_state, PFL_SERVICE_STATE_MAX_BYTES);
    return 0;
}

/* With the requests that follow, so that it takes no turn of its own. */
static void ask_offers(struct pfl_host_link *l)
{
    if (pfl_offers_count(l->conf.trace_config) != 0)
        (void)!pfl_host_conn_invoke(l->conn, "QueryServiceState", no_args(), on_offers, l);
}

static void ask_setup(struct pfl_host_link *l)
{
    size_t size = l->conf.trace_config.len + SETUP_HEADER_MAX;
    uint8_t *args = pfl_mem_alloc(size);
    struct pfl_writer w;

    if (args == NULL) {
        fail_code(l, PFL_ENOMEM);
        return;
    }
    ask_offers(l);
    w = pfl_writer_of(args, size);
    pfl_writer_field_bytes(&w, ENABLE_TRACING_REQUEST__TRACE_CONFIG, l->conf.trace_config.data,
                           l->conf.trace_config.len);
    pfl_host_link_ask(l, "EnableTracing", pfl_span_of(args, size - w.left),
                      pfl_host_link_on_session_end);
    pfl_mem_free(args);
    if (l->state == PFL_LINK_SETUP)
        pfl_host_link_ask(l, "GetTraceStats", no_args(), on_fence);
}

static bool is_config_ours(const struct pfl_host_link *l)
{
    return l->conf.task == PFL_LINK_RECORD || l->conf.task == PFL_LINK_START;
}

static struct pfl_read_budget choose_budget(const struct pfl_host_link *l)
{
    if (l->conf.has_read_limit)
        return pfl_read_budget_of_limit(l->conf.read_limit_bytes);
    if (l->conf.is_streamed && l->state != PFL_LINK_READING) /* as long as it lasts */
        return pfl_read_budget_of_limit(0);
    if (is_config_ours(l))
        return pfl_read_budget_of_config(l->conf.trace_config);
    if (l->report.has_losses)
        return pfl_read_budget_of_buffers(l->report.losses.buffer_bytes);
    return pfl_read_budget_of_limit(PFL_READ_UNKNOWN_MAX_BYTES);
}

/* A session of others may be as large as its host reports: nothing of it was read yet. */
static bool is_too_large(const struct pfl_host_link *l)
{
    return !l->conf.has_read_limit && !is_config_ours(l) &&
           l->report.losses.buffer_bytes > PFL_READ_UNKNOWN_MAX_BYTES;
}

static void fail_too_large(struct pfl_host_link *l)
{
    char why[256];

    snprintf(why, sizeof(why),
             "its session has buffers of %llu MiB, by its own word; --max-host-mib N reads as much "
             "of them as you allow (0: all)",
             (unsigned long long)(l->report.losses.buffer_bytes >> 20));
    pfl_host_link_fail(l, why);
}

static void fail_over_budget(struct pfl_host_link *l)
{
    char why[256];

    if (l->conf.has_read_limit)
        snprintf(why, sizeof(why), "it sent more than --max-host-mib %llu: the rest was not read",
                 (unsigned long long)(l->conf.read_limit_bytes >> 20));
    else
        snprintf(why, sizeof(why),
                 "it sent more than its buffers can hold: the rest was not read; --max-host-mib N "
                 "sets another limit");
    pfl_host_link_fail(l, why);
}

static int on_final_stats(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;
    struct pfl_losses losses;

    if (l->state != PFL_LINK_STATS)
        return 0;
    if (reply->success && pfl_losses_parse(reply->body, &losses) == 0)
        pfl_host_link_take_losses(l, &losses);
    if (is_too_large(l))
        fail_too_large(l);
    else if (l->is_clock_ready)
        pfl_host_link_move(l, PFL_LINK_CLOCK_AFTER);
    else
        stop_here(l);
    return 0;
}

static void on_clock(void *user, const struct pfl_clock_line *line)
{
    struct pfl_host_link *l = user;

    if (l->state == PFL_LINK_CLOCK_BEFORE) {
        l->report.has_clock_before = line != NULL;
        if (line != NULL)
            l->report.clock_before = *line;
        pfl_host_link_move(l, PFL_LINK_SETUP);
    } else if (l->state == PFL_LINK_CLOCK_AFTER) {
        if (line != NULL)
            l->report.clock_after = *line;
        l->report.has_clock_after = l->report.has_clock_after || line != NULL;
        stop_here(l);
    } else if (line != NULL && l->conf.is_streamed) {
        l->report.clock_after = *line;
        l->report.has_clock_after = true;
        if (l->conf.on_clock != NULL)
            l->conf.on_clock(l->conf.user, l);
    }
}

void pfl_host_link_skip_clock(struct pfl_host_link *self)
{
    close_clock(self);
    if (self->state == PFL_LINK_CLOCK_BEFORE)
        pfl_host_link_move(self, PFL_LINK_SETUP);
    else if (self->state == PFL_LINK_CLOCK_AFTER)
        pfl_host_link_move(self, PFL_LINK_STOPPED);
}

static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    (void)reply;
    l->is_flushed = true;
    if (l->state == PFL_LINK_FLUSHING && !l->is_visiting)
        pfl_host_link_move(l, PFL_LINK_DISABLING);
    return 0;
}

static int on_started(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    if (l->state != PFL_LINK_STARTING)
        return 0;
    l->report.start_answered_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    if (!reply->success)
        pfl_host_link_fail(l, "the service refused to start");
    else if (l->conf.task == PFL_LINK_START)
        pfl_host_link_move(l, PFL_LINK_DETACHING);
    else
        pfl_host_link_move(l, l->is_session_over ? PFL_LINK_STATS : PFL_LINK_RECORDING);
    return 0;
}

static int on_freed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    (void)reply;
    if (l->state != PFL_LINK_FREEING)
        return 0;
    if (l->is_copied && !l->conf.keeps_session)
        pfl_host_link_move(l, PFL_LINK_REMOVING);
    else
        pfl_host_link_begin_close(l);
    return 0;
}

static int take_budget(struct pfl_host_link *l, uint64_t packets, uint64_t bytes)
{
    l->has_spent_budget = !pfl_read_budget_take(&l->budget, packets, bytes);
    return l->has_spent_budget ? PFL_ELIMIT : 0;
}

static int on_scanned(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_host_link *l = user;

    if (take_budget(l, 1, bytes) != 0)
        return PFL_ELIMIT;
    l->report.bytes_read += bytes;
    return l->conf.on_packet(l->conf.user, l, slices, slices_len, bytes);
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
    struct pfl_host_link *l = user;
    uint64_t packets = count_packets(run);
    uint64_t bytes = run->rest.len + run->times.len + packets * run->tail.len;
    int rc = take_budget(l, packets, bytes);

    if (rc != 0)
        return rc;
    rc = l->conf.on_run(l->conf.user, l, run, &bytes);
    l->report.bytes_read += bytes;
    return rc;
}

static const char *why_unreadable(int rc)
{
    switch (rc) {
    case PFL_EPROTO:
        return "the host sent slices or runs that are no trace packets";
    case PFL_ELIMIT:
        return "the host sent a packet of more than 64 MiB, or more sequences than a host may have";
    case PFL_ENOMEM:
        return "out of memory";
    case PFL_EIO:
        return "the trace file cannot be written";
    default:
        return pfl_err_str(rc);
    }
}

int pfl_host_link_take_packets(struct pfl_host_link *self, const struct pfl_rpc_reply *reply)
{
    int rc;

    if (!reply->success) {
        pfl_host_link_fail(self, "the service ended the read-out");
        return PFL_ECLOSED;
    }
    rc = pfl_packet_scan_feed(&self->scan, reply->body, on_scanned, self);
    if (rc == 0 && !reply->has_more && pfl_packet_scan_is_open(&self->scan))
        rc = PFL_EPROTO;
    if (self->has_spent_budget)
        fail_over_budget(self);
    else if (rc != 0)
        pfl_host_link_fail(self, why_unreadable(rc));
    return rc;
}

/* A host that answers without data is as stuck as one that does not answer. */
void pfl_host_link_note_progress(struct pfl_host_link *self)
{
    uint64_t bytes = self->report.bytes_read + self->scan.partial.len;

    if (self->is_paused || bytes - self->progress_bytes < PROGRESS_MIN_BYTES)
        return;
    self->progress_bytes = bytes;
    pfl_host_link_arm(self);
}

static int on_read(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    if (l->pass.is_open)
        return pfl_host_link_on_pass(l, reply);
    if (l->state != PFL_LINK_READING)
        return 0;
    if (pfl_host_link_take_packets(l, reply) != 0)
        return 0;
    if (reply->has_more)
        pfl_host_link_note_progress(l);
    else
        pfl_host_link_move(l, PFL_LINK_READ_OUT);
    return 0;
}

static void ask_flush(struct pfl_host_link *l)
{
    uint8_t args[FLUSH_REQUEST_MAX];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_varint(&w, FLUSH_REQUEST__TIMEOUT_MS, l->conf.flush_timeout_ms);
    pfl_writer_field_varint(&w, FLUSH_REQUEST__FLAGS, FLUSH_FLAGS);
    pfl_host_link_ask(l, "Flush", pfl_span_of(args, sizeof(args) - w.left), on_flushed);
}

static void ask_disable(struct pfl_host_link *l)
{
    pfl_host_link_ask(l, "DisableTracing", no_args(), NULL);
}

/* Of a session that is ours, or that is to outlive us. */
static void act_on_session(struct pfl_host_link *l, void (*act)(struct pfl_host_link *))
{
    if (l->conf.task == PFL_LINK_READ)
        pfl_host_link_visit_session(l, act);
    else
        act(l);
}

/* Packets may come in runs; a service that does not know them ignores the request for them. */
void pfl_host_link_ask_read(struct pfl_host_link *self)
{
    uint8_t args[READ_REQUEST_MAX];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    if (self->report.read_began_ns == 0) {
        self->budget = choose_budget(self);
        self->report.read_began_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    }
    self->scan.on_run = on_scanned_run;
    pfl_writer_field_varint(&w, READ_BUFFERS_REQUEST__PERFLEET_ACCEPTS_RUNS, 1);
    pfl_host_link_ask(self, "ReadBuffers", pfl_span_of(args, sizeof(args) - w.left), on_read);
}

/* A measurement in progress suffices. */
void pfl_host_link_measure_clock(struct pfl_host_link *self)
{
    if (!self->probe.is_running &&
        pfl_clock_probe_start(&self->probe, self->clock_conn, on_clock, self) != 0)
        pfl_host_link_skip_clock(self);
}

/* A session that is over sends the content of its buffers, and data in flight in an agent's spool:
 * a host whose answer has no end is cut short. */
static void bound_last_read(struct pfl_host_link *l)
{
    struct pfl_read_budget rest = choose_budget(l);

    if (l->conf.has_read_limit || l->report.read_began_ns == 0)
        return; /* of all of it, from the first read on */
    l->budget = pfl_read_budget_and(&rest, PFL_READ_UNKNOWN_MAX_BYTES);
}

void pfl_host_link_enter(struct pfl_host_link *self)
{
    switch (self->state) {
    case PFL_LINK_CLOCK_BEFORE:
    case PFL_LINK_CLOCK_AFTER:
        pfl_host_link_measure_clock(self);
        break;
    case PFL_LINK_SETUP:
        if (self->conf.task == PFL_LINK_RECORD || self->conf.task == PFL_LINK_START)
            ask_setup(self);
        else
            pfl_host_link_find_session(self);
        break;
    case PFL_LINK_STARTING:
        self->report.start_sent_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
        pfl_host_link_ask(self, "StartTracing", no_args(), on_started);
        break;
    case PFL_LINK_FLUSHING:
        act_on_session(self, ask_flush);
        break;
    case PFL_LINK_DISABLING:
        act_on_session(self, ask_disable);
        break;
    case PFL_LINK_DETACHING:
        pfl_host_link_detach_session(self);
        break;
    case PFL_LINK_CLONING:
        pfl_host_link_clone_session(self);
        break;
    case PFL_LINK_STATS:
        pfl_host_link_ask(self, "GetTraceStats", no_args(), on_final_stats);
        break;
    case PFL_LINK_READING:
        pfl_host_link_begin_pace(self);
        if (self->conf.is_streamed)
            bound_last_read(self);
        if (!self->pass.is_open) /* else when that one ends */
            pfl_host_link_ask_read(self);
        break;
    case PFL_LINK_READ_OUT:
        self->report.read_ended_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
        break;
    case PFL_LINK_FREEING:
        self->is_attached = false;
        pfl_host_link_ask(self, "FreeBuffers", no_args(), on_freed);
        break;
    case PFL_LINK_REMOVING:
        pfl_host_link_remove_session(self);
        break;
    default:
        break;
    }
}
