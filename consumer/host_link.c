/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine of one host in a recording.
 *
 *     CONNECTING - CLOCK_BEFORE - SETUP - READY - STARTING - RECORDING - FLUSHING - DISABLING -
 *     STATS - CLOCK_AFTER - STOPPED - READING - FREEING - CLOSING - DONE
 *
 * Happy path: straight on; a session that ends by itself goes from RECORDING to STATS. The clock is
 * measured on a second connection, because a connection owns one session.
 *
 * Failures: every state but the barriers and RECORDING has a deadline; what misses it, what the
 * service refuses and what breaks ends in CLOSING and FAILED with step, reason and remedy. A clock
 * that cannot be measured is no failure: the host is placed by its wall clock. A flush that fails
 * is counted as a loss by the service and does not stop anything.
 * Ownership: two connections, one timer; the last of them to close frees nothing: the owner does.
 */
#include "consumer/host_link.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define FLUSH_FLAGS       (4u | 2u << 4) /* explicit, by a command line (docs/abi/service.md 4) */
#define SETUP_HEADER_MAX  16u
#define FREE_TIMEOUT_MS   2000u
#define CLOCK_TIMEOUT_MS  3000u
#define FLUSH_REQUEST_MAX 32u

enum {
    ENABLE_REQUEST_CONFIG = 1,
    ENABLE_RESPONSE_ERROR = 3,
    FLUSH_REQUEST_TIMEOUT = 1,
    FLUSH_REQUEST_FLAGS = 2,
};

struct pfl_host_link {
    struct pfl_host_link_conf conf;
    enum pfl_link_state state;
    struct pfl_host_report report;
    struct pfl_consumer_conn *conn;       /* owned; NULL: closed */
    struct pfl_consumer_conn *clock_conn; /* owned; NULL: closed */
    bool is_conn_ready;
    bool is_clock_ready;
    bool is_timer_open;
    bool is_paused;
    bool is_session_over; /* EnableTracing was answered */
    uv_timer_t timer;
    struct pfl_clock_probe probe;
    struct pfl_packet_scan scan;
    char title[PFL_HOST_NAME_MAX * 6];
};

struct state_info {
    const char *words;
    const char *remedy;
};

static const struct state_info infos[PFL_LINK_STATES] = {
    [PFL_LINK_CONNECTING] = {"connecting", "check address, port and firewall"},
    [PFL_LINK_CLOCK_BEFORE] = {"measuring the clock", "the service there may be stuck"},
    [PFL_LINK_SETUP] = {"setting up", "the service there may be stuck: see its log"},
    [PFL_LINK_READY] = {"ready", ""},
    [PFL_LINK_STARTING] = {"starting", "the service there may be stuck: see its log"},
    [PFL_LINK_RECORDING] = {"recording", ""},
    [PFL_LINK_FLUSHING] = {"flushing", "a producer there may be stuck"},
    [PFL_LINK_DISABLING] = {"stopping", "a producer there may be stuck"},
    [PFL_LINK_STATS] = {"reading the counters", "the service there may be stuck"},
    [PFL_LINK_CLOCK_AFTER] = {"measuring the clock", "the service there may be stuck"},
    [PFL_LINK_STOPPED] = {"stopped", ""},
    [PFL_LINK_READING] = {"reading", "the network or the service there may be stuck"},
    [PFL_LINK_FREEING] = {"freeing the buffers", ""},
    [PFL_LINK_CLOSING] = {"closing", ""},
    [PFL_LINK_DONE] = {"done", ""},
    [PFL_LINK_FAILED] = {"failed", ""},
};

#define TO(state) (1u << PFL_LINK_##state)
static const unsigned legal_moves[PFL_LINK_STATES] = {
    [PFL_LINK_CONNECTING] = TO(CLOCK_BEFORE) | TO(SETUP) | TO(CLOSING),
    [PFL_LINK_CLOCK_BEFORE] = TO(SETUP) | TO(CLOSING),
    [PFL_LINK_SETUP] = TO(READY) | TO(CLOSING),
    [PFL_LINK_READY] = TO(STARTING) | TO(CLOSING),
    [PFL_LINK_STARTING] = TO(RECORDING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_RECORDING] = TO(FLUSHING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_FLUSHING] = TO(DISABLING) | TO(STATS) | TO(CLOSING),
    [PFL_LINK_DISABLING] = TO(STATS) | TO(CLOSING),
    [PFL_LINK_STATS] = TO(CLOCK_AFTER) | TO(STOPPED) | TO(CLOSING),
    [PFL_LINK_CLOCK_AFTER] = TO(STOPPED) | TO(CLOSING),
    [PFL_LINK_STOPPED] = TO(READING) | TO(CLOSING),
    [PFL_LINK_READING] = TO(FREEING) | TO(CLOSING),
    [PFL_LINK_FREEING] = TO(CLOSING),
    [PFL_LINK_CLOSING] = TO(DONE) | TO(FAILED),
};
#undef TO

