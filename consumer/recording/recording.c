/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator of a recording.
 *
 *     CONNECT -> START -> RUN -> STOP -> READ -> CLOSE -> FREE -> OVER
 *        |         |                       ^
 *        +---------+-- nobody left --------+
 *
 * Happy path: the hosts start together, when all are ready. The file is opened before, so that a
 * bad path costs no recording. When one session ends by itself (duration, trigger) the others get a
 * short grace period and are then stopped. Reading begins when all have stopped, or a second after
 * the first one; their clocks are written first. Later hosts join. What was read is freed on the
 * hosts when the file is complete and on the disk.
 *
 * Failures: a failed host is left out of what follows; too few hosts end the recording. A
 * disconnected host does not delay others (recording_absent.c). If the file cannot be written,
 * reading of all hosts ends; its content stays valid, and unread data stays on the hosts.
 * Ownership: host recordings, merge and file. Limits: reading of all hosts stops while the file is
 * congested.
 */
#include "consumer/recording/recording.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "consumer/recording/recording_impl.h"

#define END_GRACE_MS 500u
#define LATE_MS      2000u
#define GATHER_MS    1000u /* after the first host: for those that take little longer */
#define WATCH_MS     250u
#define STREAM_MS    50u

static void evaluate(struct pfl_recording *r);
static void on_watch(uv_timer_t *timer);

static void enter_phase(struct pfl_recording *r, enum pfl_recording_phase phase)
{
    r->phase = phase;
    r->is_dirty = true;
    r->conf.on_progress(r->conf.user, r, NULL);
}

static bool is_any_in(const struct pfl_recording *r, unsigned states)
{
    for (unsigned i = 0; i < PFL_HOST_STATES; i++)
        if ((states >> i & 1) != 0 && r->in[i] != 0)
            return true;
    return false;
}

#define IN(state) (1u << PFL_HOST_##state)

/* With a thousand hosts nothing that happens at one may look at all. */
static void note_host(struct pfl_recording *r, struct pfl_recording_member *m)
{
    const struct pfl_host_report *report = pfl_host_recording_get_report(m->recording);

    r->in[m->state]--;
    m->state = pfl_host_recording_get_state(m->recording);
    r->in[m->state]++;
    r->is_triggered |= report->trigger[0] != '\0';
    r->has_self_ended |= report->has_ended_itself;
}

/* But those that were read. */
static void fail_all(struct pfl_recording *r, const char *why)
{
    for (size_t i = 0; i < r->hosts_len; i++)
        if (pfl_host_recording_get_state(r->hosts[i].recording) < PFL_HOST_READ_OUT)
            pfl_host_recording_give_up(r->hosts[i].recording, why);
}

static void each_host(struct pfl_recording *r,
                      void (*act)(struct pfl_host_recording *host_recording))
{
    for (size_t i = 0; i < r->hosts_len; i++)
        act(r->hosts[i].recording);
}

/* The file. */

static void on_file_writable(void *user)
{
    struct pfl_recording *r = user;

    each_host(r, pfl_host_recording_resume);
}

/* What the hosts still have of the data stays there; those that were read wait for the file's end.
 */
static void keep_all(struct pfl_recording *r)
{
    bool is_closed = r->phase > PFL_RECORDING_CLOSE;

    for (size_t i = 0; i < r->hosts_len; i++)
        if (is_closed || pfl_host_recording_get_state(r->hosts[i].recording) < PFL_HOST_READ_OUT)
            pfl_host_recording_keep(r->hosts[i].recording, "the trace file cannot be written");
}

void pfl_recording_fail_file(struct pfl_recording *self, const char *path, int err)
{
    if (self->file_error != 0)
        return;
    pfl_recording_set_file_why(self, path, err);
    keep_all(self);
    if (self->phase == PFL_RECORDING_RUN)
        pfl_recording_stop(self);
}

