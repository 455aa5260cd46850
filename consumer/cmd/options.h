/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of all options: the help, the tables for getopt and the messages about a wrong option
 * are made from it. Static; nothing fails.
 */
#ifndef PFL_CONSUMER_OPTIONS_H
#define PFL_CONSUMER_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

#include "consumer/cmd/args.h"

/* What getopt returns for an option without a letter. */
enum pfl_option {
    OPT_PRESET = 256,
    OPT_HOST,
    OPT_RELAY,
    OPT_SELECT,
    OPT_QUORUM,
    OPT_TIMEOUT,
    OPT_MAX_HOST_MIB,
    OPT_WAIT,
    OPT_STREAM,
    OPT_NO_STREAM,
    OPT_ROTATE_TIME,
    OPT_ROTATE_SIZE,
    OPT_ROTATE_KEEP,
    OPT_KEEP_FREE_MIB,
    OPT_NO_CLOBBER,
    OPT_KEEP,
    OPT_CA,
    OPT_CRL,
    OPT_CERT,
    OPT_KEY,
    OPT_JSON,
    OPT_SOCKET,
    OPT_UI,
    OPT_UI_PORT,
    OPT_UI_ORIGIN,
    OPT_COLUMNS,
    OPT_PROBLEMS,
    OPT_WATCH,
    OPT_COLOR,
    OPT_OLDER_THAN,
    OPT_COLLECTOR,
    OPT_SINCE,
    OPT_UNTIL,
    OPT_AT,
    OPT_WINDOW,
    OPT_ORDER,
    OPT_TRIGGER,
    OPT_DATA_SOURCE,
    OPT_LOSSY,
    OPT_WHOLE,
    OPT_URL,
    OPT_TAR,
    OPT_REASON,
    OPT_KEEP_FOR,
    OPT_PORT,
    OPT_BIGTRACE_ORIGIN,
    OPT_BEHIND_PROXY,
    OPT_PROXY_USER,
    OPT_ORIGIN,
    OPT_OPEN,
    OPT_UI_DIR,
    OPT_UI_URL,
    OPT_NO_BROWSER,
    OPT_SERVE_FOR,
    OPT_LIVE,
    OPT_SESSION,
    OPT_EVERY,
    OPT_READY,
    OPT_SUMMARY,
    OPT_TRACE_PROCESSOR,
    OPT_SANDBOX,
    OPT_CSV,
    OPT_JOBS,
    OPT_MAX_MIB,
    OPT_MAX_TIME,
    OPT_QUIET,
};

#define PFL_OPTIONS_MAX 96u /* rows of the table */

struct pfl_options_getopt {
    struct option options[PFL_OPTIONS_MAX + 1];
    char letters[2 * PFL_OPTIONS_MAX + 2];
};

/* The command's options, for getopt_long. */
void pfl_options_make_getopt(const struct pfl_command *command,
                             struct pfl_options_getopt *ret_getopt);
/* The command's --help, on standard output. */
void pfl_options_print_help(const struct pfl_command *command);
/* One option a line, for shell completion. */
void pfl_options_print_names(const struct pfl_command *command);
/* Finds the command's option in `word`: --NAME, --NAME=VALUE or -N. `ret_arg` = the name of its
 * value, NULL: it takes none. False: no such option. */
bool pfl_options_find(const struct pfl_command *command, const char *word, const char **ret_name,
                      const char **ret_arg);
/* Reports an argument that getopt rejects, on stderr: `word` contains it, `why` is what getopt
 * returned, optopt is the option, 0 for an unknown long one. */
void pfl_options_refuse(const struct pfl_command *command, int why, const char *word);

#endif
