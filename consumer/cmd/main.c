/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet`: the table of commands; finds the one that is named and runs it. Failures: an unknown
 * command ends with exit 2 and the list of commands on stderr.
 */
#include <stdio.h>
#include <string.h>

#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"

#define ANSWER_EXITS "0 all hosts answered, 1 none, 2 usage, 4 some did not"
#define TRACE_EXITS                                                                                \
    "0 complete, 1 nothing recorded,\n2 usage, 3 data was lost, 4 a host is missing or cut "       \
    "short, 5 the file could not be written,\n130 given up"

static const struct pfl_command commands[] = {
    {"record", "record many hosts into one trace file",
     "(-c FILE | --preset NAME) -o FILE --host HOST [--host HOST ...]",
     "Records all hosts at the same time into one trace file. Ctrl-C stops and reads, a second "
     "one\n"
     "gives up.",
     TRACE_EXITS,
     PFL_OPTIONS_HOSTS | PFL_OPTIONS_JSON | PFL_OPTIONS_CONFIG | PFL_OPTIONS_OUTPUT |
         PFL_OPTIONS_DURATION | PFL_OPTIONS_QUORUM | PFL_OPTIONS_QUIET,
     0, 0, pfl_cmd_record},
    {"hosts", "who answers, with which version and how many producers",
     "--host HOST [--host HOST ...] [--json]",
     "One line for each host: who answers there, and how busy it is.", ANSWER_EXITS,
     PFL_OPTIONS_HOSTS | PFL_OPTIONS_JSON, 0, 0, pfl_cmd_hosts},
    {"query", "sessions, producers and data sources of hosts",
     "--host HOST [--host HOST ...] [--json]",
     "The sessions, producers and data sources of each host.", ANSWER_EXITS,
     PFL_OPTIONS_HOSTS | PFL_OPTIONS_JSON, 0, 0, pfl_cmd_query},
    {"presets", "the ready-made trace configs", "[NAME]",
     "Lists the ready-made configs, or prints the one called NAME.", "0, 2 there is none of it", 0,
     0, 1, pfl_cmd_presets},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *stream)
{
    fputs("Usage: perfleet COMMAND [OPTIONS]\n\n"
          "Traces a fleet of Linux hosts as if it were one machine.\n\n",
          stream);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stream, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    fputs("\n'perfleet COMMAND --help' tells more. 'perfleet --version' tells the version.\n",
          stream);
}

int main(int argc, char **argv)
{
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_usage(stdout);
        return PFL_EXIT_OK;
    }
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        puts("perfleet " PFL_VERSION);
        return PFL_EXIT_OK;
    }
    for (size_t i = 0; argc >= 2 && i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return pfl_args_run(&commands[i], argc - 1, argv + 1);
    if (argc >= 2)
        fprintf(stderr, "perfleet: there is no command %s\n\n", argv[1]);
    print_usage(stderr);
    return PFL_EXIT_USAGE;
}
