/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a recording for the operator: progress, Ctrl-C, summary, exit code. */
#ifndef PFL_CONSUMER_RUN_RECORDING_H
#define PFL_CONSUMER_RUN_RECORDING_H

#include "consumer/cmd/args.h"
#include "consumer/recording/recording.h"

/* `conf` without hosts, output, quorum, on_progress, on_over and user: these are in `args`. Finds
 * the hosts, runs until the recording is over. Returns the exit code. */
int pfl_cmd_run_recording(struct pfl_args *args, const struct pfl_recording_conf *conf);

#endif