const char *pfl_link_state_str(enum pfl_link_state state)
{
    return infos[state].words;
}

bool pfl_link_is_move_legal(enum pfl_link_state from, enum pfl_link_state to)
{
    return (legal_moves[from] >> to & 1) != 0;
}

static void on_deadline(uv_timer_t *timer);

static uint64_t deadline_of(const struct pfl_host_link *l, enum pfl_link_state state)
{
    switch (state) {
    case PFL_LINK_READY:
    case PFL_LINK_RECORDING:
    case PFL_LINK_STOPPED:
    case PFL_LINK_CLOSING:
    case PFL_LINK_DONE:
    case PFL_LINK_FAILED:
        return 0;
    case PFL_LINK_CLOCK_BEFORE:
    case PFL_LINK_CLOCK_AFTER:
        return l->conf.step_timeout_ms < CLOCK_TIMEOUT_MS ? l->conf.step_timeout_ms
                                                          : CLOCK_TIMEOUT_MS;
    case PFL_LINK_FLUSHING:
        return l->conf.flush_timeout_ms + l->conf.step_timeout_ms;
    case PFL_LINK_DISABLING:
        return l->conf.stop_timeout_ms + l->conf.step_timeout_ms;
    case PFL_LINK_FREEING:
        return l->conf.step_timeout_ms < FREE_TIMEOUT_MS ? l->conf.step_timeout_ms
                                                         : FREE_TIMEOUT_MS;
    default:
        return l->conf.step_timeout_ms;
    }
}

static void arm_deadline(struct pfl_host_link *l)
{
    uint64_t ms = deadline_of(l, l->state);

    if (!l->is_timer_open)
        return;
    if (ms != 0)
        uv_timer_start(&l->timer, on_deadline, ms, 0);
    else
        uv_timer_stop(&l->timer);
}

static void enter(struct pfl_host_link *l);

/* Changes the state and makes its request; the coordinator is told last. */
static void move(struct pfl_host_link *l, enum pfl_link_state to)
{
    if (!pfl_link_is_move_legal(l->state, to)) {
        pfl_log_error("host-link-illegal-move", "from=\"%s\" to=\"%s\"", infos[l->state].words,
                      infos[to].words);
        return;
    }
    l->state = to;
    arm_deadline(l);
    enter(l);
    l->conf.on_change(l->conf.user, l);
}

static void finish_close(struct pfl_host_link *l)
{
    if (l->conn != NULL || l->clock_conn != NULL || l->is_timer_open)
        return;
    move(l, l->report.why[0] == '\0' ? PFL_LINK_DONE : PFL_LINK_FAILED);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_host_link *l = handle->data;

    l->is_timer_open = false;
    finish_close(l);
}

static void begin_close(struct pfl_host_link *l)
{
    if (!pfl_link_is_move_legal(l->state, PFL_LINK_CLOSING))
        return;
    if (l->conn != NULL)
        pfl_consumer_conn_close(l->conn);
    if (l->clock_conn != NULL)
        pfl_consumer_conn_close(l->clock_conn);
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
    move(l, PFL_LINK_CLOSING);
}

void pfl_host_link_fail(struct pfl_host_link *self, const char *why)
{
    if (!pfl_link_is_move_legal(self->state, PFL_LINK_CLOSING))
        return;
    self->report.failed_in = self->state;
    self->report.is_cut_short = self->state == PFL_LINK_READING;
    snprintf(self->report.why, sizeof(self->report.why), "%s: %s", infos[self->state].words, why);
    begin_close(self);
}

