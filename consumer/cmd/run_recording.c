/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that write one trace file. Happy path: run the recording on a loop with progress, then
 * summary and exit code. Ctrl-C (SIGTERM, a closed terminal): pfl_recording_interrupt; if nothing
 * is left to cut short, the signal ends the process as by default. The recording reports failures,
 * which become lines of the summary.
 */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/open_trace.h"
#include "consumer/cmd/progress.h"
#include "consumer/cmd/run_recording.h"
#include "consumer/recording/recording_summary.h"
#include "consumer/recording/source_check.h"

#define KEPT_KEY_MAX_BYTES 128u
#define SUMMARY_MAX_BYTES  (4u << 20)
#define SIGNALS            3u

struct record {
    const struct pfl_args *args;
    const char *session; /* NULL: no name */
    const char *kept_session;
    uv_loop_t *loop;
    uv_signal_t signals[SIGNALS];
    struct pfl_progress progress;
    struct pfl_recording *recording;
    unsigned interrupts;
    unsigned open; /* signal handles */
    bool is_over;
    bool has_no_source;
    struct pfl_span trace_config; /* of a session that is made; else empty */
    char source_why[PFL_SOURCE_CHECK_WHY_BYTES];
    uint64_t began_ns; /* of the run */
    uint64_t ended_ns;
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct record *rec = handle->data;

