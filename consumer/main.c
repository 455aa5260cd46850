/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet`: finds the command and runs it. Failures: an unknown command ends with exit 2 and the
 * list of commands on stderr.
 */
#include <stdio.h>
#include <string.h>

#include "consumer/cmd.h"
#include "consumer/summary.h"

static const struct command {
    const char *name;
    const char *words;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"record", "record many hosts into one trace file", pfl_cmd_record},
    {"hosts", "who answers, with which version and how many producers", pfl_cmd_hosts},
    {"query", "sessions, producers and data sources of hosts", pfl_cmd_query},
    {"presets", "the ready-made trace configs", pfl_cmd_presets},
};

static void print_usage(FILE *stream)
{
    fputs("Usage: perfleet COMMAND [OPTIONS]\n\n"
          "Traces a fleet of Linux hosts as if it were one machine.\n\n",
          stream);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(stream, "  %-8s  %s\n", commands[i].name, commands[i].words);
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
    for (size_t i = 0; argc >= 2 && i < sizeof(commands) / sizeof(commands[0]); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (argc >= 2)
        fprintf(stderr, "perfleet: there is no command %s\n\n", argv[1]);
    print_usage(stderr);
    return PFL_EXIT_USAGE;
}