static void on_file_failed(void *user, const char *path, int err)
{
    pfl_recording_fail_file(user, path, err);
}

static bool open_file(struct pfl_recording *r)
{
    struct pfl_trace_files_conf conf = {
        .loop = r->conf.each_host.conn.loop,
        .path = r->conf.output_path,
        .no_clobber = r->conf.no_clobber,
        .rotation = r->conf.rotation,
        .on_writable = on_file_writable,
        .on_failed = on_file_failed,
        .user = r,
    };
    int rc = pfl_trace_files_open(&conf, &r->file);

    if (rc == 0)
        return true;
    pfl_recording_set_open_why(r, rc == PFL_EIO ? errno : ENOMEM);
    return false;
}

/* Ends. */

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_recording *r = handle->data;

    if (--r->open_timers != 0)
        return;
    enter_phase(r, PFL_RECORDING_OVER);
    r->conf.on_over(r->conf.user);
}

static void end(struct pfl_recording *r)
{
    r->phase = PFL_RECORDING_OVER; /* nothing is looked at any more */
    uv_close((uv_handle_t *)&r->timer, on_timer_closed);
    uv_close((uv_handle_t *)&r->watch, on_timer_closed);
}

static void begin_free(struct pfl_recording *r)
{
    enter_phase(r, PFL_RECORDING_FREE);
    if (r->file_error != 0)
        keep_all(r);
    else
        each_host(r, pfl_host_recording_free_session);
    evaluate(r);
}

static void on_file_closed(void *user, const struct pfl_trace_files_end *file)
{
    struct pfl_recording *r = user;

    r->file = NULL;
    r->file_bytes = file->bytes;
    r->first_file = file->first;
    r->last_file = file->last;
    if (file->partial != NULL)
        r->partial = pfl_mem_strdup(file->partial);
    if (file->err != 0 && r->file_error == 0)
        pfl_recording_set_file_why(r, r->conf.output_path, file->err);
    begin_free(r);
}

/* Without a packet of any host the file is unwanted, and the old file at its path stays. */
static bool is_file_wanted(const struct pfl_recording *r)
{
    return r->merge != NULL && pfl_merge_get_packets(r->merge) != r->packets_before;
}

static void close_file(struct pfl_recording *r)
{
    enter_phase(r, PFL_RECORDING_CLOSE);
    if (r->file == NULL)
        begin_free(r);
    else
        pfl_trace_files_close(r->file, is_file_wanted(r), on_file_closed);
}

static void on_host_clock(void *user, struct pfl_host_recording *host_recording)
{
    struct pfl_recording_member *m = user;
    struct pfl_recording *r = m->owner;

    (void)host_recording;
    pfl_recording_note_clock(r, (size_t)(m - r->hosts));
}

/* Phases. */

static void on_run_too_long(uv_timer_t *timer)
{
    pfl_recording_stop(timer->data);
}

static void begin_start(struct pfl_recording *r)
{
    size_t ready = r->in[PFL_HOST_READY];
    const char *refused = NULL;
    char why[128];

    if (ready >= r->conf.quorum && r->conf.why_not_start != NULL)
        refused = r->conf.why_not_start(r->conf.user, r);
    if (ready < r->conf.quorum) {
        snprintf(why, sizeof(why), "only %zu of %zu hosts are ready, %zu are needed", ready,
                 r->hosts_len, r->conf.quorum);
        pfl_recording_abort(r, why);
        return;
    }
    if (refused != NULL) {
        pfl_recording_abort(r, refused);
        return;
    }
    if (r->conf.output_path != NULL && !open_file(r)) {
        fail_all(r, "not started");
        enter_phase(r, PFL_RECORDING_READ);
        return;
    }
    r->run_began_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    enter_phase(r, PFL_RECORDING_START);
    each_host(r, pfl_host_recording_begin);
}

