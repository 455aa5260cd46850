/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of `perfleet`, and small things that they share. Each returns the exit code. */
#ifndef PFL_CONSUMER_CMD_H
#define PFL_CONSUMER_CMD_H

#include <stdio.h>

#include "base/buf.h"
#include "consumer/cmd/args.h"
#include "consumer/cmd/cmd_error.h"
#include "consumer/config/config.h"
#include "consumer/host/fan_out.h"

int pfl_cmd_record(struct pfl_args *args);
int pfl_cmd_hosts(struct pfl_args *args);
int pfl_cmd_query(struct pfl_args *args);
int pfl_cmd_presets(struct pfl_args *args);
int pfl_cmd_start(struct pfl_args *args);
int pfl_cmd_ps(struct pfl_args *args);
int pfl_cmd_stop(struct pfl_args *args);
int pfl_cmd_kill(struct pfl_args *args);
int pfl_cmd_read(struct pfl_args *args);
int pfl_cmd_snapshot(struct pfl_args *args);
int pfl_cmd_trigger(struct pfl_args *args);
int pfl_cmd_arm(struct pfl_args *args);
int pfl_cmd_disarm(struct pfl_args *args);
int pfl_cmd_alarms(struct pfl_args *args);
int pfl_cmd_raise(struct pfl_args *args);
int pfl_cmd_raise_at_relay(struct pfl_args *args);
int pfl_cmd_forget(struct pfl_args *args);
int pfl_cmd_stats(struct pfl_args *args);
int pfl_cmd_tunnel(struct pfl_args *args);
int pfl_cmd_doctor(struct pfl_args *args);
int pfl_cmd_ui(struct pfl_args *args);
int pfl_cmd_traces(struct pfl_args *args);
int pfl_cmd_open(struct pfl_args *args);
int pfl_cmd_order(struct pfl_args *args);
int pfl_cmd_ask_traces(struct pfl_args *args);
int pfl_cmd_config(struct pfl_args *args);
/* Reads its own arguments; argv[0] is "pki". */
int pfl_cmd_pki(int argc, char **argv);
/* Not for people: `ask` starts it; it enters a sandbox and becomes a Trace Processor. */
int pfl_cmd_confined(int argc, char **argv);

/* A command that queries every host and prints one report. */
struct pfl_cmd_question {
    void (*on_ready)(void *user, struct pfl_fan_out_host *host); /* as in pfl_fan_out_conf */
    int (*report)(const struct pfl_fan_out *fan_out, const struct pfl_args *args,
                  struct pfl_buf *out);
    void *user;
};
int pfl_cmd_ask(struct pfl_args *args, const struct pfl_cmd_question *question);

/* Loads the config of -c or --preset, prepared for the hosts; `session`: see pfl_config_overrides.
 * False: reported on stderr. */
bool pfl_cmd_load_config(const struct pfl_args *args, const char *session, struct pfl_buf *out,
                         struct pfl_config_info *ret_info);

/* Writes a report, in colours if enabled. */
void pfl_cmd_print(const struct pfl_args *args, struct pfl_span text, FILE *stream);

/* False: reported on stderr. */
bool pfl_cmd_is_session_name(const char *name);

/* The whole of a file, or of standard input for "-"; at most max_bytes. On failure errno. */
bool pfl_cmd_read_file(const char *path, struct pfl_buf *out);

#endif
