/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of one host in a recording.
 *
 *     CONNECTING - CLOCK_BEFORE - SETUP - READY - STARTING - RECORDING - FLUSHING - DISABLING -
 *     STATS - CLOCK_AFTER - STOPPED - READING - READ_OUT - FREEING - CLOSING - DONE
 *
 * Happy path: in this order; a session that ends by itself goes from RECORDING to STATS. Sessions
 * left running end in DETACHING. A copied session goes from READY (or, on a trigger, from RECORDING
 * through DETACHING) to CLONING and STATS. A session that is read later goes from READY to FLUSHING
 * and DISABLING, and when it has ended to CLONING: the copy is read, and the session is removed
 * (REMOVING) when the copy is in the file. A session without a name is read itself. The clock is
 * measured on a second connection, because a connection owns one session.
 *
 * Failures: every state except the barriers and RECORDING has a deadline. A missed deadline, a
 * refusal of the service or a broken connection ends in CLOSING and FAILED with step, reason and
 * remedy. A clock that cannot be measured is not a failure: the host is aligned by its wall clock.
 * The service counts a failed flush as a loss; the recording continues. Ownership: two connections,
 * one timer; the last of them to close frees nothing: the owner does.
 */
#include "consumer/host/host_recording_impl.h"
#include "consumer/host/session_find.h"
#include "consumer/host/trigger_wait.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define FREE_TIMEOUT_MS   2000u
#define CLOCK_TIMEOUT_MS  6000u
#define LOOK_MS           50u
#define WATCHED_LOOK_MS   2000u
#define PACE_MAX_MS       1000u
#define TRIGGER_MAX_BYTES 4096u

static void on_deadline(uv_timer_t *timer);

static uint64_t deadline_of(const struct pfl_host_recording *h, enum pfl_host_recording_state state)
{
    switch (state) {
    case PFL_HOST_READY:
    case PFL_HOST_RECORDING:
    case PFL_HOST_STOPPED:
    case PFL_HOST_READ_OUT:
    case PFL_HOST_DONE:
    case PFL_HOST_FAILED:
        return 0;
    case PFL_HOST_CLOCK_BEFORE:
    case PFL_HOST_CLOCK_AFTER:
        return h->conf.step_timeout_ms < CLOCK_TIMEOUT_MS ? h->conf.step_timeout_ms
                                                          : CLOCK_TIMEOUT_MS;
    case PFL_HOST_FLUSHING:
    case PFL_HOST_CLONING: /* the service flushes first */
        return h->conf.flush_timeout_ms + h->conf.step_timeout_ms;
    case PFL_HOST_DISABLING:
        return h->conf.stop_timeout_ms + h->conf.step_timeout_ms;
    case PFL_HOST_FREEING:
    case PFL_HOST_REMOVING:
    case PFL_HOST_CLOSING:
        return h->conf.step_timeout_ms < FREE_TIMEOUT_MS ? h->conf.step_timeout_ms
                                                         : FREE_TIMEOUT_MS;
    default:
        return h->conf.step_timeout_ms;
    }
}

void pfl_host_recording_arm(struct pfl_host_recording *self)
{
    uint64_t ms = deadline_of(self, self->state);

    if (self->closing != PFL_CLOSE_NOT_BEGUN)
        return;
    if (ms != 0)
        uv_timer_start(&self->timer, on_deadline, ms, 0);
    else
        uv_timer_stop(&self->timer);
}

static void on_look(uv_timer_t *timer)
{
    struct pfl_host_recording *h = timer->data;

    if (uv_now(h->conf.conn.loop) >= h->stop_by_ms) {
        on_deadline(timer);
        return;
    }
    pfl_host_recording_arm(h);
    pfl_host_recording_look_at_session(h);
}

void pfl_host_recording_look_later(struct pfl_host_recording *self)
{
    if (self->stop_by_ms == 0)
        self->stop_by_ms = uv_now(self->conf.conn.loop) + deadline_of(self, self->state);
    if (self->closing == PFL_CLOSE_NOT_BEGUN)
        uv_timer_start(&self->timer, on_look, LOOK_MS, 0);
}

static void on_watched_look(uv_timer_t *timer)
{
    pfl_host_recording_look_at_watched(timer->data);
}

