/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator of a recording.
 *
 *     CONNECT -> START -> RUN -> STOP -> READ -> CLOSE -> OVER
 *        |         |                       ^       ^
 *        +---------+-- nobody left --------|-------+
 *
 * Happy path: each phase ends when no host is still on its way through it. The file is opened when
 * the hosts are ready and before they start, so that a bad path costs no recording. When one
 * session ends by itself (duration, trigger) the others get a short grace and are then stopped.
 * At READ all clocks are known, so names and clock points go to the file first.
 *
 * Failures: a failed host is left out of what follows; too few of them end the recording. A file
 * that cannot be written ends all hosts' reading; what is in it stays valid.
 * Ownership: links, merge and file. Limits: reading of all hosts stops while the file is congested.
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

static void evaluate(struct pfl_recording *r);

static void set_why(struct pfl_recording *r, const char *why)
{
    if (r->why[0] == '\0')
        snprintf(r->why, sizeof(r->why), "%s", why);
}

static void enter_phase(struct pfl_recording *r, enum pfl_recording_phase phase)
{
    r->phase = phase;
    r->is_dirty = true;
    r->conf.on_progress(r->conf.user, r, NULL);
}

static bool is_any_in(const struct pfl_recording *r, unsigned states)
{
    for (unsigned i = 0; i < PFL_LINK_STATES; i++)
        if ((states >> i & 1) != 0 && r->in[i] != 0)
            return true;
    return false;
}

#define IN(state) (1u << PFL_LINK_##state)

/* With a thousand hosts nothing that happens at one may look at all. */
static void note_link(struct pfl_recording *r, struct pfl_recording_member *m)
{
    const struct pfl_host_report *report = pfl_host_link_get_report(m->link);

    r->in[m->state]--;
    m->state = pfl_host_link_get_state(m->link);
    r->in[m->state]++;
    r->is_triggered |= report->trigger[0] != '\0';
    r->has_self_ended |= report->has_ended_itself;
}

static void fail_all(struct pfl_recording *r, const char *why)
{
    for (size_t i = 0; i < r->hosts_len; i++)
        pfl_host_link_fail(r->hosts[i].link, why);
}

static void each_host(struct pfl_recording *r, void (*act)(struct pfl_host_link *link))
{
    for (size_t i = 0; i < r->hosts_len; i++)
        act(r->hosts[i].link);
}

/* The file. */

static void on_file_writable(void *user)
{
    struct pfl_recording *r = user;

    each_host(r, pfl_host_link_resume);
}

static void on_file_failed(void *user, int err)
{
    struct pfl_recording *r = user;
    char why[256];

    r->file_error = err;
    snprintf(why, sizeof(why), "the trace file cannot be written: %s%s", strerror(err),
             err == ENOSPC ? "; make room, or choose another place with -o" : "");
    set_why(r, why);
    fail_all(r, "stopped, because the trace file cannot be written");
}

static bool open_file(struct pfl_recording *r)
{
    struct pfl_trace_file_conf conf = {
        .loop = r->conf.link.conn.loop,
        .path = r->conf.output_path,
        .on_writable = on_file_writable,
        .on_failed = on_file_failed,
        .user = r,
    };
    char why[512];
    int rc = pfl_trace_file_open(&conf, &r->file);

    if (rc == 0)
        return true;
    r->file_error = rc == PFL_EIO ? errno : ENOMEM;
    snprintf(why, sizeof(why), "cannot write %s: %s", pfl_log_quote_str(r->conf.output_path),
             strerror(r->file_error));
    set_why(r, why);
    return false;
}

static int on_link_packet(void *user, struct pfl_host_link *link, const struct iovec *slices,
                          int slices_len, size_t bytes)
{
    struct pfl_recording_member *m = user;
    struct pfl_recording *r = m->owner;
    int rc = pfl_merge_packet(r->merge, m->merge_index, slices, slices_len, bytes);

    (void)link;
    if (pfl_trace_file_is_congested(r->file))
        each_host(r, pfl_host_link_pause);
    return rc;
}

static int on_link_run(void *user, struct pfl_host_link *link, const struct pfl_packet_run *run,
                       uint64_t *ret_bytes)
{
    struct pfl_recording_member *m = user;
    struct pfl_recording *r = m->owner;
    int rc = pfl_merge_run(r->merge, m->merge_index, run, ret_bytes);

    (void)link;
    if (pfl_trace_file_is_congested(r->file))
        each_host(r, pfl_host_link_pause);
    return rc;
}

/* Ends. */

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_recording *r = handle->data;

    enter_phase(r, PFL_RECORDING_OVER);
    r->conf.on_over(r->conf.user);
}

static void on_file_closed(void *user, int err, uint64_t written_bytes)
{
    struct pfl_recording *r = user;

    r->file = NULL;
    r->file_bytes = written_bytes;
    if (err != 0 && r->file_error == 0)
        on_file_failed(r, err);
    uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}

static void close_file(struct pfl_recording *r)
{
    enter_phase(r, PFL_RECORDING_CLOSE);
    if (r->file == NULL) {
        uv_close((uv_handle_t *)&r->timer, on_timer_closed);
        return;
    }
    pfl_trace_file_close(r->file, on_file_closed);
}

/* Phases. */

