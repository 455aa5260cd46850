/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that end in one trace file, and `start`, which ends in none. Happy path: what to do
 * with which session, then the recording. Failures before it are usage errors (exit 2) with the
 * place and the remedy.
 */
#include <string.h>

#include "consumer/cmd/cmd.h"
#include "consumer/cmd/run_recording.h"
#include "consumer/report/summary.h"

#define DEFAULT_TIMEOUT_MS 5000u /* the protocol's, for flushing and stopping */
#define SESSION_NAME_MAX   128u

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

static int run_config(struct pfl_args *args, enum pfl_link_task task, const char *session)
{
    struct pfl_recording_conf conf = {.link = {.task = task, .session = session}};
    struct pfl_config_info info;
    struct pfl_buf config;
    int code = PFL_EXIT_USAGE;

    pfl_buf_init(&config, PFL_CONFIG_MAX_BYTES);
    if (pfl_cmd_load_config(args, session, &config, &info)) {
        conf.link.trace_config = pfl_buf_get(&config);
        conf.link.flush_timeout_ms = info.flush_timeout_ms;
        conf.link.stop_timeout_ms = info.stop_timeout_ms;
        conf.duration_ms = info.duration_ms;
        code = pfl_cmd_run_recording(args, &conf);
    }
    pfl_buf_fini(&config);
    return code;
}

int pfl_cmd_record(struct pfl_args *args)
{
    return has_output(args) ? run_config(args, PFL_LINK_RECORD, NULL) : PFL_EXIT_USAGE;
}

int pfl_cmd_start(struct pfl_args *args)
{
    return pfl_cmd_is_session_name(args->words[0])
               ? run_config(args, PFL_LINK_START, args->words[0])
               : PFL_EXIT_USAGE;
}

static int run_session(struct pfl_args *args, enum pfl_link_task task)
{
    struct pfl_recording_conf conf = {
        .link = {.task = task,
                 .session = args->words_len > 0 ? args->words[0] : "",
                 .flush_timeout_ms = DEFAULT_TIMEOUT_MS,
                 .stop_timeout_ms = DEFAULT_TIMEOUT_MS},
    };

    if (!has_output(args) || (args->words_len > 0 && !pfl_cmd_is_session_name(args->words[0])))
        return PFL_EXIT_USAGE;
    return pfl_cmd_run_recording(args, &conf);
}

int pfl_cmd_read(struct pfl_args *args)
{
    return run_session(args, PFL_LINK_READ);
}

int pfl_cmd_snapshot(struct pfl_args *args)
{
    return run_session(args, PFL_LINK_SNAPSHOT);
}

int pfl_cmd_trigger(struct pfl_args *args)
{
    return run_session(args, PFL_LINK_WATCH);
}
