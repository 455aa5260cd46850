/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page's recording of all hosts.
 *
 * Happy path: the config is taken from the request and prepared as for `perfleet record`. The
 * recording's coordinator writes the merged trace into an unnamed file, through its path in
 * /proc/self/fd; at the end the page gets the file. Failures: a config that a fleet cannot record,
 * too few hosts, a file that cannot be written or grows too large: a sentence, and no trace. A host
 * that fails later is named, and the trace has the others. Ownership: recording, config, file and
 * timer. Limits: conf.max_bytes, looked at WATCH_MS apart.
 */
#include "consumer/ui/fleet_run.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "consumer/config/config.h"
#include "consumer/proxy/file_request.h"
#include "consumer/recording/unnamed_file.h"
#include "consumer/ui/fleet_note.h"
#include "consumer/ui/fleet_state.h"
#include "perfetto/consumer_port.fields.h"

#define WATCH_MS           250u
#define DEFAULT_TIMEOUT_MS 5000u /* the protocol's, for flushing and stopping */
#define SESSION_NAME_BYTES 128u

struct pfl_fleet_run {
    struct pfl_fleet_run_conf conf;  /* recording is not valid after the start */
    struct pfl_recording *recording; /* owned; NULL before the start */
    struct pfl_buf config;           /* owned: as it goes to the hosts */
    uv_timer_t timer;
    uint64_t stop_bytes; /* read while it lasts: of the file, when it is stopped; 0: never */
    struct pfl_unnamed_file file; /* owned */
    bool is_over;
    bool is_too_large;
    char session[SESSION_NAME_BYTES];
    char why[PFL_FLEET_WHY_BYTES];
    struct pfl_fleet_words missing;
    char missing_text[PFL_FLEET_WHY_BYTES];
};

/* ---- the end ---- */

/* Hosts that were ready, and did not start because others were not. */
static bool was_given_up(const struct pfl_host_report *report)
{
    static const char words[] = "given up";
    size_t len = strlen(report->why);

    return report->failed_in == PFL_HOST_READY && len >= sizeof(words) - 1 &&
           strcmp(report->why + len - (sizeof(words) - 1), words) == 0;
}

static void list_missing(struct pfl_fleet_run *run)
{
    for (size_t i = 0; i < pfl_recording_get_hosts_len(run->recording); i++) {
        struct pfl_recording_host h;

        pfl_recording_get_host(run->recording, i, &h);
        if (h.report->why[0] != '\0' && !was_given_up(h.report))
            pfl_fleet_words_add(&run->missing,
                                h.report->name[0] != '\0' ? h.report->name : h.spec->text,
                                h.report->why);
    }
    pfl_fleet_words_end(&run->missing);
    if (run->missing.count != 0)
        (void)snprintf(run->missing_text, sizeof(run->missing_text),
                       "hosts that the trace lacks, or of which it lacks the end: %s",
                       run->missing.text);
}

static void judge(struct pfl_fleet_run *run)
{
    const char *why = pfl_recording_get_why(run->recording);
    const char *missing = run->missing.text;

    if (run->is_too_large)
        (void)snprintf(
            run->why, sizeof(run->why),
            "the trace is larger than the %.1f MB that a page gets; take smaller buffers, "
            "fewer hosts, or perfleet record",
            (double)run->conf.max_bytes / 1e6);
    else if (pfl_recording_has_file_failed(run->recording))
        (void)snprintf(run->why, sizeof(run->why),
                       "the trace cannot be written in %s; make room there, or start perfleet "
                       "with another TMPDIR",
                       run->file.folder);
    else if (why[0] != '\0')
        (void)snprintf(run->why, sizeof(run->why), "%s%s%s", why, missing[0] != '\0' ? ": " : "",
                       missing);
    else if (pfl_recording_get_file_bytes(run->recording) == 0)
        (void)snprintf(run->why, sizeof(run->why), "nothing could be recorded%s%s",
                       missing[0] != '\0' ? ": " : "", missing);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_fleet_run *run = handle->data;

    run->conf.on_over(run->conf.user);
}

static void on_over(void *user)
{
    struct pfl_fleet_run *run = user;

    run->is_over = true;
    if (pfl_recording_get_file_bytes(run->recording) > run->conf.max_bytes)
        run->is_too_large = true;
    list_missing(run);
    judge(run);
    uv_close((uv_handle_t *)&run->timer, on_timer_closed);
}

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_recording *host_recording)
{
    (void)user;
    (void)recording;
    (void)host_recording;
}

static void on_watch(uv_timer_t *timer)
{
    struct pfl_fleet_run *run = timer->data;
    uint64_t bytes;

    if (run->is_over)
        return;
    bytes = pfl_recording_get_file_bytes(run->recording);
    if (bytes > run->conf.max_bytes && !run->is_too_large) {
        run->is_too_large = true;
        pfl_recording_abort(run->recording, "the trace is too large");
    } else if (run->stop_bytes != 0 && bytes >= run->stop_bytes &&
               pfl_recording_get_phase(run->recording) == PFL_RECORDING_RUN) {
        pfl_recording_stop(run->recording);
    }
}

