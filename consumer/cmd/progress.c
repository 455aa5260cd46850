/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress on stderr. Happy path on a terminal: one line that is rewritten five times a second;
 * elsewhere: one line for each phase and each host that fails. Quiet says nothing but failures,
 * which are always said at once. Nothing here can fail in a way that matters.
 */
#include "consumer/cmd/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REFRESH_MS 200u
#define BAR_CELLS  30

static void clear_bar(struct pfl_progress *p)
{
    if (p->has_bar)
        fputs("\r\033[K", stderr);
    p->has_bar = false;
}

/* What is known of all hosts together. */
struct totals {
    uint64_t expected_bytes;
    uint64_t read_bytes;
    size_t hosts;
    size_t done;
    const char *slowest; /* whose share read is the smallest */
    double slowest_share;
};

static struct totals sum_up(const struct pfl_recording *r)
{
    struct totals t = {.slowest = "", .slowest_share = 2};

    for (size_t i = 0; i < pfl_recording_get_hosts_len(r); i++) {
        struct pfl_recording_host h;
        double share;

        pfl_recording_get_host(r, i, &h);
        t.hosts++;
        t.expected_bytes += h.report->losses.bytes_unread;
        t.read_bytes += h.report->bytes_read;
        t.done += h.state > PFL_LINK_READING;
        share = (double)h.report->bytes_read / ((double)h.report->losses.bytes_unread + 1);
        if (h.state != PFL_LINK_READING || share >= t.slowest_share)
            continue;
        t.slowest = h.report->name;
        t.slowest_share = share;
    }
    return t;
}

static void draw_bar(struct pfl_progress *p, const char *words, double share, const char *tail)
{
    char cells[BAR_CELLS + 1];
    int full = share >= 1 ? BAR_CELLS : share <= 0 ? 0 : (int)(share * BAR_CELLS);

    memset(cells, '.', BAR_CELLS);
    memset(cells, '#', (size_t)full);
    cells[BAR_CELLS] = '\0';
    fprintf(stderr, "\r\033[K%s [%s] %s", words, cells, tail);
    fflush(stderr);
    p->has_bar = true;
}

static void draw_reading(struct pfl_progress *p, const struct pfl_recording *r)
{
    struct totals t = sum_up(r);
    double seconds = (double)(uv_now(p->timer.loop) - p->read_began_ms + 1) / 1e3;
    char tail[256];
    int len =
        snprintf(tail, sizeof(tail), "%.1f MB, %.1f MB/s, %zu of %zu hosts",
                 (double)t.read_bytes / 1e6, (double)t.read_bytes / 1e6 / seconds, t.done, t.hosts);

    if (t.slowest[0] != '\0' && t.hosts > 1 && len > 0 && (size_t)len < sizeof(tail))
        snprintf(tail + len, sizeof(tail) - (size_t)len, ", slowest %s %.0f%%", t.slowest,
                 t.slowest_share * 100 > 100 ? 100.0 : t.slowest_share * 100);
    draw_bar(p, "reading",
             t.expected_bytes != 0 ? (double)t.read_bytes / (double)t.expected_bytes : 0, tail);
}

static void on_refresh(uv_timer_t *timer)
{
    struct pfl_progress *p = timer->data;
    const struct pfl_recording *r = p->recording;
    char tail[96];
    double share = 0;

    if (r == NULL || !p->is_terminal)
        return;
    if (pfl_recording_get_phase(r) == PFL_RECORDING_RUN && p->task == PFL_LINK_RECORD) {
        uint64_t ms = uv_now(timer->loop) - p->run_began_ms;

        if (p->duration_ms != 0) {
            share = (double)ms / (double)p->duration_ms;
            snprintf(tail, sizeof(tail), "%.1f of %.1f s, Ctrl-C stops and reads", (double)ms / 1e3,
                     (double)p->duration_ms / 1e3);
        } else {
            snprintf(tail, sizeof(tail), "%.1f s, Ctrl-C stops and reads", (double)ms / 1e3);
        }
        draw_bar(p, "recording", share, tail);
    } else if (pfl_recording_get_phase(r) == PFL_RECORDING_READ) {
        draw_reading(p, r);
    }
}