void pfl_host_recording_watch_later(struct pfl_host_recording *self)
{
    if (self->closing == PFL_CLOSE_NOT_BEGUN && self->has_own_wait &&
        self->state == PFL_HOST_RECORDING)
        uv_timer_start(&self->timer, on_watched_look, WATCHED_LOOK_MS, 0);
}

void pfl_host_recording_move(struct pfl_host_recording *self, enum pfl_host_recording_state to)
{
    if (!pfl_host_recording_is_move_legal(self->state, to)) {
        pfl_log_error("host-link-illegal-move", "from=\"%s\" to=\"%s\"",
                      pfl_host_recording_state_str(self->state), pfl_host_recording_state_str(to));
        return;
    }
    self->state = to;
    pfl_host_recording_arm(self);
    pfl_host_recording_enter(self);
    if (self->state == to) /* else it has moved on, and that was said */
        self->conf.on_change(self->conf.user, self);
}

static void finish_close(struct pfl_host_recording *h)
{
    if (h->conn != NULL || h->clock_conn != NULL || h->closing != PFL_CLOSE_TIMER_DONE)
        return;
    pfl_host_recording_move(h, h->report.why[0] == '\0' ? PFL_HOST_DONE : PFL_HOST_FAILED);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_host_recording *h = handle->data;

    h->closing = PFL_CLOSE_TIMER_DONE;
    finish_close(h);
}