/* ---- the start ---- */

void pfl_fleet_run_free(struct pfl_fleet_run *self)
{
    if (self == NULL)
        return;
    pfl_recording_free(self->recording);
    pfl_unnamed_file_close(&self->file);
    pfl_buf_fini(&self->config);
    pfl_mem_free(self);
}

static struct pfl_fleet_run *make_run(const struct pfl_fleet_run_conf *conf)
{
    struct pfl_fleet_run *run = pfl_mem_zalloc(sizeof(*run));

    if (run == NULL)
        return NULL;
    run->conf = *conf;
    run->file.fd = -1;
    pfl_buf_init(&run->config, PFL_CONFIG_MAX_BYTES);
    return run;
}

static int start(struct pfl_fleet_run *run, struct pfl_recording_conf *recording, char *ret_why)
{
    uv_loop_t *loop = recording->each_host.conn.loop;
    int rc;

    if (!pfl_unnamed_file_open(&run->file, ret_why, PFL_FLEET_WHY_BYTES))
        return PFL_EINVAL;
    recording->output_path = run->file.path;
    recording->no_clobber = false;
    recording->why_not_start = NULL;
    recording->on_progress = on_progress;
    recording->on_over = on_over;
    recording->user = run;
    rc = pfl_recording_new(recording, &run->recording);
    if (rc != 0)
        return rc;
    (void)uv_timer_init(loop, &run->timer);
    run->timer.data = run;
    (void)uv_timer_start(&run->timer, on_watch, WATCH_MS, WATCH_MS);
    return 0;
}

static int finish_new(struct pfl_fleet_run *run, int rc, char *ret_why,
                      struct pfl_fleet_run **ret_run)
{
    if (rc == 0) {
        *ret_run = run;
        return 0;
    }
    pfl_fleet_run_free(run);
    if (rc == PFL_EINVAL || rc == PFL_ENOMEM)
        return rc;
    (void)snprintf(ret_why, PFL_FLEET_WHY_BYTES, "the request cannot be read: %s", pfl_err_str(rc));
    return PFL_EINVAL;
}

static bool find_config(struct pfl_span request, struct pfl_span *ret_config)
{
    struct pfl_reader r = pfl_reader_of(request);
    struct pfl_field f;
    bool is_there = false;

    while (pfl_reader_field(&r, &f))
        if (f.id == ENABLE_TRACING_REQUEST__TRACE_CONFIG && f.type == PFL_WIRE_BYTES) {
            *ret_config = f.bytes;
            is_there = true;
        }
    return is_there && !r.failed;
}

/* What a request says besides its config. */
struct asked {
    struct pfl_file_request file_request; /* removed from the request: the file is written here */
    struct pfl_config_info info;
};

/* `room` for the request without write_into_file. */
static int take_config(struct pfl_fleet_run *run, struct pfl_span request, struct pfl_buf *room,
                       struct asked *ret_asked, char *ret_why)
{
    struct pfl_config_overrides overrides = {0};
    struct pfl_config_why why = {""};
    struct pfl_span config;
    uint64_t random[2];
    int rc;

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return PFL_EIO;
    rc = pfl_file_request_take(request, random, room, &ret_asked->file_request);
    if (rc != 0)
        return rc;
    if (!find_config(ret_asked->file_request.is_requested ? pfl_buf_get(room) : request, &config)) {
        (void)snprintf(ret_why, PFL_FLEET_WHY_BYTES, "the request has no trace config");
        return PFL_EINVAL;
    }
    rc = pfl_config_prepare(config, &overrides, &run->config, &ret_asked->info, &why);
    if (rc == PFL_EINVAL)
        (void)snprintf(ret_why, PFL_FLEET_WHY_BYTES, "%s", why.text);
    return rc;
}

static void fill_recording(struct pfl_fleet_run *run, const struct asked *asked,
                           struct pfl_recording_conf *recording)
{
    uint64_t wished = asked->file_request.max_bytes;

    recording->each_host.task = PFL_HOST_TASK_RECORD;
    recording->each_host.trace_config = pfl_buf_get(&run->config);
    recording->each_host.flush_timeout_ms = asked->info.flush_timeout_ms;
    recording->each_host.stop_timeout_ms = asked->info.stop_timeout_ms;
    recording->each_host.ring_bytes = (uint64_t)asked->info.smallest_buffer_kb * 1024;
    recording->each_host.is_streamed = asked->file_request.is_requested;
    recording->duration_ms = asked->info.duration_ms;
    if (!asked->file_request.is_requested)
        return;
    run->stop_bytes = run->conf.max_bytes / 4 * 3;
    if (wished != 0 && wished < run->stop_bytes)
        run->stop_bytes = wished;
}