void pfl_progress_open(struct pfl_progress *self, const struct pfl_recording_conf *conf,
                       bool is_quiet)
{
    *self = (struct pfl_progress){
        .task = conf->link.task, .duration_ms = conf->duration_ms, .is_quiet = is_quiet};
    self->is_terminal = !is_quiet && isatty(STDERR_FILENO) != 0;
    uv_timer_init(conf->link.conn.loop, &self->timer);
    self->timer.data = self;
    self->is_open = true;
    uv_timer_start(&self->timer, on_refresh, REFRESH_MS, REFRESH_MS);
    uv_unref((uv_handle_t *)&self->timer);
}

static size_t count_failed(const struct pfl_recording *r)
{
    size_t n = 0;

    for (size_t i = 0; i < pfl_recording_get_hosts_len(r); i++) {
        struct pfl_recording_host h;

        pfl_recording_get_host(r, i, &h);
        n += h.report->why[0] != '\0';
    }
    return n;
}

static void say_run(struct pfl_progress *p)
{
    p->run_began_ms = uv_now(p->timer.loop);
    if (p->is_terminal && p->task == PFL_LINK_RECORD)
        return;
    if (p->task == PFL_LINK_WATCH)
        fprintf(stderr, "waiting for a trigger; Ctrl-C takes the snapshot now\n");
    else if (p->task == PFL_LINK_RECORD && p->duration_ms != 0)
        fprintf(stderr, "recording for %.1f s\n", (double)p->duration_ms / 1e3);
    else if (p->task == PFL_LINK_RECORD)
        fprintf(stderr, "recording until Ctrl-C\n");
}

static void say_phase(struct pfl_progress *p, const struct pfl_recording *r)
{
    static const char *const begins[] = {
        [PFL_LINK_RECORD] = "starting", [PFL_LINK_START] = "starting",
        [PFL_LINK_READ] = "stopping",   [PFL_LINK_SNAPSHOT] = "copying the session of",
        [PFL_LINK_WATCH] = "watching",
    };
    size_t hosts = pfl_recording_get_hosts_len(r);
    size_t failed = count_failed(r);

    switch (pfl_recording_get_phase(r)) {
    case PFL_RECORDING_RUN:
        say_run(p);
        break;
    case PFL_RECORDING_START:
        fprintf(stderr, "%s %zu of %zu hosts\n", begins[p->task], hosts - failed, hosts);
        break;
    case PFL_RECORDING_STOP:
        clear_bar(p);
        if (p->task == PFL_LINK_RECORD)
            fprintf(stderr, "stopping\n");
        break;
    case PFL_RECORDING_READ:
        if (p->task == PFL_LINK_START)
            break;
        clear_bar(p);
        p->read_began_ms = uv_now(p->timer.loop);
        fprintf(stderr, "reading\n");
        break;
    default:
        break;
    }
}

void pfl_progress_update(struct pfl_progress *self, const struct pfl_recording *recording,
                         const struct pfl_host_link *link)
{
    const struct pfl_host_report *report;

    self->recording = recording;
    if (link == NULL) {
        if (!self->is_quiet)
            say_phase(self, recording);
        return;
    }
    report = pfl_host_link_get_report(link);
    if (pfl_host_link_get_state(link) == PFL_LINK_FREEING && !self->is_quiet) {
        double seconds = (double)(report->read_ended_ns - report->read_began_ns + 1) / 1e9;

        clear_bar(self);
        fprintf(stderr, "host %s: read %.1f MB, %.1f MB/s\n", report->name,
                (double)report->bytes_read / 1e6, (double)report->bytes_read / 1e6 / seconds);
    }
    if (pfl_host_link_get_state(link) == PFL_LINK_CLOSING && report->why[0] != '\0') {
        clear_bar(self);
        fprintf(stderr, "perfleet: host %s: %s\n", pfl_host_link_get_title(link), report->why);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    ((struct pfl_progress *)handle->data)->is_closed = true;
}

void pfl_progress_close(struct pfl_progress *self)
{
    if (!self->is_open)
        return;
    self->is_open = false;
    clear_bar(self);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

bool pfl_progress_is_closed(const struct pfl_progress *self)
{
    return self->is_closed;
}
