/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet record`. Happy path: config, hosts, then the recording. Failures before it are usage
 * errors (exit 2) with the place and the remedy.
 */
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/run_recording.h"
#include "consumer/report/summary.h"

/* What the recording needs of the hosts that are found. */
static int record(struct pfl_args *args, struct pfl_span config, const struct pfl_config_info *info)
{
    struct pfl_targets *targets = &args->targets;
    struct pfl_recording_conf conf = {
        .link = {.trace_config = config,
                 .flush_timeout_ms = info->flush_timeout_ms,
                 .stop_timeout_ms = info->stop_timeout_ms,
                 .step_timeout_ms = targets->timeout_ms},
        .output_path = args->output,
        .duration_ms = info->duration_ms,
    };
    uv_loop_t loop;
    int code = PFL_EXIT_USAGE;

    if (!pfl_targets_open(targets, &loop))
        return code;
    conf.quorum = pfl_args_quorum(args, targets->specs_len);
    conf.specs = targets->specs;
    conf.specs_len = targets->specs_len;
    pfl_targets_fill_conn(targets, &conf.link.conn);
    if (conf.quorum > targets->specs_len)
        pfl_cmd_error("--quorum %zu of %zu hosts cannot be met", conf.quorum, targets->specs_len);
    else
        code = pfl_cmd_run_recording(args, &conf);
    pfl_targets_close(targets);
    return code;
}

int pfl_cmd_record(struct pfl_args *args)
{
    struct pfl_config_info info;
    struct pfl_buf config;
    int code = PFL_EXIT_USAGE;

    pfl_buf_init(&config, PFL_CONFIG_MAX_BYTES);
    if (args->output == NULL)
        pfl_cmd_error("give the trace file: -o fleet.pftrace");
    else if (pfl_cmd_load_config(args, &config, &info))
        code = record(args, pfl_buf_get(&config), &info);
    pfl_buf_fini(&config);
    return code;
}