void pfl_host_recording_close_now(struct pfl_host_recording *self)
{
    if (self->closing != PFL_CLOSE_NOT_BEGUN || self->state != PFL_HOST_CLOSING)
        return;
    self->closing = PFL_CLOSE_BEGUN;
    if (self->conn != NULL) {
        self->report.resumes = pfl_host_conn_get_resumes(self->conn);
        pfl_host_conn_close(self->conn);
    }
    if (self->clock_conn != NULL)
        pfl_host_conn_close(self->clock_conn);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

/* READ: its session is one that was detached, and nothing was taken out of it. Of one that is given
 * back, or visited, the answer says so. */
static bool is_session_there(const struct pfl_host_recording *h)
{
    return h->conf.task == PFL_HOST_TASK_READ &&
           (h->hold == PFL_HOLD_DETACHED || h->hold == PFL_HOLD_VISITED) &&
           (h->source == PFL_READ_COPY || h->report.read_began_ns == 0);
}

/* READ: it is not known whether its session exists, or it is attached and the answer to Detach
 * decides what is left. */
static bool is_session_unknown(const struct pfl_host_recording *h)
{
    return h->conf.task == PFL_HOST_TASK_READ &&
           (h->hold == PFL_HOLD_UNKNOWN || h->hold == PFL_HOLD_ATTACHED);
}

void pfl_host_recording_begin_close(struct pfl_host_recording *self)
{
    if (!pfl_host_recording_is_move_legal(self->state, PFL_HOST_CLOSING))
        return;
    if (self->report.why[0] != '\0' && is_session_unknown(self))
        self->report.fate = PFL_SESSION_UNKNOWN;
    else if (self->report.why[0] != '\0' && is_session_there(self))
        self->report.fate = PFL_SESSION_LEFT;
    pfl_host_recording_move(self, PFL_HOST_CLOSING);
    if (self->hold == PFL_HOLD_VISITED && self->conn != NULL)
        return; /* its last answer closes */
    if ((self->hold == PFL_HOLD_ATTACHED || self->is_to_keep) && self->conn != NULL)
        pfl_host_recording_give_session_back(self);
    else
        pfl_host_recording_close_now(self);
}

void pfl_host_recording_close_when_read(struct pfl_host_recording *self)
{
    if (self->source == PFL_READ_COPY && !self->conf.keeps_session)
        self->report.fate = PFL_SESSION_NOT_REMOVED;
    pfl_host_recording_begin_close(self);
}

void pfl_host_recording_fail(struct pfl_host_recording *self, const char *why)
{
    if (!pfl_host_recording_is_move_legal(self->state, PFL_HOST_CLOSING))
        return;
    self->report.failed_in = self->state;
    self->report.is_cut_short = self->state == PFL_HOST_READING;
    snprintf(self->report.why, sizeof(self->report.why), "%s: %s",
             pfl_host_recording_state_str(self->state), why);
    pfl_host_recording_begin_close(self);
}

void pfl_host_recording_give_up(struct pfl_host_recording *self, const char *why)
{
    self->report.is_given_up = pfl_host_recording_is_move_legal(self->state, PFL_HOST_CLOSING);
    pfl_host_recording_fail(self, why);
}

void pfl_host_recording_keep(struct pfl_host_recording *self, const char *why)
{
    if (self->state < PFL_HOST_STOPPED || self->state > PFL_HOST_READ_OUT)
        return;
    /* The copy of one that stays, and what has nothing left in it, need not be kept. */
    self->is_to_keep = self->conf.kept_key != NULL && self->source != PFL_READ_COPY &&
                       self->hold != PFL_HOLD_ATTACHED && self->state != PFL_HOST_READ_OUT;
    pfl_host_recording_give_up(self, why);
}

uint64_t pfl_host_recording_get_away_ms(struct pfl_host_recording *self)
{
    uint64_t now_ms = uv_now(self->conf.conn.loop);

    if (self->conn == NULL || !pfl_host_conn_is_resuming(self->conn))
        self->lost_ms = 0;
    else if (self->lost_ms == 0)
        self->lost_ms = now_ms;
    return self->lost_ms != 0 ? now_ms - self->lost_ms + 1 : 0;
}

/* The coordinator decides how long a disconnected host is waited for. Also excused: a host whose
 * answers wait for our disk. */
static bool is_excused(const struct pfl_host_recording *h)
{
    if (h->conn == NULL)
        return false;
    return h->state < PFL_HOST_READ_OUT && (h->is_paused || pfl_host_conn_is_resuming(h->conn));
}

static uint64_t count_bytes(const struct pfl_host_recording *h)
{
    return h->report.bytes_read + h->scan.partial.len;
}

void pfl_host_recording_begin_pace(struct pfl_host_recording *self)
{
    self->paced_ms = uv_now(self->conf.conn.loop);
    pfl_read_pace_begin(&self->pace, self->conf.step_timeout_ms, count_bytes(self));
}

/* A look that comes late, as this process stood still, is no fault of the host's. */
void pfl_host_recording_pace(struct pfl_host_recording *self, size_t hosts)
{
    uint64_t now_ms = uv_now(self->conf.conn.loop);
    uint64_t elapsed_ms =
        now_ms - self->paced_ms < PACE_MAX_MS ? now_ms - self->paced_ms : PACE_MAX_MS;
    char why[256];

    if (self->state != PFL_HOST_READING)
        return;
    self->paced_ms = now_ms;
    if (self->is_paused)
        elapsed_ms = 0;
    else if (is_excused(self))
        elapsed_ms = pfl_read_pace_charge_away(&self->away_sum_ms, elapsed_ms);
    if (pfl_read_pace_take(&self->pace, elapsed_ms, count_bytes(self), hosts))
        return;
    snprintf(why, sizeof(why),
             "it sends too slowly, less than %u KiB in %.0f s: the rest was not read; a longer "
             "--timeout lets it",
             PFL_READ_PACE_BYTES >> 10, (double)self->conf.step_timeout_ms / 1000.0);
    pfl_host_recording_fail(self, why);
}

static void on_deadline(uv_timer_t *timer)
{
    struct pfl_host_recording *h = timer->data;
    char why[256];

    if (is_excused(h)) {
        pfl_host_recording_arm(h);
    } else if (h->state == PFL_HOST_CLOCK_BEFORE || h->state == PFL_HOST_CLOCK_AFTER) {
        pfl_host_recording_skip_clock(h);
    } else if (h->state == PFL_HOST_FREEING || h->state == PFL_HOST_REMOVING) {
        pfl_host_recording_close_when_read(h);
    } else if (h->state == PFL_HOST_CLOSING) {
        pfl_host_recording_close_now(h);
    } else {
        snprintf(why, sizeof(why), "no answer within %.0f s; %s",
                 (double)deadline_of(h, h->state) / 1000.0,
                 pfl_host_recording_state_remedy(h->state));
        pfl_host_recording_fail(h, why);
    }
}

static void choose_name(struct pfl_host_recording *h)
{
    const char *certified = pfl_host_conn_get_name(h->conn);
    char nodename[PFL_HOST_NAME_MAX] = "";

    if (h->conf.conn.spec->is_named || certified[0] != '\0') {
        pfl_host_recording_set_name(h, h->conf.conn.spec->is_named ? h->conf.conn.spec->name
                                                                   : certified);
        return;
    }
    if (gethostname(nodename, sizeof(nodename) - 1) != 0 || nodename[0] == '\0')
        pfl_host_recording_set_name(h, "local");
    else
        pfl_host_recording_set_name(h, nodename);
}

static void on_conn_ready(void *user)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_CONNECTING)
        return;
    choose_name(h);
    h->is_conn_ready = true;
    if (h->is_clock_ready)
        pfl_host_recording_move(h, PFL_HOST_CLOCK_BEFORE);
    else if (h->clock_conn == NULL)
        pfl_host_recording_move(h, PFL_HOST_SETUP);
}

