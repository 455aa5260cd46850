/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet record`. Happy path: options, config, certificates; run the recording on a loop;
 * summary and exit code. Ctrl-C (and SIGTERM) once: stop and read; twice: give up.
 * Failures before the recording are usage errors (exit 2) with the place and the remedy.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "consumer/cmd.h"
#include "consumer/config.h"
#include "consumer/preset.h"
#include "consumer/progress.h"
#include "consumer/summary.h"

#define SUMMARY_MAX_BYTES (4u << 20)

static const char usage[] =
    "Usage: perfleet record (-c FILE | --preset NAME) -o FILE --host HOST [--host HOST ...]\n"
    "\n"
    "Records all hosts at the same time into one trace file.\n"
    "\n"
    "  -c, --config FILE    trace config, text (.pbtx) or binary; - reads standard input\n"
    "      --preset NAME    a ready-made config: see perfleet presets\n"
    "  -o, --output FILE    the trace file; - writes standard output\n"
    "      --host HOST      [NAME=]tls://ADDRESS:PORT, [NAME=]unix:PATH or [NAME=]local\n"
    "      --duration TIME  overrides the config's duration_ms: 10s, 500ms, 5m\n"
    "      --quorum N       start only when N hosts are ready (default 1)\n"
    "      --timeout TIME   how long to wait for each step of a host (default 10s)\n"
    "      --ca FILE, --cert FILE, --key FILE\n"
    "                       the fleet's CA, your certificate and its key\n"
    "                       (default: ca.pem, cert.pem, key.pem in ~/.config/perfleet)\n"
    "      --json           the summary as JSON\n"
    "  -q, --quiet          no progress\n"
    "  -h, --help           this text\n"
    "\n"
    "Ctrl-C stops and reads, a second one gives up. Exit codes: 0 complete, 1 nothing recorded,\n"
    "2 usage, 3 data was lost, 4 a host is missing or cut short, 5 the file could not be written,\n"
    "130 given up.\n";

struct record {
    struct pfl_targets targets;
    const char *config_path;
    const char *preset;
    const char *output;
    uint32_t duration_ms;
    unsigned long quorum;
    bool is_json;
    bool is_quiet;
    struct pfl_buf config; /* as it goes to the hosts */
    struct pfl_config_info info;
    uv_loop_t loop;
    uv_signal_t signals[2];
    struct pfl_progress progress;
    struct pfl_recording *recording;
    unsigned interrupts;
    uint64_t began_ns; /* of the run */
    uint64_t ended_ns;
};

enum {
    OPT_PRESET = 256,
    OPT_HOST,
    OPT_DURATION,
    OPT_QUORUM,
    OPT_TIMEOUT,
    OPT_CA,
    OPT_CERT,
    OPT_KEY,
    OPT_JSON,
};

static const struct option options[] = {
    {"config", required_argument, NULL, 'c'},
    {"output", required_argument, NULL, 'o'},
    {"out", required_argument, NULL, 'o'},
    {"preset", required_argument, NULL, OPT_PRESET},
    {"host", required_argument, NULL, OPT_HOST},
    {"duration", required_argument, NULL, OPT_DURATION},
    {"quorum", required_argument, NULL, OPT_QUORUM},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"ca", required_argument, NULL, OPT_CA},
    {"cert", required_argument, NULL, OPT_CERT},
    {"key", required_argument, NULL, OPT_KEY},
    {"json", no_argument, NULL, OPT_JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static bool take_time(const char *option, const char *arg, uint32_t *ret_ms)
{
    if (pfl_cmd_parse_duration(arg, ret_ms))
        return true;
    pfl_cmd_error("%s %s: give a time such as 10s, 500ms or 5m, at most a week", option, arg);
    return false;
}

static bool take_quorum(struct record *rec, const char *arg)
{
    char *end;

    rec->quorum = strtoul(arg, &end, 10);
    if (*arg >= '0' && *arg <= '9' && *end == '\0' && rec->quorum >= 1)
        return true;
    pfl_cmd_error("--quorum %s: give a number of hosts, 1 or more", arg);
    return false;
}

static bool take_option(struct record *rec, int option, const char *arg)
{
    uint32_t ms = 0;

    switch (option) {
    case 'c':
        rec->config_path = arg;
        return true;
    case 'o':
        rec->output = arg;
        return true;
    case 'q':
        rec->is_quiet = true;
        return true;
    case OPT_PRESET:
        rec->preset = arg;
        return true;
    case OPT_HOST:
        return pfl_targets_add(&rec->targets, arg);
    case OPT_DURATION:
        return take_time("--duration", arg, &rec->duration_ms);
    case OPT_QUORUM:
        return take_quorum(rec, arg);
    case OPT_TIMEOUT:
        if (!take_time("--timeout", arg, &ms))
            return false;
        rec->targets.timeout_ms = ms;
        return true;
    case OPT_CA:
        rec->targets.ca_path = arg;
        return true;
    case OPT_CERT:
        rec->targets.cert_path = arg;
        return true;
    case OPT_KEY:
        rec->targets.key_path = arg;
        return true;
    case OPT_JSON:
        rec->is_json = true;
        return true;
    default:
        return false;
    }
}

static bool check_options(const struct record *rec, int argc, char **argv)
{
    if (optind < argc) {
        pfl_cmd_error("%s: unexpected argument; hosts are given with --host", argv[optind]);
        return false;
    }
    if ((rec->config_path == NULL) == (rec->preset == NULL)) {
        pfl_cmd_error("give either a config (-c FILE) or a preset (--preset default)");
        return false;
    }
    if (rec->output == NULL) {
        pfl_cmd_error("give the trace file: -o fleet.pftrace");
        return false;
    }
    if (rec->quorum > rec->targets.specs_len && rec->targets.specs_len != 0) {
        pfl_cmd_error("--quorum %lu of %zu hosts cannot be met", rec->quorum,
                      rec->targets.specs_len);
        return false;
    }
    return true;
}

static bool read_config(const struct record *rec, struct pfl_buf *file, struct pfl_span *ret_bytes,
                        const char **ret_name)
{
    const struct pfl_preset *preset;

    if (rec->preset == NULL) {
        *ret_name = strcmp(rec->config_path, "-") == 0 ? "standard input" : rec->config_path;
        if (!pfl_cmd_read_file(rec->config_path, file)) {
            pfl_cmd_error("%s: %s", *ret_name, strerror(errno));
            return false;
        }
        *ret_bytes = pfl_buf_get(file);
        return true;
    }
    preset = pfl_preset_find(rec->preset);
    if (preset == NULL) {
        pfl_cmd_error("--preset %s: there is no such preset; see perfleet presets", rec->preset);
        return false;
    }
    *ret_name = preset->name;
    *ret_bytes = pfl_span_of(preset->text, preset->text_len);
    return true;
}

static bool load_config(struct record *rec)
{
    struct pfl_buf file;
    struct pfl_buf parsed;
    struct pfl_span bytes;
    const char *name = "";
    struct pfl_config_why why = {""};
    bool is_read;
    int rc;

    pfl_buf_init(&file, PFL_CONFIG_MAX_BYTES);
    pfl_buf_init(&parsed, PFL_CONFIG_MAX_BYTES);
    is_read = read_config(rec, &file, &bytes, &name);
    if (is_read) {
        rc = pfl_config_read(bytes, name, &parsed, &why);
        if (rc != 0) {
            pfl_cmd_error("%s", why.text[0] != '\0' ? why.text : pfl_err_str(rc));
            is_read = false;
        }
    }
    if (is_read) {
        rc = pfl_config_prepare(pfl_buf_get(&parsed), rec->duration_ms, &rec->config, &rec->info,
                                &why);
        if (rc != 0) {
            pfl_cmd_error("%s: %s", name, why.text[0] != '\0' ? why.text : pfl_err_str(rc));
            is_read = false;
        }
    }
    pfl_buf_fini(&file);
    pfl_buf_fini(&parsed);
    if (is_read && rec->info.was_compressed && !rec->is_quiet)
        pfl_cmd_error("note: the config's compression is left out, packets are merged one by one");
    return is_read;
}

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

static void on_over(void *user)
{
    struct record *rec = user;

    pfl_progress_close(&rec->progress);
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&rec->signals[i], NULL);
}

static void watch_signals(struct record *rec)
{
    static const int numbers[2] = {SIGINT, SIGTERM};

    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(&rec->loop, &rec->signals[i]);
        rec->signals[i].data = rec;
        uv_signal_start(&rec->signals[i], on_signal, numbers[i]);
    }
    signal(SIGPIPE, SIG_IGN);
}

static void summarize_host(const struct pfl_recording *r, size_t host,
                           struct pfl_summary_host *ret_host)
{
    struct pfl_recording_host h;

    pfl_recording_get_host(r, host, &h);
    *ret_host = (struct pfl_summary_host){
        .name = h.report->name,
        .address = h.spec->text,
        .why = h.report->why,
        .is_merged = h.is_merged,
        .is_reference = h.is_reference,
        .packets = h.merged.packets,
        .bytes = h.merged.bytes,
        .sequences = h.merged.sequences,
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
    FILE *stream = strcmp(rec->output, "-") == 0 ? stderr : stdout;
    int rc;

    pfl_buf_init(&out, SUMMARY_MAX_BYTES);
    rc = rec->is_json ? pfl_summary_json(summary, &out) : pfl_summary_text(summary, &out);
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
        .path = rec->output,
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
        summarize_host(r, i, &hosts[i]);
    summary.has_skew = pfl_recording_get_skew(r, &summary.skew_ns);
    code = print_summary(rec, &summary);
    pfl_mem_free(hosts);
    return code;
}

static int run(struct record *rec)
{
    struct pfl_recording_conf conf = {
        .link = {.loop = &rec->loop,
                 .tls = rec->targets.tls,
                 .fleet = rec->targets.fleet[0] != '\0' ? rec->targets.fleet : NULL,
                 .trace_config = pfl_buf_get(&rec->config),
                 .flush_timeout_ms = rec->info.flush_timeout_ms,
                 .stop_timeout_ms = rec->info.stop_timeout_ms,
                 .step_timeout_ms = rec->targets.timeout_ms},
        .specs = rec->targets.specs,
        .specs_len = rec->targets.specs_len,
        .output_path = rec->output,
        .quorum = rec->quorum,
        .duration_ms = rec->info.duration_ms,
        .on_progress = on_progress,
        .on_over = on_over,
        .user = rec,
    };
    int code = PFL_EXIT_NOTHING;

    if (uv_loop_init(&rec->loop) != 0)
        return code;
    pfl_progress_open(&rec->progress, &rec->loop, rec->info.duration_ms, rec->is_quiet);
    watch_signals(rec);
    if (pfl_recording_new(&conf, &rec->recording) != 0)
        on_over(rec);
    uv_run(&rec->loop, UV_RUN_DEFAULT);
    if (rec->recording != NULL)
        code = summarize(rec);
    else
        pfl_cmd_error("out of memory");
    pfl_recording_free(rec->recording);
    uv_loop_close(&rec->loop);
    return code;
}

int pfl_cmd_record(int argc, char **argv)
{
    struct record rec = {.quorum = 1};
    int code = PFL_EXIT_USAGE;
    bool is_good = true;
    int option;

    pfl_targets_init(&rec.targets);
    pfl_buf_init(&rec.config, PFL_CONFIG_MAX_BYTES);
    while (is_good && (option = getopt_long(argc, argv, "c:o:qh", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            code = PFL_EXIT_OK;
            goto done;
        }
        is_good = take_option(&rec, option, optarg);
    }
    if (is_good && check_options(&rec, argc, argv) && load_config(&rec) &&
        pfl_targets_load(&rec.targets))
        code = run(&rec);
    else
        fputs("Try 'perfleet record --help'.\n", stderr);
done:
    pfl_buf_fini(&rec.config);
    pfl_targets_fini(&rec.targets);
    return code;
}