int pfl_fleet_run_record(const struct pfl_fleet_run_conf *conf, struct pfl_span request,
                         char *ret_why, struct pfl_fleet_run **ret_run)
{
    struct pfl_fleet_run *run = make_run(conf);
    struct pfl_recording_conf recording = *conf->recording;
    struct asked asked = {0};
    struct pfl_buf room;
    int rc;

    if (run == NULL)
        return PFL_ENOMEM;
    pfl_buf_init(&room, PFL_CONFIG_MAX_BYTES);
    rc = take_config(run, request, &room, &asked, ret_why);
    pfl_buf_fini(&room);
    if (rc == 0) {
        fill_recording(run, &asked, &recording);
        rc = start(run, &recording, ret_why);
    }
    return finish_new(run, rc, ret_why, ret_run);
}

/* False: there is none, or it is none that a session can have. */
static bool read_session_name(struct pfl_span request, char ret_name[SESSION_NAME_BYTES])
{
    struct pfl_reader r = pfl_reader_of(request);
    struct pfl_field f;
    size_t len = 0;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != CLONE_SESSION_REQUEST__UNIQUE_SESSION_NAME || f.type != PFL_WIRE_BYTES)
            continue;
        len = f.bytes.len;
        if (len < SESSION_NAME_BYTES && memchr(f.bytes.data, 0, len) == NULL)
            memcpy(ret_name, f.bytes.data, len);
        else
            return false;
        ret_name[len] = '\0';
    }
    return len != 0 && !r.failed;
}

int pfl_fleet_run_clone(const struct pfl_fleet_run_conf *conf, struct pfl_span request,
                        char *ret_why, struct pfl_fleet_run **ret_run)
{
    struct pfl_fleet_run *run = make_run(conf);
    struct pfl_recording_conf recording = *conf->recording;
    int rc = PFL_EINVAL;

    if (run == NULL)
        return PFL_ENOMEM;
    recording.each_host.task = PFL_HOST_TASK_SNAPSHOT;
    recording.each_host.session = run->session;
    recording.each_host.flush_timeout_ms = DEFAULT_TIMEOUT_MS;
    recording.each_host.stop_timeout_ms = DEFAULT_TIMEOUT_MS;
    if (read_session_name(request, run->session))
        rc = start(run, &recording, ret_why);
    else
        (void)snprintf(ret_why, PFL_FLEET_WHY_BYTES,
                       "give the session's unique_session_name: of all hosts, no other can be "
                       "copied");
    return finish_new(run, rc, ret_why, ret_run);
}

/* ---- while it runs ---- */

void pfl_fleet_run_stop(struct pfl_fleet_run *self)
{
    if (!self->is_over)
        pfl_recording_stop(self->recording);
}

void pfl_fleet_run_abort(struct pfl_fleet_run *self)
{
    if (!self->is_over)
        pfl_recording_abort(self->recording, "the page gave it up");
}

void pfl_fleet_run_measure(struct pfl_fleet_run *self, uint64_t *ret_bytes, uint64_t *ret_size)
{
    uint64_t bytes = 0;
    uint64_t size = 0;

    if (!self->is_over && self->stop_bytes == 0)
        pfl_recording_ask_losses(self->recording);
    for (size_t i = 0; self->stop_bytes == 0 && i < pfl_recording_get_hosts_len(self->recording);
         i++) {
        struct pfl_recording_host h;

        pfl_recording_get_host(self->recording, i, &h);
        if (!h.report->has_losses)
            continue;
        bytes += h.report->losses.bytes_unread;
        size += h.report->losses.buffer_bytes;
    }
    if (size == 0) { /* not known yet, or it is the file that fills */
        bytes = pfl_recording_get_file_bytes(self->recording);
        size = self->stop_bytes != 0 ? self->stop_bytes : self->conf.max_bytes;
    }
    *ret_bytes = bytes;
    *ret_size = size;
}

const char *pfl_fleet_run_get_why(const struct pfl_fleet_run *self)
{
    return self->why;
}

const char *pfl_fleet_run_get_missing(const struct pfl_fleet_run *self)
{
    return self->missing_text;
}

int pfl_fleet_run_take_note(const struct pfl_fleet_run *self, struct pfl_buf *out)
{
    if (self->missing_text[0] == '\0')
        return 0;
    for (size_t i = 0; i < pfl_recording_get_hosts_len(self->recording); i++) {
        struct pfl_recording_host h;

        pfl_recording_get_host(self->recording, i, &h);
        if (h.is_reference && h.merged.started_ns != 0)
            return pfl_fleet_note_append(h.merged.started_ns, self->missing_text, out);
    }
    return 0; /* no time to put it at */
}

int pfl_fleet_run_take_file(struct pfl_fleet_run *self)
{
    return pfl_unnamed_file_take(&self->file);
}