static void on_run_too_long(uv_timer_t *timer)
{
    pfl_recording_stop(timer->data);
}

static void begin_start(struct pfl_recording *r)
{
    size_t ready = r->in[PFL_LINK_READY];
    char why[128];

    if (ready < r->conf.quorum) {
        snprintf(why, sizeof(why), "only %zu of %zu hosts are ready, %zu are needed", ready,
                 r->hosts_len, r->conf.quorum);
        pfl_recording_abort(r, why);
        return;
    }
    if (r->conf.output_path != NULL && !open_file(r)) {
        fail_all(r, "not started, because the trace file cannot be written");
        enter_phase(r, PFL_RECORDING_READ);
        return;
    }
    r->run_began_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    enter_phase(r, PFL_RECORDING_START);
    each_host(r, pfl_host_link_begin);
}

static void begin_run(struct pfl_recording *r)
{
    uint64_t ms = r->conf.duration_ms;

    enter_phase(r, PFL_RECORDING_RUN);
    if (ms != 0)
        uv_timer_start(&r->timer, on_run_too_long,
                       ms + r->conf.link.flush_timeout_ms + r->conf.link.stop_timeout_ms + LATE_MS,
                       0);
}

static void look_at_run(struct pfl_recording *r)
{
    if (!is_any_in(r, IN(RECORDING))) {
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
    int rc;

    enter_phase(r, PFL_RECORDING_READ);
    if (r->in[PFL_LINK_STOPPED] == 0)
        return;
    rc = pfl_recording_begin_merge(r);
    if (rc != 0) {
        set_why(r, pfl_err_str(rc));
        fail_all(r, pfl_err_str(rc));
        return;
    }
    each_host(r, pfl_host_link_read);
}

static void look_at_phase(struct pfl_recording *r)
{
    switch (r->phase) {
    case PFL_RECORDING_CONNECT:
        if (!is_any_in(r, IN(CONNECTING) | IN(CLOCK_BEFORE) | IN(SETUP)))
            begin_start(r);
        break;
    case PFL_RECORDING_START:
        if (!is_any_in(r, IN(READY) | IN(STARTING)))
            begin_run(r);
        break;
    case PFL_RECORDING_RUN:
        look_at_run(r);
        break;
    case PFL_RECORDING_STOP:
        if (!is_any_in(r, IN(STARTING) | IN(RECORDING) | IN(FLUSHING) | IN(DISABLING) |
                              IN(DETACHING) | IN(CLONING) | IN(STATS) | IN(CLOCK_AFTER)))
            begin_read(r);
        break;
    case PFL_RECORDING_READ:
        if (r->in[PFL_LINK_DONE] + r->in[PFL_LINK_FAILED] == r->hosts_len)
            close_file(r);
        break;
    case PFL_RECORDING_CLOSE:
    case PFL_RECORDING_OVER:
        break;
    }
}

/* Links change from inside our own calls: look again until nothing changed. */
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

static void on_link_change(void *user, struct pfl_host_link *link)
{
    struct pfl_recording_member *m = user;
    struct pfl_recording *r = m->owner;

    note_link(r, m);
    r->conf.on_progress(r->conf.user, r, link);
    evaluate(r);
}

void pfl_recording_stop(struct pfl_recording *self)
{
    switch (self->phase) {
    case PFL_RECORDING_CONNECT:
    case PFL_RECORDING_START:
        pfl_recording_abort(self, "stopped before it had begun");
        break;
    case PFL_RECORDING_RUN:
        enter_phase(self, PFL_RECORDING_STOP);
        each_host(self, pfl_host_link_end);
        evaluate(self);
        break;
    default:
        break;
    }
}

void pfl_recording_abort(struct pfl_recording *self, const char *why)
{
    self->is_aborted = true;
    set_why(self, why);
    if (self->phase < PFL_RECORDING_READ)
        enter_phase(self, PFL_RECORDING_READ);
    fail_all(self, "given up");
    evaluate(self);
}

int pfl_recording_new(const struct pfl_recording_conf *conf, struct pfl_recording **ret_recording)
{
    struct pfl_recording *r = pfl_mem_zalloc(sizeof(*r));
    struct pfl_host_link_conf link = conf->link;
    int rc = 0;

    if (r == NULL)
        return PFL_ENOMEM;
    r->conf = *conf;
    uv_timer_init(conf->link.conn.loop, &r->timer);
    r->timer.data = r;
    link.on_change = on_link_change;
    link.on_packet = on_link_packet;
    link.on_run = on_link_run;
    for (size_t i = 0; rc == 0 && i < conf->specs_len; i++) {
        r->hosts[i].owner = r;
        link.conn.spec = &conf->specs[i];
        link.user = &r->hosts[i];
        rc = pfl_host_link_new(&link, &r->hosts[i].link);
        r->hosts_len += rc == 0;
        r->in[PFL_LINK_CONNECTING] += rc == 0;
    }
    /* Without memory for all of them: those that exist close first, then on_over. */
    if (rc != 0 && r->hosts_len == 0) {
        uv_timer_stop(&r->timer);
        set_why(r, pfl_err_str(rc));
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
        pfl_host_link_free(self->hosts[i].link);
    pfl_merge_free(self->merge);
    pfl_mem_free(self);
}