static void on_clock_conn_ready(void *user)
{
    struct pfl_host_recording *h = user;

    if (h->state != PFL_HOST_CONNECTING)
        return;
    h->is_clock_ready = true;
    if (h->is_conn_ready)
        pfl_host_recording_move(h, PFL_HOST_CLOCK_BEFORE);
}

/* Of a session that is read itself, its service may free all. */
static void fail_attached(struct pfl_host_recording *h, const char *why)
{
    char words[640];

    (void)snprintf(words, sizeof(words),
                   "%s, and its service may have freed the session with the connection", why);
    pfl_host_recording_fail(h, words);
}

static void on_conn_closed(void *user, const char *why)
{
    struct pfl_host_recording *h = user;

    h->conn = NULL;
    if (h->hold == PFL_HOLD_VISITED) /* it came whole or not at all: the session is there */
        h->hold = PFL_HOLD_DETACHED;
    pfl_host_recording_close_now(h);
    if (h->state == PFL_HOST_CLOSING)
        finish_close(h);
    else if (h->state >= PFL_HOST_READ_OUT && h->state < PFL_HOST_CLOSING)
        pfl_host_recording_close_when_read(h);
    else if (h->conf.task == PFL_HOST_TASK_READ && h->hold == PFL_HOLD_ATTACHED)
        fail_attached(h, why);
    else
        pfl_host_recording_fail(h, why);
}

static void on_clock_conn_closed(void *user, const char *why)
{
    struct pfl_host_recording *h = user;

    (void)why;
    h->clock_conn = NULL;
    pfl_clock_probe_fini(&h->probe);
    h->is_clock_ready = false;
    if (h->state == PFL_HOST_CLOSING)
        finish_close(h);
    else if (h->state == PFL_HOST_CONNECTING && h->is_conn_ready)
        pfl_host_recording_move(h, PFL_HOST_SETUP);
    else
        pfl_host_recording_skip_clock(h);
}

static int open_conns(struct pfl_host_recording *h)
{
    struct pfl_host_conn_conf conf = h->conf.conn;
    int rc;

    conf.on_ready = on_conn_ready;
    conf.on_closed = on_conn_closed;
    conf.user = h;
    rc = pfl_host_conn_open(&conf, &h->conn);
    if (rc != 0)
        return rc;
    conf.on_ready = on_clock_conn_ready;
    conf.on_closed = on_clock_conn_closed;
    /* Without memory for it the clock is not measured: the host continues without. */
    if (pfl_host_conn_open(&conf, &h->clock_conn) != 0)
        h->clock_conn = NULL;
    return 0;
}

int pfl_host_recording_new(const struct pfl_host_recording_conf *conf,
                           struct pfl_host_recording **ret_host_recording)
{
    struct pfl_host_recording *h = pfl_mem_zalloc(sizeof(*h));
    int rc;

    if (h == NULL)
        return PFL_ENOMEM;
    h->conf = *conf;
    snprintf(h->title, sizeof(h->title), "%s", conf->conn.spec->text);
    pfl_packet_scan_init(&h->scan, PFL_PACKET_MAX_BYTES);
    pfl_buf_init(&h->service_state, PFL_SERVICE_STATE_MAX_BYTES);
    pfl_buf_init(&h->trigger, TRIGGER_MAX_BYTES);
    pfl_buf_init(&h->wait, PFL_TRIGGER_WAIT_MAX_BYTES);
    rc = open_conns(h);
    if (rc != 0) {
        pfl_mem_free(h);
        return rc;
    }
    uv_timer_init(conf->conn.loop, &h->timer);
    h->timer.data = h;
    pfl_host_recording_arm(h);
    *ret_host_recording = h;
    return 0;
}