static void begin_stream(struct pfl_recording *r)
{
    int rc = pfl_recording_begin_stream(r);

    uv_timer_start(&r->watch, on_watch, STREAM_MS, STREAM_MS);
    if (rc == 0)
        return;
    pfl_recording_set_why(r, pfl_err_str(rc));
    fail_all(r, pfl_err_str(rc));
}

static void begin_run(struct pfl_recording *r)
{
    uint64_t ms = r->conf.duration_ms;

    enter_phase(r, PFL_RECORDING_RUN);
    uv_timer_stop(&r->timer);
    if (r->conf.each_host.is_streamed)
        begin_stream(r);
    if (ms != 0)
        uv_timer_start(&r->timer, on_run_too_long,
                       ms + r->conf.each_host.flush_timeout_ms + r->conf.each_host.stop_timeout_ms +
                           LATE_MS,
                       0);
}

static void on_most_started(uv_timer_t *timer)
{
    struct pfl_recording *r = timer->data;

    if (r->phase != PFL_RECORDING_START)
        return;
    begin_run(r);
    evaluate(r);
}

/* Hosts that have started do not wait for the others. */
static void look_at_start(struct pfl_recording *r)
{
    if (!is_any_in(r, pfl_recording_waited_states(r)))
        begin_run(r);
    else if (is_any_in(r, IN(RECORDING) | IN(STATS) | IN(CLOCK_AFTER) | IN(STOPPED)) &&
             !uv_is_active((uv_handle_t *)&r->timer))
        uv_timer_start(&r->timer, on_most_started, GATHER_MS, 0);
}

static void look_at_run(struct pfl_recording *r)
{
    if (!is_any_in(r, IN(RECORDING) | IN(STARTING))) {
        enter_phase(r, PFL_RECORDING_STOP);
        return;
    }
    if (r->is_triggered) {
        pfl_recording_stop(r);
    } else if (r->has_self_ended && !r->is_ending) {
        r->is_ending = true;
        uv_timer_start(&r->timer, on_run_too_long, END_GRACE_MS, 0);
    }
}

static void begin_read(struct pfl_recording *r)
{
    bool is_streamed = r->merge != NULL && r->file_error == 0;
    bool can_be_read = is_streamed || r->in[PFL_HOST_STOPPED] == 0 ||
                       (r->file_error == 0 && pfl_recording_has_room(r));
    int rc;

    enter_phase(r, PFL_RECORDING_READ);
    uv_timer_stop(&r->timer);
    if (r->in[PFL_HOST_STOPPED] == 0 || is_streamed)
        return; /* streamed: each continues when it has stopped */
    if (!can_be_read) {
        keep_all(r);
        return;
    }
    rc = pfl_recording_begin_merge(r);
    if (rc != 0) {
        pfl_recording_set_why(r, pfl_err_str(rc));
        fail_all(r, pfl_err_str(rc));
        return;
    }
    each_host(r, pfl_host_recording_read);
}

static void on_most_stopped(uv_timer_t *timer)
{
    struct pfl_recording *r = timer->data;

    if (r->phase != PFL_RECORDING_STOP)
        return;
    begin_read(r);
    evaluate(r);
}

/* Stops a host that was disconnected when the others were stopped. */
static void end_late_ones(struct pfl_recording *r)
{
    if (is_any_in(r, IN(RECORDING)))
        each_host(r, pfl_host_recording_end);
}

static void look_at_stop(struct pfl_recording *r)
{
    end_late_ones(r);
    if (!is_any_in(r, pfl_recording_waited_states(r)) ||
        (r->in[PFL_HOST_STOPPED] != 0 && (r->absent.is_waited_for || r->merge != NULL)))
        begin_read(r);
    else if (r->in[PFL_HOST_STOPPED] != 0 && !r->is_gathering) {
        r->is_gathering = true;
        uv_timer_start(&r->timer, on_most_stopped, GATHER_MS, 0);
    }
}

