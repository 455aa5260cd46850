/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress on stderr. Happy path on a terminal: one line, cut to its width, that is redrawn five
 * times a second; elsewhere: one line for each phase and each host that fails. Quiet mode prints
 * only failures. A failure is always printed at once, with the reason, which the summary does not
 * repeat. Its own failures are ignored.
 */
#include "consumer/cmd/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "consumer/report/progress_line.h"

#define REFRESH_MS 200u
#define LOSSES_MS  10000u

static void clear_bar(struct pfl_progress *p)
{
    if (p->has_bar)
        fputs("\r\033[K", stderr);
    p->has_bar = false;
}

/* Sums over all hosts. */
struct totals {
    uint64_t expected_bytes;
    uint64_t read_bytes;
    size_t hosts;
    size_t done;
    const char *slowest; /* the host with the smallest share read */
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
        t.done += h.state > PFL_HOST_READING;
        share = (double)h.report->bytes_read / ((double)h.report->losses.bytes_unread + 1);
        if (h.state != PFL_HOST_READING || share >= t.slowest_share)
            continue;
        t.slowest = h.report->name;
        t.slowest_share = share;
    }
    return t;
}

/* Asked each time: terminals change their size. */
static unsigned columns_now(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static void draw_bar(struct pfl_progress *p, const char *words, double share, const char *tail)
{
    char line[PFL_PROGRESS_LINE_BYTES];

    pfl_progress_line(columns_now(), words, share, tail, line);
    fprintf(stderr, "\r\033[K%s", line);
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

/* "web2", "web2 and 3 more", "the relay". */
static void name_absent(const struct pfl_recording_absent *a, char *out, size_t size)
{
    const char *name = pfl_host_recording_get_report(a->longest)->name;

    if (a->is_relay)
        snprintf(out, size, "the relay");
    else if (a->hosts > 1)
        snprintf(out, size, "%s and %zu more", name, a->hosts - 1);
    else
        snprintf(out, size, "%s", name);
}

static void word_waiting(const struct pfl_recording *r, const struct pfl_recording_absent *a,
                         char *out, size_t size)
{
    char who[PFL_HOST_NAME_MAX + 32];
    const char *then = pfl_recording_get_phase(r) < PFL_RECORDING_START ? "gives up"
                       : a->is_relay  ? "continues without its hosts"
                       : a->hosts > 1 ? "continues without them"
                                      : "continues without it";

    name_absent(a, who, sizeof(who));
    snprintf(out, size, "waiting for %s (away %.0f s); Ctrl-C %s", who, (double)a->away_ms / 1e3,
             then);
}

/* Without a terminal: a line when a host disconnected, or is waited for. */
static void say_absent(struct pfl_progress *p, const struct pfl_recording *r,
                       const struct pfl_recording_absent *a)
{
    char words[PFL_HOST_NAME_MAX + 128];

    if (a->hosts == p->absent.hosts && a->is_waited_for == p->absent.is_waited_for &&
        a->is_relay == p->absent.is_relay)
        return;
    p->absent = *a;
    if (a->hosts == 0)
        return;
    if (a->is_waited_for) {
        word_waiting(r, a, words, sizeof(words));
        fprintf(stderr, "%s\n", words);
    } else if (pfl_recording_get_phase(r) == PFL_RECORDING_RUN) {
        name_absent(a, words, sizeof(words));
        fprintf(stderr, "%s is away\n", words);
    }
}

static void add_absent(char *tail, size_t size, const struct pfl_recording_absent *a)
{
    char who[PFL_HOST_NAME_MAX + 32];
    size_t len = strlen(tail);

    if (a->hosts == 0)
        return;
    name_absent(a, who, sizeof(who));
    snprintf(tail + len, size - len, "; %s away %.0f s", who, (double)a->away_ms / 1e3);
}

static void draw_waiting(struct pfl_progress *p, const struct pfl_recording *r,
                         const struct pfl_recording_absent *a)
{
    char words[PFL_HOST_NAME_MAX + 128];

    word_waiting(r, a, words, sizeof(words));
    draw_bar(p, words, PFL_PROGRESS_NO_BAR, "");
}

/* While streaming: reports hosts that lose data, when the loss grows. */
static void say_losses(struct pfl_progress *p, const struct pfl_recording *r)
{
    uint64_t now_ms = uv_now(p->timer.loop);
    const char *worst = "";
    uint64_t worst_losses = 0;
    uint64_t sum = 0;

    if (p->losses_said_ms != 0 && now_ms - p->losses_said_ms < LOSSES_MS)
        return;
    for (size_t i = 0; i < pfl_recording_get_hosts_len(r); i++) {
        struct pfl_recording_host h;
        uint64_t losses;

        pfl_recording_get_host(r, i, &h);
        losses = h.report->has_losses ? pfl_losses_sum(&h.report->losses) : 0;
        sum += losses;
        if (losses <= worst_losses)
            continue;
        worst_losses = losses;
        worst = h.report->name;
    }
    if (sum <= p->losses)
        return;
    p->losses = sum;
    p->losses_said_ms = now_ms;
    clear_bar(p);
    fprintf(stderr,
            "losses so far: %llu (%s %llu): larger buffers or fewer sources; the "
            "summary names them\n",
            (unsigned long long)sum, worst, (unsigned long long)worst_losses);
}

static void on_refresh(uv_timer_t *timer)
{
    struct pfl_progress *p = timer->data;
    const struct pfl_recording *r = p->recording;
    struct pfl_recording_absent absent;
    char tail[96 + PFL_HOST_NAME_MAX + 64];
    double share = 0;

    if (r == NULL || p->output == PFL_PROGRESS_QUIET)
        return;
    pfl_recording_get_absent(r, &absent);
    if (p->is_streamed && pfl_recording_get_phase(r) == PFL_RECORDING_RUN)
        say_losses(p, r);
    if (p->output != PFL_PROGRESS_TERMINAL) {
        say_absent(p, r, &absent);
        return;
    }
    if (absent.is_waited_for) {
        draw_waiting(p, r, &absent);
        return;
    }
    if (pfl_recording_get_phase(r) == PFL_RECORDING_RUN && p->task == PFL_HOST_TASK_RECORD) {
        uint64_t ms = uv_now(timer->loop) - p->run_began_ms;

        if (p->duration_ms != 0) {
            share = (double)ms / (double)p->duration_ms;
            snprintf(tail, sizeof(tail), "%.1f of %.1f s, Ctrl-C stops and reads", (double)ms / 1e3,
                     (double)p->duration_ms / 1e3);
        } else {
            snprintf(tail, sizeof(tail), "%.1f s, Ctrl-C stops and reads", (double)ms / 1e3);
        }
        if (p->is_streamed)
            snprintf(tail + strlen(tail), sizeof(tail) - strlen(tail), "; %.1f MB in the file",
                     (double)pfl_recording_get_file_bytes(r) / 1e6);
        add_absent(tail, sizeof(tail), &absent);
        draw_bar(p, "recording", share, tail);
    } else if (pfl_recording_get_phase(r) == PFL_RECORDING_READ) {
        draw_reading(p, r);
    } else {
        clear_bar(p); /* the wait is over */
    }
}

void pfl_progress_open(struct pfl_progress *self, const struct pfl_recording_conf *conf,
                       bool is_quiet)
{
    *self = (struct pfl_progress){.task = conf->each_host.task,
                                  .is_streamed = conf->each_host.is_streamed,
                                  .duration_ms = conf->duration_ms,
                                  .output = is_quiet ? PFL_PROGRESS_QUIET : PFL_PROGRESS_LINES};
    if (!is_quiet && isatty(STDERR_FILENO) != 0)
        self->output = PFL_PROGRESS_TERMINAL;
    uv_timer_init(conf->each_host.conn.loop, &self->timer);
    self->timer.data = self;
    self->timer_state = PFL_PROGRESS_OPEN;
    uv_timer_start(&self->timer, on_refresh, REFRESH_MS, REFRESH_MS);
    uv_unref((uv_handle_t *)&self->timer);
}

void pfl_progress_begin(struct pfl_progress *self, const struct pfl_recording *recording)
{
    self->recording = recording;
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
    if (p->output == PFL_PROGRESS_TERMINAL && p->task == PFL_HOST_TASK_RECORD)
        return;
    if (p->task == PFL_HOST_TASK_WATCH)
        fprintf(stderr, "waiting for a trigger; Ctrl-C takes the snapshot now\n");
    else if (p->task == PFL_HOST_TASK_RECORD && p->duration_ms != 0)
        fprintf(stderr, "recording for %.1f s\n", (double)p->duration_ms / 1e3);
    else if (p->task == PFL_HOST_TASK_RECORD)
        fprintf(stderr, "recording until Ctrl-C\n");
}

static void say_phase(struct pfl_progress *p, const struct pfl_recording *r)
{
    static const char *const begins[] = {
        [PFL_HOST_TASK_RECORD] = "starting", [PFL_HOST_TASK_START] = "starting",
        [PFL_HOST_TASK_READ] = "stopping",   [PFL_HOST_TASK_SNAPSHOT] = "copying the session of",
        [PFL_HOST_TASK_WATCH] = "watching",
    };
    size_t hosts = pfl_recording_get_hosts_len(r);
    size_t failed = count_failed(r);

    switch (pfl_recording_get_phase(r)) {
    case PFL_RECORDING_RUN:
        say_run(p);
        break;
    case PFL_RECORDING_START:
        clear_bar(p);
        fprintf(stderr, "%s %zu of %zu hosts\n", begins[p->task], hosts - failed, hosts);
        break;
    case PFL_RECORDING_STOP:
        clear_bar(p);
        if (p->task == PFL_HOST_TASK_RECORD)
            fprintf(stderr, "stopping\n");
        break;
    case PFL_RECORDING_READ:
        if (p->task == PFL_HOST_TASK_START || pfl_recording_is_aborted(r) ||
            pfl_recording_has_file_failed(r))
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
                         const struct pfl_host_recording *host_recording)
{
    const struct pfl_host_report *report;

    self->recording = recording;
    if (host_recording == NULL) {
        if (self->output != PFL_PROGRESS_QUIET)
            say_phase(self, recording);
        return;
    }
    report = pfl_host_recording_get_report(host_recording);
    if (pfl_host_recording_get_state(host_recording) == PFL_HOST_READ_OUT &&
        self->output != PFL_PROGRESS_QUIET) {
        double seconds = (double)(report->read_ended_ns - report->read_began_ns + 1) / 1e9;

        clear_bar(self);
        fprintf(stderr, "host %s: read %.1f MB, %.1f MB/s\n", report->name,
                (double)report->bytes_read / 1e6, (double)report->bytes_read / 1e6 / seconds);
    }
    if (pfl_host_recording_get_state(host_recording) == PFL_HOST_CLOSING &&
        report->why[0] != '\0' && !report->is_given_up) {
        clear_bar(self);
        fprintf(stderr, "perfleet: host %s: %s\n", pfl_host_recording_get_title(host_recording),
                report->why);
    }
}

void pfl_progress_interrupt(struct pfl_progress *self, const struct pfl_recording *recording,
                            unsigned nth)
{
    enum pfl_recording_phase phase = pfl_recording_get_phase(recording);

    if (self->output == PFL_PROGRESS_QUIET || nth != 1 || self->task == PFL_HOST_TASK_START ||
        phase < PFL_RECORDING_STOP || phase > PFL_RECORDING_READ)
        return;
    clear_bar(self);
    fprintf(stderr, "interrupted: what is there is read; Ctrl-C again ends at once, the file keeps "
                    "what came\n");
}

static void on_timer_closed(uv_handle_t *handle)
{
    ((struct pfl_progress *)handle->data)->timer_state = PFL_PROGRESS_CLOSED;
}

void pfl_progress_close(struct pfl_progress *self)
{
    if (self->timer_state != PFL_PROGRESS_OPEN)
        return;
    self->timer_state = PFL_PROGRESS_CLOSING;
    clear_bar(self);
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
}

bool pfl_progress_is_closed(const struct pfl_progress *self)
{
    return self->timer_state == PFL_PROGRESS_CLOSED;
}