static void fail_code(struct pfl_host_link *l, int rc)
{
    pfl_host_link_fail(l, rc == PFL_ENOENT ? "its service is too old: it lacks a method"
                          : rc == PFL_ELIMIT
                              ? "the request is larger than the protocol allows (128 KiB)"
                              : pfl_err_str(rc));
}

/* A request of this link; a failure to send it ends the link. */
static void ask(struct pfl_host_link *l, const char *method, struct pfl_span args,
                pfl_rpc_reply_cb cb)
{
    int rc = pfl_consumer_conn_invoke(l->conn, method, args, cb, l);

    if (rc != 0)
        fail_code(l, rc);
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
        pfl_consumer_conn_close(l->clock_conn);
}

static void stop_here(struct pfl_host_link *l)
{
    close_clock(l);
    move(l, PFL_LINK_STOPPED);
}

static int on_enable_reply(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;
    char why[512];

    l->is_session_over = true;
    if (l->state == PFL_LINK_SETUP || l->state == PFL_LINK_READY) {
        snprintf(why, sizeof(why), "the service ended the session");
        while (pfl_reader_field(&r, &f))
            if (f.id == ENABLE_RESPONSE_ERROR && f.type == PFL_WIRE_BYTES)
                snprintf(why, sizeof(why), "the service refuses the config: %s",
                         pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
        pfl_host_link_fail(l, why);
    } else if (l->state == PFL_LINK_RECORDING || l->state == PFL_LINK_STARTING) {
        l->report.has_ended_itself = true;
        if (l->state == PFL_LINK_RECORDING)
            move(l, PFL_LINK_STATS);
    } else if (l->state == PFL_LINK_FLUSHING || l->state == PFL_LINK_DISABLING) {
        move(l, PFL_LINK_STATS);
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
        move(l, PFL_LINK_READY);
    return 0;
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
    w = pfl_writer_of(args, size);
    pfl_writer_field_bytes(&w, ENABLE_REQUEST_CONFIG, l->conf.trace_config.data,
                           l->conf.trace_config.len);
    ask(l, "EnableTracing", pfl_span_of(args, size - w.left), on_enable_reply);
    pfl_mem_free(args);
    if (l->state == PFL_LINK_SETUP)
        ask(l, "GetTraceStats", no_args(), on_fence);
}

static int on_final_stats(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    if (l->state != PFL_LINK_STATS)
        return 0;
    if (reply->success && pfl_losses_parse(reply->body, &l->report.losses) == 0) {
        l->report.has_losses = true;
        pfl_losses_subtract_baseline(&l->report.losses, &l->report.baseline);
    }
    if (l->is_clock_ready)
        move(l, PFL_LINK_CLOCK_AFTER);
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
        move(l, PFL_LINK_SETUP);
    } else if (l->state == PFL_LINK_CLOCK_AFTER) {
        l->report.has_clock_after = line != NULL;
        if (line != NULL)
            l->report.clock_after = *line;
        stop_here(l);
    }
}

/* The host's clock stays unmeasured; the recording goes on. */
static void skip_clock(struct pfl_host_link *l)
{
    close_clock(l);
    if (l->state == PFL_LINK_CLOCK_BEFORE)
        move(l, PFL_LINK_SETUP);
    else if (l->state == PFL_LINK_CLOCK_AFTER)
        move(l, PFL_LINK_STOPPED);
}

static int on_flushed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    (void)reply;
    if (l->state == PFL_LINK_FLUSHING)
        move(l, PFL_LINK_DISABLING);
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
    else
        move(l, l->is_session_over ? PFL_LINK_STATS : PFL_LINK_RECORDING);
    return 0;
}

static int on_freed(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;

    (void)reply;
    if (l->state == PFL_LINK_FREEING)
        begin_close(l);
    return 0;
}

static int on_scanned(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_host_link *l = user;

    l->report.bytes_read += bytes;
    return l->conf.on_packet(l->conf.user, l, slices, slices_len, bytes);
}

