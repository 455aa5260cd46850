/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that end in one trace file. Happy path: run the recording on a loop with progress, then
 * summary and exit code. Ctrl-C (and SIGTERM) once: stop and read; twice: give up.
 * Failures are told by the recording and become lines of the summary.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/progress.h"
#include "consumer/cmd/run_recording.h"
#include "consumer/report/summary.h"

#define SUMMARY_MAX_BYTES (4u << 20)

struct record {
    const struct pfl_args *args;
    const char *session; /* NULL: no name */
    uv_loop_t *loop;
    uv_signal_t signals[2];
    struct pfl_progress progress;
    struct pfl_recording *recording;
    unsigned interrupts;
    unsigned open; /* signal handles */
    bool is_over;
    uint64_t began_ns; /* of the run */
    uint64_t ended_ns;
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct record *rec = handle->data;

    (void)number;
    if (rec->recording == NULL)
        return;
    if (rec->interrupts++ == 0 && pfl_recording_get_phase(rec->recording) == PFL_RECORDING_RUN)
        pfl_recording_stop(rec->recording);
    else
        pfl_recording_abort(rec->recording, "interrupted");
}

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_link *link)
{
    struct record *rec = user;
    enum pfl_recording_phase phase = pfl_recording_get_phase(recording);

    if (link == NULL && phase == PFL_RECORDING_RUN)
        rec->began_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    if (link == NULL && phase == PFL_RECORDING_STOP)
        rec->ended_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    pfl_progress_update(&rec->progress, recording, link);
}

static void on_signal_closed(uv_handle_t *handle)
{
    ((struct record *)handle->data)->open--;
}

static void on_over(void *user)
{
    struct record *rec = user;

    rec->is_over = true;
    pfl_progress_close(&rec->progress);
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&rec->signals[i], on_signal_closed);
}

static void watch_signals(struct record *rec)
{
    static const int numbers[2] = {SIGINT, SIGTERM};

    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(rec->loop, &rec->signals[i]);
        rec->signals[i].data = rec;
        rec->open++;
        uv_signal_start(&rec->signals[i], on_signal, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
}

static void summarize_host(const struct record *rec, size_t host, struct pfl_summary_host *ret_host)
{
    bool is_left_running = rec->args->output == NULL;
    struct pfl_recording_host h;

    pfl_recording_get_host(rec->recording, host, &h);
    *ret_host = (struct pfl_summary_host){
        .name = h.report->name,
        .address = h.spec->text,
        .why = h.report->why,
        .is_merged = h.is_merged || (is_left_running && h.state == PFL_LINK_DONE),
        .trigger = h.report->trigger,
        .is_reference = h.is_reference,
        .packets = h.merged.packets,
        .bytes = h.merged.bytes,
        .sequences = h.merged.sequences,
        .resumes = h.report->resumes,
        .read_seconds = h.report->read_ended_ns > h.report->read_began_ns
                            ? (double)(h.report->read_ended_ns - h.report->read_began_ns) / 1e9
                            : 0,
        .loss_marks = h.merged.loss_marks,
        .refused_packets = h.merged.refused_packets,
        .has_losses = h.report->has_losses,
        .losses = h.report->losses,
        .has_offset = h.has_offset,
        .offset_ns = h.offset_ns,
        .drift_ns = h.drift_ns,
        .error_ns = h.error_ns,
    };
}

static int print_summary(const struct record *rec, const struct pfl_summary *summary)
{
    struct pfl_buf out;
    const char *path = rec->args->output;
    FILE *stream = path != NULL && strcmp(path, "-") == 0 ? stderr : stdout;
    int rc;

    pfl_buf_init(&out, SUMMARY_MAX_BYTES);
    rc = rec->args->is_json ? pfl_summary_json(summary, &out) : pfl_summary_text(summary, &out);
    if (rc == 0)
        fwrite(out.data + out.start, 1, out.len, stream);
    fflush(stream);
    pfl_buf_fini(&out);
    return (int)pfl_summary_exit(summary);
}

static int summarize(const struct record *rec)
{
    const struct pfl_recording *r = rec->recording;
    size_t len = pfl_recording_get_hosts_len(r);
    struct pfl_summary_host *hosts = pfl_mem_calloc(len, sizeof(*hosts));
    struct pfl_summary summary = {
        .hosts = hosts,
        .hosts_len = hosts != NULL ? len : 0,
        .path = rec->args->output,
        .session = rec->session,
        .is_ring = rec->session != NULL,
        .file_bytes = pfl_recording_get_file_bytes(r),
        .why = pfl_recording_get_why(r),
        .is_aborted = pfl_recording_is_aborted(r),
        .has_file_failed = pfl_recording_has_file_failed(r),
        .seconds = rec->ended_ns > rec->began_ns && rec->began_ns != 0
                       ? (double)(rec->ended_ns - rec->began_ns) / 1e9
                       : 0,
    };
    int code;

    for (size_t i = 0; i < summary.hosts_len; i++)
        summarize_host(rec, i, &hosts[i]);
    summary.has_skew = summary.path != NULL ? pfl_recording_get_skew(r, &summary.skew_ns)
                                            : pfl_recording_get_skew_bound(r, &summary.skew_ns);
    code = print_summary(rec, &summary);
    pfl_mem_free(hosts);
    return code;
}

static int run(const struct pfl_args *args, const struct pfl_recording_conf *conf)
{
    struct record rec = {.args = args, .session = conf->link.session, .loop = conf->link.conn.loop};
    struct pfl_recording_conf own = *conf;
    int code = PFL_EXIT_NOTHING;

    own.on_progress = on_progress;
    own.on_over = on_over;
    own.user = &rec;
    pfl_progress_open(&rec.progress, conf, args->is_quiet);
    watch_signals(&rec);
    if (pfl_recording_new(&own, &rec.recording) != 0)
        on_over(&rec);
    while (!rec.is_over)
        uv_run(rec.loop, UV_RUN_ONCE);
    /* The handles on this stack close before it goes. */
    while (rec.open > 0 || !pfl_progress_is_closed(&rec.progress))
        uv_run(rec.loop, UV_RUN_ONCE);
    if (rec.recording != NULL)
        code = summarize(&rec);
    else
        pfl_cmd_error("out of memory");
    pfl_recording_free(rec.recording);
    return code;
}

int pfl_cmd_run_recording(struct pfl_args *args, const struct pfl_recording_conf *conf)
{
    struct pfl_targets *targets = &args->targets;
    struct pfl_recording_conf own = *conf;
    uv_loop_t loop;
    int code = PFL_EXIT_USAGE;

    if (!pfl_targets_open(targets, &loop))
        return code;
    own.quorum = pfl_args_quorum(args, targets->specs_len);
    own.specs = targets->specs;
    own.specs_len = targets->specs_len;
    own.output_path = args->output;
    own.link.step_timeout_ms = targets->timeout_ms;
    own.link.has_read_limit = args->has_max_host_mib;
    own.link.read_limit_bytes = (uint64_t)args->max_host_mib << 20;
    pfl_targets_fill_conn(targets, &own.link.conn);
    if (own.quorum > targets->specs_len)
        pfl_cmd_error("--quorum %zu of %zu hosts cannot be met", own.quorum, targets->specs_len);
    else
        code = run(args, &own);
    pfl_targets_close(targets);
    return code;
}