void pfl_host_recording_free(struct pfl_host_recording *self)
{
    if (self == NULL)
        return;
    pfl_packet_scan_fini(&self->scan);
    pfl_buf_fini(&self->service_state);
    pfl_buf_fini(&self->trigger);
    pfl_buf_fini(&self->wait);
    pfl_mem_free(self);
}

enum pfl_host_recording_state pfl_host_recording_get_state(const struct pfl_host_recording *self)
{
    return self->state;
}

const struct pfl_host_report *pfl_host_recording_get_report(const struct pfl_host_recording *self)
{
    return &self->report;
}

const char *pfl_host_recording_get_title(const struct pfl_host_recording *self)
{
    return self->title;
}

void pfl_host_recording_set_name(struct pfl_host_recording *self, const char *name)
{
    snprintf(self->report.name, sizeof(self->report.name), "%s", name);
    snprintf(self->title, sizeof(self->title), "%s (%s)", self->report.name,
             self->conf.conn.spec->text);
}

void pfl_host_recording_begin(struct pfl_host_recording *self)
{
    if (self->state != PFL_HOST_READY)
        return;
    switch (self->conf.task) {
    case PFL_HOST_TASK_RECORD:
    case PFL_HOST_TASK_START:
        pfl_host_recording_move(self, PFL_HOST_STARTING);
        break;
    case PFL_HOST_TASK_READ:
        pfl_host_recording_move(self, self->source == PFL_READ_KEY_ONLY ? PFL_HOST_STATS
                                      : self->is_session_over           ? PFL_HOST_CLONING
                                                                        : PFL_HOST_FLUSHING);
        break;
    case PFL_HOST_TASK_SNAPSHOT:
        pfl_host_recording_move(self, PFL_HOST_CLONING);
        break;
    case PFL_HOST_TASK_WATCH:
        pfl_host_recording_move(self, PFL_HOST_RECORDING);
        pfl_host_recording_watch_later(self);
        if (self->report.trigger[0] != '\0' || (self->has_own_wait && self->is_session_over))
            pfl_host_recording_end(self);
        break;
    }
}

void pfl_host_recording_end(struct pfl_host_recording *self)
{
    if (self->state == PFL_HOST_RECORDING)
        pfl_host_recording_move(self, self->conf.task == PFL_HOST_TASK_WATCH ? PFL_HOST_DETACHING
                                                                             : PFL_HOST_FLUSHING);
}

void pfl_host_recording_read(struct pfl_host_recording *self)
{
    if (self->state == PFL_HOST_STOPPED)
        pfl_host_recording_move(self, PFL_HOST_READING);
}

void pfl_host_recording_free_session(struct pfl_host_recording *self)
{
    if (self->state != PFL_HOST_READ_OUT)
        return;
    pfl_host_recording_resume(self); /* its last packets may have filled the file's queue */
    pfl_host_recording_move(self, PFL_HOST_FREEING);
}

void pfl_host_recording_hurry(struct pfl_host_recording *self)
{
    if (self->state == PFL_HOST_FREEING || self->state == PFL_HOST_REMOVING)
        pfl_host_recording_close_when_read(self);
    pfl_host_recording_close_now(self);
}

void pfl_host_recording_pause(struct pfl_host_recording *self)
{
    bool is_reading = self->state == PFL_HOST_READING;

    if ((!is_reading && !self->pass.is_open) || self->is_paused || self->conn == NULL)
        return;
    self->is_paused = true;
    if (is_reading)
        uv_timer_stop(&self->timer);
    pfl_host_conn_read_stop(self->conn);
}

void pfl_host_recording_resume(struct pfl_host_recording *self)
{
    if (!self->is_paused)
        return;
    self->is_paused = false;
    if (self->state == PFL_HOST_READING)
        pfl_host_recording_arm(self);
    if (self->conn != NULL)
        pfl_host_conn_read_start(self->conn);
}