static void join_late_one(struct pfl_recording *r, size_t host)
{
    struct pfl_host_recording *host_recording = r->hosts[host].recording;
    bool is_joined = r->hosts[host].is_merged;
    int rc = 0;

    if (r->file_error == 0 && !is_joined)
        rc = pfl_recording_join_merge(r, host);
    else if (r->file_error == 0)
        rc = pfl_recording_rejoin_merge(r, host);
    if (r->file_error != 0)
        pfl_host_recording_keep(host_recording, "the trace file cannot be written");
    else if (rc != 0)
        pfl_host_recording_fail(host_recording, pfl_err_str(rc));
    else
        pfl_host_recording_read(host_recording);
}

static void look_at_read(struct pfl_recording *r)
{
    end_late_ones(r);
    if (r->in[PFL_HOST_STOPPED] != 0 && r->merge == NULL && r->file_error == 0) {
        begin_read(r);
        return;
    }
    for (size_t i = 0; r->in[PFL_HOST_STOPPED] != 0 && i < r->hosts_len; i++)
        if (r->hosts[i].state == PFL_HOST_STOPPED)
            join_late_one(r, i);
    if (r->in[PFL_HOST_READ_OUT] + r->in[PFL_HOST_DONE] + r->in[PFL_HOST_FAILED] == r->hosts_len)
        close_file(r);
}

static void look_at_phase(struct pfl_recording *r)
{
    switch (r->phase) {
    case PFL_RECORDING_CONNECT:
        if (!is_any_in(r, pfl_recording_waited_states(r)))
            begin_start(r);
        break;
    case PFL_RECORDING_START:
        look_at_start(r);
        break;
    case PFL_RECORDING_RUN:
        look_at_run(r);
        break;
    case PFL_RECORDING_STOP:
        look_at_stop(r);
        break;
    case PFL_RECORDING_READ:
        look_at_read(r);
        break;
    case PFL_RECORDING_FREE:
        if (r->in[PFL_HOST_DONE] + r->in[PFL_HOST_FAILED] == r->hosts_len)
            end(r);
        break;
    case PFL_RECORDING_CLOSE:
    case PFL_RECORDING_OVER:
        break;
    }
}

/* Hosts change state from inside our own calls: look again until nothing changed. */
static void evaluate(struct pfl_recording *r)
{
    r->is_dirty = true;
    if (r->is_evaluating)
        return;
    r->is_evaluating = true;
    while (r->is_dirty) {
        r->is_dirty = false;
        look_at_phase(r);
    }
    r->is_evaluating = false;
}

static void on_host_change(void *user, struct pfl_host_recording *host_recording)
{
    struct pfl_recording_member *m = user;
    struct pfl_recording *r = m->owner;

    note_host(r, m);
    r->conf.on_progress(r->conf.user, r, host_recording);
    evaluate(r);
}

static void stop_for_disk(struct pfl_recording *r, const char *why)
{
    r->is_disk_low = true;
    pfl_recording_set_why(r, why);
    pfl_recording_stop(r);
}

static void stream(struct pfl_recording *r)
{
    char why[sizeof(r->why)];
    int err = pfl_recording_rotate(r);

    if (err != 0)
        on_file_failed(r, r->conf.output_path, err);
    else if (pfl_recording_has_disk_room(r, why, sizeof(why)))
        pfl_recording_stream(r);
    else
        stop_for_disk(r, why);
}

static void pace_hosts(struct pfl_recording *r)
{
    size_t reading = r->in[PFL_HOST_READING];

    for (size_t i = 0; reading != 0 && i < r->hosts_len; i++)
        pfl_host_recording_pace(r->hosts[i].recording, reading);
}

static void on_watch(uv_timer_t *timer)
{
    struct pfl_recording *r = timer->data;

    pace_hosts(r);
    if (r->phase == PFL_RECORDING_RUN && r->merge != NULL && r->file_error == 0)
        stream(r);
    pfl_recording_watch(r);
    evaluate(r);
}