    /* A terminal that is closed says so twice, by the kernel and by its shell. */
    if (rec->recording == NULL || (number == SIGHUP && rec->interrupts != 0))
        return;
    rec->interrupts++;
    pfl_progress_interrupt(&rec->progress, rec->recording, rec->interrupts);
    if (!pfl_recording_interrupt(rec->recording)) {
        pfl_progress_close(&rec->progress);
        if (!pfl_trace_file_is_direct(rec->args->output))
            pfl_cmd_error("ended while %s was completed: what was written is in it, or in "
                          "%s.partial",
                          rec->args->output, rec->args->output);
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void on_progress(void *user, const struct pfl_recording *recording,
                        const struct pfl_host_recording *host_recording)
{
    struct record *rec = user;
    enum pfl_recording_phase phase = pfl_recording_get_phase(recording);

    if (rec->has_no_source) /* the rest only ends a recording that did not begin */
        return;
    if (host_recording == NULL && phase == PFL_RECORDING_RUN)
        rec->began_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    if (host_recording == NULL && phase == PFL_RECORDING_STOP)
        rec->ended_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
    pfl_progress_update(&rec->progress, recording, host_recording);
}

static void on_warning(void *user, const char *text)
{
    (void)user;
    pfl_cmd_error("warning: %s", text);
}

/* A session that is left running may wait for its producers. */
static const char *why_not_start(void *user, const struct pfl_recording *recording)
{
    struct record *rec = user;
    const struct pfl_source_check_conf conf = {.trace_config = rec->trace_config,
                                               .may_refuse = rec->args->output != NULL,
                                               .on_warning = on_warning};

    rec->has_no_source = !pfl_source_check_passes(recording, &conf, rec->source_why);
    return rec->has_no_source ? rec->source_why : NULL;
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
    for (size_t i = 0; i < SIGNALS; i++)
        uv_close((uv_handle_t *)&rec->signals[i], on_signal_closed);
    if (rec->interrupts != 0)
        signal(SIGHUP, SIG_IGN); /* the second word of a terminal that closes */
}

static bool is_ignored(int number)
{
    struct sigaction old;

    return sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN;
}

static void watch_signals(struct record *rec)
{
    static const int numbers[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_init(rec->loop, &rec->signals[i]);
        rec->signals[i].data = rec;
        rec->open++;
        if (numbers[i] != SIGHUP || !is_ignored(SIGHUP)) /* nohup */
            uv_signal_start(&rec->signals[i], on_signal, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
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
        pfl_cmd_print(rec->args, pfl_buf_get(&out), stream);
    fflush(stream);
    pfl_buf_fini(&out);
    return (int)pfl_summary_exit(summary);
}

/* Of the first and the last file of a rotation. */
struct file_names {
    char first[PATH_MAX];
    char last[PATH_MAX];
};

static void name_files(const struct record *rec, struct file_names *names,
                       struct pfl_summary *summary)
{
    uint32_t first;
    uint32_t last;

    if (!pfl_recording_get_files(rec->recording, &first, &last) ||
        !pfl_trace_files_name(rec->args->output, first, names->first) ||
        !pfl_trace_files_name(rec->args->output, last, names->last))
        return;
    summary->first_file = names->first;
    summary->last_file = names->last;
    summary->files = last - first + 1;
    summary->removed_files = first - 1;
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
        .kept_session = rec->kept_session,
        .has_no_source = rec->has_no_source,
        .seconds = rec->ended_ns > rec->began_ns && rec->began_ns != 0
                       ? (double)(rec->ended_ns - rec->began_ns) / 1e9
                       : 0,
    };
    struct file_names names;
    int code;

    name_files(rec, &names, &summary);
    for (size_t i = 0; i < summary.hosts_len; i++)
        pfl_recording_summarize_host(r, i, &hosts[i]);
    pfl_recording_summarize(r, &summary);
    code = print_summary(rec, &summary);
    pfl_mem_free(hosts);
    return code;
}

static int run(struct pfl_args *args, const struct pfl_recording_conf *conf)
{
    struct record rec = {.args = args,
                         .session = conf->each_host.session,
                         .kept_session = conf->each_host.kept_key,
                         .loop = conf->each_host.conn.loop,
                         .trace_config = conf->each_host.trace_config};
    struct pfl_recording_conf own = *conf;
    int code = PFL_EXIT_NOTHING;

    own.why_not_start = conf->each_host.trace_config.len != 0 ? why_not_start : NULL;
    own.on_progress = on_progress;
    own.on_over = on_over;
    own.user = &rec;
    pfl_progress_open(&rec.progress, conf, args->is_quiet);
    watch_signals(&rec);
    if (pfl_recording_new(&own, &rec.recording) != 0)
        on_over(&rec);
    else
        pfl_progress_begin(&rec.progress, rec.recording);
    while (!rec.is_over)
        uv_run(rec.loop, UV_RUN_ONCE);
    /* The handles on this stack close before it goes. */
    while (rec.open > 0 || !pfl_progress_is_closed(&rec.progress))
        uv_run(rec.loop, UV_RUN_ONCE);
    if (rec.recording != NULL) {
        code = summarize(&rec);
        args->has_trace = pfl_recording_get_partial(rec.recording) == NULL &&
                          !pfl_recording_has_file_failed(rec.recording) &&
                          pfl_recording_get_file_bytes(rec.recording) != 0;
    } else {
        pfl_cmd_error("out of memory");
    }
    pfl_recording_free(rec.recording);
    return code;
}

/* Said before anything is connected; it is looked at again when the file is made. */
static bool is_in_the_way(const struct pfl_args *args)
{
    const char *path = args->output;
    char first[PATH_MAX];
    struct stat st;

    if (path != NULL && pfl_args_has_rotation(args) && pfl_trace_files_name(path, 1, first))
        path = first;
    if (!args->no_clobber || path == NULL || pfl_trace_file_is_direct(path) ||
        lstat(path, &st) != 0)
        return false;
    pfl_cmd_error("%s is there already, and --no-clobber was given: choose another -o", path);
    return true;
}

/* Of what cannot be written: no two of them on one host. */
static void name_kept_key(char ret_key[KEPT_KEY_MAX_BYTES], const char *session)
{
    time_t now = time(NULL);
    struct tm tm;
    char when[32] = "";

    if (localtime_r(&now, &tm) != NULL)
        (void)strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    snprintf(ret_key, KEPT_KEY_MAX_BYTES, "%.60s-%s-%d.kept",
             session != NULL && session[0] != '\0' ? session : "record", when, (int)getpid());
}

int pfl_cmd_run_recording(struct pfl_args *args, const struct pfl_recording_conf *conf)
{
    struct pfl_targets *targets = &args->targets;
    struct pfl_recording_conf own = *conf;
    uv_loop_t loop;
    char kept_key[KEPT_KEY_MAX_BYTES];
    int code;

    if (!pfl_open_trace_is_usable(args))
        return PFL_EXIT_USAGE;
    code = is_in_the_way(args) ? PFL_EXIT_FILE : pfl_targets_open(targets, &loop);
    if (code != PFL_EXIT_OK)
        return code;
    name_kept_key(kept_key, conf->each_host.session);
    own.each_host.kept_key = kept_key;
    own.no_clobber = args->no_clobber;
    own.has_wait = args->wait_ms != 0;
    own.wait_ms = args->wait_ms;
    own.quorum = pfl_args_quorum(args, targets->specs_len);
    own.specs = targets->specs;
    own.specs_len = targets->specs_len;
    own.output_path = args->output;
    own.each_host.step_timeout_ms = targets->timeout_ms;
    own.each_host.has_read_limit = args->has_max_host_mib;
    own.each_host.read_limit_bytes = (uint64_t)args->max_host_mib << 20;
    pfl_targets_fill_conn(targets, &own.each_host.conn);
    if (own.quorum > targets->specs_len)
        pfl_cmd_error("--quorum %zu of %zu hosts cannot be met", own.quorum, targets->specs_len);
    code = PFL_EXIT_USAGE;
    if (own.quorum <= targets->specs_len)
        code = run(args, &own);
    pfl_targets_close(targets);
    /* The recording's own exit code stays: the file is there. */
    if (args->open.is_wanted && args->has_trace)
        (void)pfl_open_trace(args, &args->output, 1, 0);
    return code;
}
