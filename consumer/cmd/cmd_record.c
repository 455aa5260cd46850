/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that write one trace file, and `start`, which writes none. Happy path: determine the
 * task and the session, then record. Failures before it are usage errors (exit 2) with the place
 * and the remedy.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "consumer/cmd/cmd.h"
#include "consumer/cmd/run_recording.h"
#include "consumer/report/summary.h"

#define DEFAULT_TIMEOUT_MS 5000u /* the protocol's, for flushing and stopping */
#define SESSION_NAME_MAX   128u
/* In addition to two periods of clearing: for unflushed data, and data in flight. */
#define CHANGE_SLACK_MS 15000u

static bool has_output(const struct pfl_args *args)
{
    if (args->output != NULL)
        return true;
    pfl_cmd_error("give the trace file: -o fleet.pftrace");
    return false;
}

bool pfl_cmd_is_session_name(const char *name)
{
    size_t len = strlen(name);
    bool is_good = len > 0 && len < SESSION_NAME_MAX;

    for (size_t i = 0; is_good && i < len; i++)
        is_good = name[i] > ' ' && name[i] < 0x7f;
    if (!is_good)
        pfl_cmd_error("a session's name has 1 to %u printable characters and no space",
                      SESSION_NAME_MAX - 1);
    return is_good;
}

/*
 * Whether the recording is read while it runs: if requested, or if it is too long for the buffers,
 * unless the config asks for a part of it.
 */
static bool is_to_stream(const struct pfl_args *args, const struct pfl_config_info *info)
{
    bool is_long = pfl_config_is_long(info);
    bool is_wanted = args->is_streamed || pfl_args_has_rotation(args);
    bool is_streamed = is_wanted || (pfl_config_needs_stream(info) && !args->no_stream);

    if (args->is_quiet || is_wanted || args->no_stream || !is_long)
        return is_streamed;
    if (is_streamed)
        fprintf(stderr, "streaming: it is read into the file while it records (--no-stream: at "
                        "the end, as much as the hosts' buffers hold)\n");
    else
        fprintf(stderr,
                "not streaming: the hosts' buffers keep the %s of it (--stream: all of it "
                "into the file)\n",
                info->has_discard ? "first part" : "last part");
    return is_streamed;
}

static void take_rotation(const struct pfl_args *args, const struct pfl_config_info *info,
                          struct pfl_recording_conf *conf)
{
    conf->rotation = (struct pfl_trace_files_rotation){
        .time_ms = args->rotate_ms,
        .bytes = (uint64_t)args->rotate_size_kb * 1024,
        .keep = args->rotate_keep,
    };
    conf->change_ms = 2 * (uint64_t)info->clear_period_ms + CHANGE_SLACK_MS;
    conf->has_keep_free = args->has_keep_free;
    conf->keep_free_bytes = (uint64_t)args->keep_free_mib << 20;
}

static int run_config(struct pfl_args *args, enum pfl_host_task task, const char *session)
{
    struct pfl_recording_conf conf = {.each_host = {.task = task, .session = session}};
    struct pfl_config_info info;
    struct pfl_buf config;
    int code = PFL_EXIT_USAGE;

    pfl_buf_init(&config, PFL_CONFIG_MAX_BYTES);
    if (pfl_cmd_load_config(args, session, &config, &info)) {
        conf.each_host.trace_config = pfl_buf_get(&config);
        conf.each_host.flush_timeout_ms = info.flush_timeout_ms;
        conf.each_host.stop_timeout_ms = info.stop_timeout_ms;
        conf.duration_ms = info.duration_ms;
        conf.each_host.ring_bytes = (uint64_t)info.smallest_buffer_kb * 1024;
        conf.each_host.is_streamed = task == PFL_HOST_TASK_RECORD && is_to_stream(args, &info);
        take_rotation(args, &info, &conf);
        code = pfl_cmd_run_recording(args, &conf);
    }
    pfl_buf_fini(&config);
    return code;
}

/* A name that no earlier recording has. */
static void name_output(struct pfl_args *args)
{
    time_t now = time(NULL);
    struct tm day;

    if (args->output != NULL || localtime_r(&now, &day) == NULL ||
        strftime(args->output_room, sizeof(args->output_room), "perfleet-%Y%m%d-%H%M%S.pftrace",
                 &day) == 0)
        return;
    args->output = args->output_room;
}

/* The words from `first` on are what to record. */
static void take_categories(struct pfl_args *args, size_t first)
{
    args->categories = &args->words[first];
    args->categories_len = args->words_len - first;
}

static bool can_rotate(const struct pfl_args *args)
{
    char name[PATH_MAX];

    if (args->rotate_keep != 0 && !pfl_args_has_rotation(args)) {
        pfl_cmd_error("--rotate-keep: give --rotate-time or --rotate-size with it");
        return false;
    }
    if (!pfl_args_has_rotation(args) || args->output == NULL ||
        (!pfl_trace_file_is_direct(args->output) && pfl_trace_files_name(args->output, 1, name)))
        return true;
    pfl_cmd_error("-o %s: --rotate-time and --rotate-size need the name of a file, which gets "
                  "numbers: -o fleet.pftrace is fleet-0001.pftrace, ...",
                  args->output);
    return false;
}

int pfl_cmd_record(struct pfl_args *args)
{
    if (args->no_stream && (args->is_streamed || pfl_args_has_rotation(args))) {
        pfl_cmd_error("%s and --no-stream: give one of them",
                      args->is_streamed ? "--stream" : "--rotate-time or --rotate-size");
        return PFL_EXIT_USAGE;
    }
    name_output(args);
    if (!can_rotate(args))
        return PFL_EXIT_USAGE;
    take_categories(args, 0);
    return has_output(args) ? run_config(args, PFL_HOST_TASK_RECORD, NULL) : PFL_EXIT_USAGE;
}

int pfl_cmd_start(struct pfl_args *args)
{
    take_categories(args, 1);
    return pfl_cmd_is_session_name(args->words[0])
               ? run_config(args, PFL_HOST_TASK_START, args->words[0])
               : PFL_EXIT_USAGE;
}

static int run_session(struct pfl_args *args, enum pfl_host_task task)
{
    struct pfl_recording_conf conf = {
        .each_host = {.task = task,
                      .session = args->words_len > 0 ? args->words[0] : "",
                      .keeps_session = args->is_kept,
                      .flush_timeout_ms = DEFAULT_TIMEOUT_MS,
                      .stop_timeout_ms = DEFAULT_TIMEOUT_MS},
    };

    if (!has_output(args) || (args->words_len > 0 && !pfl_cmd_is_session_name(args->words[0])))
        return PFL_EXIT_USAGE;
    return pfl_cmd_run_recording(args, &conf);
}

int pfl_cmd_read(struct pfl_args *args)
{
    return run_session(args, PFL_HOST_TASK_READ);
}

int pfl_cmd_snapshot(struct pfl_args *args)
{
    return run_session(args, PFL_HOST_TASK_SNAPSHOT);
}

int pfl_cmd_trigger(struct pfl_args *args)
{
    return run_session(args, PFL_HOST_TASK_WATCH);
}