void pfl_recording_stop(struct pfl_recording *self)
{
    switch (self->phase) {
    case PFL_RECORDING_CONNECT:
        pfl_recording_abort(self, "stopped before it had begun");
        break;
    case PFL_RECORDING_START:
    case PFL_RECORDING_RUN:
        enter_phase(self, PFL_RECORDING_STOP);
        uv_timer_stop(&self->timer);
        each_host(self, pfl_host_recording_end);
        evaluate(self);
        break;
    default:
        break;
    }
}

void pfl_recording_abort(struct pfl_recording *self, const char *why)
{
    self->is_aborted = true;
    pfl_recording_set_why(self, why);
    if (self->phase < PFL_RECORDING_READ)
        enter_phase(self, PFL_RECORDING_READ);
    fail_all(self, "given up");
    evaluate(self);
}

bool pfl_recording_interrupt(struct pfl_recording *self)
{
    self->interrupts++;
    switch (self->phase) {
    case PFL_RECORDING_CONNECT:
    case PFL_RECORDING_START:
    case PFL_RECORDING_RUN:
        pfl_recording_stop(self);
        return true;
    case PFL_RECORDING_STOP:
    case PFL_RECORDING_READ:
        pfl_recording_watch(self);
        pfl_recording_leave_absent(self, "it was away, and you continued without it");
        if (self->interrupts > 1 && is_any_in(self, pfl_recording_waited_states(self)))
            pfl_recording_abort(self, self->conf.each_host.task == PFL_HOST_TASK_RECORD
                                          ? "interrupted: what was not read is lost"
                                          : "interrupted");
        evaluate(self);
        return true;
    case PFL_RECORDING_FREE:
        if (self->interrupts > 1)
            each_host(self, pfl_host_recording_hurry);
        return true;
    default:
        return self->interrupts < 2 || self->file == NULL;
    }
}

int pfl_recording_new(const struct pfl_recording_conf *conf, struct pfl_recording **ret_recording)
{
    struct pfl_recording *r = pfl_mem_zalloc(sizeof(*r));
    struct pfl_host_recording_conf each = conf->each_host;
    int rc = 0;

    if (r == NULL)
        return PFL_ENOMEM;
    r->conf = *conf;
    uv_timer_init(conf->each_host.conn.loop, &r->timer);
    uv_timer_init(conf->each_host.conn.loop, &r->watch);
    r->timer.data = r;
    r->watch.data = r;
    r->open_timers = 2;
    uv_timer_start(&r->watch, on_watch, WATCH_MS, WATCH_MS);
    each.on_change = on_host_change;
    each.on_packet = pfl_recording_on_packet;
    each.on_run = pfl_recording_on_run;
    each.on_clock = on_host_clock;
    for (size_t i = 0; rc == 0 && i < conf->specs_len; i++) {
        r->hosts[i].owner = r;
        each.conn.spec = &conf->specs[i];
        each.user = &r->hosts[i];
        rc = pfl_host_recording_new(&each, &r->hosts[i].recording);
        r->hosts_len += rc == 0;
        r->in[PFL_HOST_CONNECTING] += rc == 0;
    }
    /* Without memory for all of them: those that exist close first, then on_over. */
    if (rc != 0 && r->hosts_len == 0) {
        uv_timer_stop(&r->timer);
        pfl_recording_set_why(r, pfl_err_str(rc));
    }
    *ret_recording = r;
    if (rc != 0)
        pfl_recording_abort(r, pfl_err_str(rc));
    return 0;
}

void pfl_recording_free(struct pfl_recording *self)
{
    if (self == NULL)
        return;
    for (size_t i = 0; i < self->hosts_len; i++)
        pfl_host_recording_free(self->hosts[i].recording);
    pfl_merge_free(self->merge);
    pfl_mem_free(self->partial);
    pfl_mem_free(self);
}