static const char *why_unreadable(int rc)
{
    switch (rc) {
    case PFL_EPROTO:
        return "the host sent slices that are no trace packets";
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

static int on_read(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_host_link *l = user;
    int rc;

    if (l->state != PFL_LINK_READING)
        return 0;
    if (!l->is_paused)
        arm_deadline(l);
    if (!reply->success) {
        pfl_host_link_fail(l, "the service ended the read-out");
        return 0;
    }
    rc = pfl_packet_scan_feed(&l->scan, reply->body, on_scanned, l);
    if (rc == 0 && !reply->has_more && pfl_packet_scan_is_open(&l->scan))
        rc = PFL_EPROTO;
    if (rc != 0)
        pfl_host_link_fail(l, why_unreadable(rc));
    else if (!reply->has_more)
        move(l, PFL_LINK_FREEING);
    return 0;
}

static void ask_flush(struct pfl_host_link *l)
{
    uint8_t args[FLUSH_REQUEST_MAX];
    struct pfl_writer w = pfl_writer_of(args, sizeof(args));

    pfl_writer_field_varint(&w, FLUSH_REQUEST_TIMEOUT, l->conf.flush_timeout_ms);
    pfl_writer_field_varint(&w, FLUSH_REQUEST_FLAGS, FLUSH_FLAGS);
    ask(l, "Flush", pfl_span_of(args, sizeof(args) - w.left), on_flushed);
}

static void measure_clock(struct pfl_host_link *l)
{
    if (pfl_clock_probe_start(&l->probe, l->clock_conn, on_clock, l) != 0)
        skip_clock(l);
}

/* What each state begins with. */
static void enter(struct pfl_host_link *l)
{
    switch (l->state) {
    case PFL_LINK_CLOCK_BEFORE:
    case PFL_LINK_CLOCK_AFTER:
        measure_clock(l);
        break;
    case PFL_LINK_SETUP:
        ask_setup(l);
        break;
    case PFL_LINK_STARTING:
        l->report.start_sent_ns = (int64_t)pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
        ask(l, "StartTracing", no_args(), on_started);
        break;
    case PFL_LINK_FLUSHING:
        ask_flush(l);
        break;
    case PFL_LINK_DISABLING:
        ask(l, "DisableTracing", no_args(), NULL);
        break;
    case PFL_LINK_STATS:
        ask(l, "GetTraceStats", no_args(), on_final_stats);
        break;
    case PFL_LINK_READING:
        ask(l, "ReadBuffers", no_args(), on_read);
        break;
    case PFL_LINK_FREEING:
        ask(l, "FreeBuffers", no_args(), on_freed);
        break;
    default:
        break;
    }
}

static void on_deadline(uv_timer_t *timer)
{
    struct pfl_host_link *l = timer->data;
    char why[256];

    if (l->state == PFL_LINK_CLOCK_BEFORE || l->state == PFL_LINK_CLOCK_AFTER) {
        skip_clock(l);
    } else if (l->state == PFL_LINK_FREEING) {
        begin_close(l);
    } else {
        snprintf(why, sizeof(why), "no answer within %.0f s; %s",
                 (double)deadline_of(l, l->state) / 1000.0, infos[l->state].remedy);
        pfl_host_link_fail(l, why);
    }
}

static void choose_name(struct pfl_host_link *l)
{
    const char *certified = pfl_consumer_conn_get_name(l->conn);
    char nodename[PFL_HOST_NAME_MAX] = "";

    if (l->conf.spec->is_named || certified[0] != '\0') {
        pfl_host_link_set_name(l, l->conf.spec->is_named ? l->conf.spec->name : certified);
        return;
    }
    if (gethostname(nodename, sizeof(nodename) - 1) != 0 || nodename[0] == '\0')
        pfl_host_link_set_name(l, "local");
    else
        pfl_host_link_set_name(l, nodename);
}

static void on_conn_ready(void *user)
{
    struct pfl_host_link *l = user;

    if (l->state != PFL_LINK_CONNECTING)
        return;
    choose_name(l);
    l->is_conn_ready = true;
    if (l->is_clock_ready)
        move(l, PFL_LINK_CLOCK_BEFORE);
    else if (l->clock_conn == NULL)
        move(l, PFL_LINK_SETUP);
}

static void on_clock_conn_ready(void *user)
{
    struct pfl_host_link *l = user;

    if (l->state != PFL_LINK_CONNECTING)
        return;
    l->is_clock_ready = true;
    if (l->is_conn_ready)
        move(l, PFL_LINK_CLOCK_BEFORE);
}

static void on_conn_closed(void *user, const char *why)
{
    struct pfl_host_link *l = user;

    l->conn = NULL;
    if (l->state == PFL_LINK_CLOSING)
        finish_close(l);
    else if (l->state == PFL_LINK_FREEING)
        begin_close(l);
    else
        pfl_host_link_fail(l, why);
}

static void on_clock_conn_closed(void *user, const char *why)
{
    struct pfl_host_link *l = user;

    (void)why;
    l->clock_conn = NULL;
    pfl_clock_probe_fini(&l->probe);
    l->is_clock_ready = false;
    if (l->state == PFL_LINK_CLOSING)
        finish_close(l);
    else if (l->state == PFL_LINK_CONNECTING && l->is_conn_ready)
        move(l, PFL_LINK_SETUP);
    else
        skip_clock(l);
}

static int open_conns(struct pfl_host_link *l)
{
    struct pfl_consumer_conn_conf conf = {
        .loop = l->conf.loop,
        .spec = l->conf.spec,
        .tls = l->conf.tls,
        .fleet = l->conf.fleet,
        .handshake_timeout_ms = l->conf.step_timeout_ms,
        .on_ready = on_conn_ready,
        .on_closed = on_conn_closed,
        .user = l,
    };
    int rc = pfl_consumer_conn_open(&conf, &l->conn);

    if (rc != 0)
        return rc;
    conf.on_ready = on_clock_conn_ready;
    conf.on_closed = on_clock_conn_closed;
    /* Without memory for it the clock is not measured: the link goes on without. */
    if (pfl_consumer_conn_open(&conf, &l->clock_conn) != 0)
        l->clock_conn = NULL;
    return 0;
}

int pfl_host_link_new(const struct pfl_host_link_conf *conf, struct pfl_host_link **ret_link)
{
    struct pfl_host_link *l = pfl_mem_zalloc(sizeof(*l));
    int rc;

    if (l == NULL)
        return PFL_ENOMEM;
    l->conf = *conf;
    snprintf(l->title, sizeof(l->title), "%s", conf->spec->text);
    pfl_packet_scan_init(&l->scan, PFL_PACKET_MAX_BYTES);
    rc = open_conns(l);
    if (rc != 0) {
        pfl_mem_free(l);
        return rc;
    }
    uv_timer_init(conf->loop, &l->timer);
    l->timer.data = l;
    l->is_timer_open = true;
    arm_deadline(l);
    *ret_link = l;
    return 0;
}

void pfl_host_link_free(struct pfl_host_link *self)
{
    if (self == NULL)
        return;
    pfl_packet_scan_fini(&self->scan);
    pfl_mem_free(self);
}

enum pfl_link_state pfl_host_link_get_state(const struct pfl_host_link *self)
{
    return self->state;
}

const struct pfl_host_report *pfl_host_link_get_report(const struct pfl_host_link *self)
{
    return &self->report;
}

const char *pfl_host_link_get_title(const struct pfl_host_link *self)
{
    return self->title;
}

void pfl_host_link_set_name(struct pfl_host_link *self, const char *name)
{
    snprintf(self->report.name, sizeof(self->report.name), "%s", name);
    snprintf(self->title, sizeof(self->title), "%s (%s)", self->report.name, self->conf.spec->text);
}

void pfl_host_link_begin(struct pfl_host_link *self)
{
    if (self->state == PFL_LINK_READY)
        move(self, PFL_LINK_STARTING);
}

void pfl_host_link_end(struct pfl_host_link *self)
{
    if (self->state == PFL_LINK_RECORDING)
        move(self, PFL_LINK_FLUSHING);
}

void pfl_host_link_read(struct pfl_host_link *self)
{
    if (self->state == PFL_LINK_STOPPED)
        move(self, PFL_LINK_READING);
}

void pfl_host_link_pause(struct pfl_host_link *self)
{
    if (self->state != PFL_LINK_READING || self->is_paused)
        return;
    self->is_paused = true;
    uv_timer_stop(&self->timer);
    pfl_consumer_conn_read_stop(self->conn);
}

void pfl_host_link_resume(struct pfl_host_link *self)
{
    if (!self->is_paused)
        return;
    self->is_paused = false;
    if (self->state != PFL_LINK_READING)
        return;
    arm_deadline(self);
    pfl_consumer_conn_read_start(self->conn);
}
