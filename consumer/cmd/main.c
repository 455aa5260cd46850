/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet`: the table of commands; finds the named one and runs it. Failures: an unknown command
 * ends with exit 2 and the nearest one.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/suggest.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/cmd_complete.h"
#include "consumer/cmd/options.h"
#include "consumer/report/summary.h"

#define ANSWER_EXITS "0 all hosts answered, 1 none, 2 usage, 4 some did not"
#define TRACE_EXITS                                                                                \
    "0 complete, 1 nothing recorded,\n2 usage, 3 data was lost, 4 a host is missing or cut "       \
    "short, 5 the file could not be written,\n6 a host wrote nothing, or no host offers its data " \
    "sources, "                                                                                    \
    "130 aborted"

#define HOSTS "HOSTS"

#define WHAT_TEXT                                                                                  \
    "WHAT is a category of kernel events (sched, freq, idle, irq,\n"                               \
    "disk, ...), an event (sched/sched_switch, irq/*), or a data source (track_event)."

enum {
    ASKS_RELAY = PFL_OPTIONS_HOSTS | PFL_OPTIONS_JSON,
    ASKS = ASKS_RELAY | PFL_OPTIONS_TARGETS,
    ASKS_ALL = ASKS | PFL_OPTIONS_ALL_HOSTS,
    OPENS = PFL_OPTIONS_OPEN | PFL_OPTIONS_THEN_OPEN,
    TRACES = ASKS | PFL_OPTIONS_OUTPUT | PFL_OPTIONS_QUORUM | PFL_OPTIONS_QUIET | OPENS,
    STARTS = ASKS | PFL_OPTIONS_CONFIG | PFL_OPTIONS_QUORUM | PFL_OPTIONS_QUIET,
    RECORDS = TRACES | PFL_OPTIONS_CONFIG | PFL_OPTIONS_DURATION,
};

static const struct pfl_command commands[] = {
    {"record", "record many hosts into one trace file",
     "(-c FILE | --preset NAME | WHAT...) [-o FILE] " HOSTS,
     "Records all hosts at the same time into one trace file. Ctrl-C stops and reads, a second "
     "one\n"
     "ends at once: the file keeps what came. " WHAT_TEXT "\n"
     "Without -o the file is perfleet-DATE-TIME.pftrace in this folder.",
     TRACE_EXITS, RECORDS, 0, PFL_ARGS_MAX_WORDS, pfl_cmd_record},
    {"start", "start a session on many hosts and leave it running",
     "SESSION (-c FILE | --preset NAME | WHAT...) " HOSTS,
     "Starts a session called SESSION on all hosts at the same time and leaves it running "
     "there.\n" WHAT_TEXT "\n"
     "Then: perfleet ps, stats, snapshot, trigger, stop, read, kill.",
     "0 it runs on all hosts, 1 on none, 2 usage, 4 on some", STARTS, 1, PFL_ARGS_MAX_WORDS,
     pfl_cmd_start},
    {"ps", "the sessions of hosts", HOSTS, "The sessions of each host, of all consumers.",
     ANSWER_EXITS, ASKS_ALL, 0, 0, pfl_cmd_ps},
    {"stats", "the counters of a session that was left running", "SESSION " HOSTS,
     "How much is in the buffers of SESSION on each host, and what was lost.", ANSWER_EXITS, ASKS,
     1, 1, pfl_cmd_stats},
    {"snapshot", "copy a running session of many hosts into one trace file",
     "[SESSION] -o FILE " HOSTS,
     "Copies the buffers of SESSION on all hosts at the same moment and reads the copies into one\n"
     "trace file; the session continues. Without SESSION: the one with the highest "
     "bugreport_score.",
     TRACE_EXITS, TRACES, 0, 1, pfl_cmd_snapshot},
    {"trigger", "wait for a trigger on any host, then take a snapshot of all",
     "SESSION -o FILE " HOSTS,
     "Waits until a trigger of SESSION (trigger_mode CLONE_SNAPSHOT) is raised on one of the "
     "hosts,\n"
     "then does what perfleet snapshot does on all of them. Ctrl-C takes the snapshot now.",
     TRACE_EXITS, TRACES, 1, 1, pfl_cmd_trigger},
    {"arm", "have hosts copy a session when a trigger is raised on any of them",
     "SESSION TRIGGER... --relay ADDRESS " HOSTS,
     "Gives the hosts' agents a standing order that works while you are not connected: when one "
     "of\n"
     "the TRIGGERs is raised on one of the hosts, the relay notifies the others, and each copies\n"
     "SESSION. Then: perfleet alarms, perfleet read SESSION.triggered. An order makes one copy.",
     ANSWER_EXITS ",\n6 armed, but there is no such session", ASKS, 2, PFL_ARGS_MAX_WORDS,
     pfl_cmd_arm},
    {"disarm", "cancel an order of perfleet arm", "SESSION --relay ADDRESS " HOSTS,
     "A copy that was made stays: perfleet read or kill SESSION.triggered.", ANSWER_EXITS, ASKS, 1,
     1, pfl_cmd_disarm},
    {"alarms", "your orders and their results", "--relay ADDRESS " HOSTS,
     "One line for each: armed, copied (which trigger, raised where), failed (why).", ANSWER_EXITS,
     ASKS_ALL, 0, 0, pfl_cmd_alarms},
    {"raise", "raise triggers at hosts, or here", "TRIGGER... [" HOSTS "]",
     "Raises the TRIGGERs, for which sessions with a trigger_config and alarms wait: at the "
     "tracing\n"
     "services of HOSTS (--relay; --host local, unix:PATH), or, without HOSTS, of this machine. On "
     "a\n"
     "host, perfleet-trigger TRIGGER... does the same without any other file of perfleet.",
     "0 raised at all hosts, 1 at none, 2 usage, 4 not at some", ASKS, 1, PFL_ARGS_MAX_WORDS,
     pfl_cmd_raise},
    {"stop", "stop a session that was left running", "SESSION " HOSTS,
     "Stops SESSION on all hosts; its data stays there until perfleet read or kill.", ANSWER_EXITS,
     ASKS, 1, 1, pfl_cmd_stop},
    {"read", "stop and read a session that was left running", "SESSION -o FILE " HOSTS,
     "Stops SESSION on all hosts, reads a copy of it into one trace file, and frees it when the "
     "file\nis complete and on the disk. With --keep it stays.",
     TRACE_EXITS, TRACES | PFL_OPTIONS_KEEP, 1, 1, pfl_cmd_read},
    {"kill", "discard a session that was left running", "SESSION " HOSTS,
     "Ends SESSION on all hosts; its data is gone.", ANSWER_EXITS, ASKS, 1, 1, pfl_cmd_kill},
    {"hosts", "hosts that answer, their version and number of producers", HOSTS " [--json]",
     "A table of the hosts that answer and their load; below it their problems, and a sum.",
     ANSWER_EXITS, ASKS_ALL | PFL_OPTIONS_TABLE | PFL_OPTIONS_LEFT_HOSTS, 0, 0, pfl_cmd_hosts},
    {"forget", "remove hosts that left from a relay's list",
     "HOST... | --older-than TIME [--select TERMS] [--relay ADDRESS]",
     "The relay forgets the HOSTs, or all that left it at least TIME ago: perfleet hosts shows "
     "them no\n"
     "more. One that connects again is known again. See perfleet-relay --forget-hosts-after-s, "
     "too.",
     "0 forgotten, 1 none was, 2 usage, 4 some were not",
     ASKS_ALL | PFL_OPTIONS_LEFT_HOSTS | PFL_OPTIONS_AGE, 0, PFL_ARGS_MAX_WORDS, pfl_cmd_forget},
    {"order", "what a collector has hosts record: check, put, list, show, pause, resume, rm",
     "check FILE | put FILE | list | show NAME | pause NAME | resume NAME | rm NAME",
     "An order says what is recorded on which hosts, when, and how it is kept: "
     "perfleet-order(5).\n"
     "check needs no relay. The others ask the collector behind --relay. show prints for each "
     "host\n"
     "whether the order runs there, waits or is refused, and how much is still to be fetched.",
     "0 done, 1 it could not be done, 2 usage, or the order is not valid",
     ASKS_RELAY | PFL_OPTIONS_COLLECTOR, 1, 2, pfl_cmd_order},
    {"traces", "what a collector keeps: list, get, open, pin, unpin, rm, verify, missing",
     "[list | get | open | pin | unpin | rm | verify | missing] [ID...] [OPTIONS]",
     "Lists what the collector behind --relay keeps, of hosts that you may see. IDs or options "
     "select.\n"
     "get merges the selection into one trace file on one timeline (-o FILE), or writes its "
     "segments\n"
     "as they are into a tar (--tar). open does the same with a file that is not kept, and hands "
     "it "
     "to\n"
     "the Perfetto UI, as perfleet open does. pin keeps traces from deletion, rm removes them, "
     "verify\n"
     "has the collector read them again, missing lists for each run which segments are stored and\n"
     "which are not.",
     "0 done, 1 it could not be done, 2 usage, 3 segments are missing, lossy or damaged,\n"
     "4 the file is not complete, 5 it could not be written",
     ASKS_RELAY | PFL_OPTIONS_COLLECTOR | PFL_OPTIONS_TRACES | PFL_OPTIONS_QUIET | OPENS, 0,
     PFL_ARGS_MAX_WORDS, pfl_cmd_traces},
    {"ask", "a question to many traces: PerfettoSQL, trace by trace",
     "(-q SQL | -f FILE | --ready NAME | --summary SPEC) [OPTIONS] [FILE... | ID...]",
     "Asks each trace that the options or IDs select of what the collector behind --relay keeps, "
     "or each\n"
     "FILE, with trace_processor_shell processes in a sandbox. Rows come as they are found, with "
     "host, start\n"
     "and trace in front. -o x.sqlite keeps them with what was asked and of which traces. A trace "
     "that\n"
     "is broken, too large or too slow is named and passed over.",
     "0 all are answered, 1 none, 2 usage, or the question has an error,\n"
     "4 some are not, or segments are missing, 5 the answer could not be written",
     ASKS_RELAY | PFL_OPTIONS_COLLECTOR | PFL_OPTIONS_ASK, 0, SIZE_MAX, pfl_cmd_ask_traces},
    {"query", "sessions, producers and data sources of hosts", HOSTS " [--json]",
     "The sessions, producers and data sources of each host.", ANSWER_EXITS, ASKS_ALL, 0, 0,
     pfl_cmd_query},
    {"doctor", "what could spoil a recording, before it begins", "[-c FILE | --preset NAME] " HOSTS,
     "Checks every host: does it answer, when do certificates expire, how well is its clock "
     "known,\n"
     "does any producer offer the config's data sources, is there room for a session, do versions "
     "differ.",
     "0 all is well, 1 no host answered, 2 usage, 3 warnings, 4 a host would be missing",
     ASKS_ALL | PFL_OPTIONS_CONFIG | PFL_OPTIONS_LEFT_HOSTS, 0, 0, pfl_cmd_doctor},
    {"open", "hand trace files to the Perfetto UI in a browser", "FILE... | --live HOSTS [OPTIONS]",
     "Starts a browser with ui.perfetto.dev, which fetches the FILEs from this program, on\n"
     "127.0.0.1:9001: nothing is uploaded. Over ssh, or without a browser, it prints what to do. "
     "With\n"
     "--ui-dir the UI's own files are served, too, and with --ui-url the traces go to a UI "
     "elsewhere.\n"
     "Each link works once. It ends when the UI has all FILEs.\n"
     "--live copies one host's flight recorder every few seconds (--every) into the same tab of "
     "the\n"
     "UI, until that tab is closed.",
     "0 the UI has all of them, or had a live view, 1 it has not, 2 usage, 130 ended by a signal",
     PFL_OPTIONS_OPEN | PFL_OPTIONS_LIVE | PFL_OPTIONS_HOSTS | PFL_OPTIONS_TARGETS |
         PFL_OPTIONS_JSON | PFL_OPTIONS_QUIET,
     0, PFL_ARGS_MAX_WORDS, pfl_cmd_open},
    {"tunnel", "a local consumer socket for a remote host",
     "HOST --socket PATH | --ui HOST... [--relay ADDRESS]",
     "Listens on PATH as HOST's tracing service would: Perfetto's own perfetto and every other "
     "client\n"
     "of the consumer protocol work on it (PERFETTO_CONSUMER_SOCK_NAME=PATH). A file that the "
     "client\n"
     "wants the service to write (write_into_file) is written here. With --ui: listens on "
     "127.0.0.1:8037 for the recording page of the Perfetto UI,\n"
     "which reaches the first host as ws://127.0.0.1:8037/traced, each as .../traced/HOST, and\n"
     "all at once, into one trace, as ws://127.0.0.1:8037/fleet. Ends with Ctrl-C.",
     "0 ended by a signal, 1 could not listen, 2 usage",
     ASKS | PFL_OPTIONS_SOCKET | PFL_OPTIONS_QUORUM | PFL_OPTIONS_QUIET, 0, PFL_ARGS_MAX_WORDS,
     pfl_cmd_tunnel},
    {"ui", "a page of the hosts, for a browser of this machine",
     "[HOSTS] [--port N | --behind-proxy SOCKET --origin ORIGIN]",
     "Serves pages on 127.0.0.1 and prints a link that gives one browser access, with the rights "
     "of "
     "your\n"
     "certificate: hosts with a search, and for each host its sessions, producers, data sources "
     "and\n"
     "stored traces. Ends with Ctrl-C. See perfleet-ui(1).",
     "0 ended by a signal, 1 could not listen, or the relay does not answer, 2 usage",
     ASKS_ALL | PFL_OPTIONS_COLLECTOR | PFL_OPTIONS_PAGE, 0, 0, pfl_cmd_ui},
    {"config", "settings and their origin", "show [OPTIONS]",
     "Prints what the command line, PERFLEET_* variables, ~/.config/perfleet/perfleet.conf and\n"
     "the system's perfleet.conf say, in this order of precedence, as a settings file would.",
     "0, 2 usage, or a setting is wrong", ASKS, 1, 1, pfl_cmd_config},
    {"presets", "the ready-made trace configs", "[NAME]",
     "Lists the ready-made configs, or prints the one called NAME.", "0, 2 there is none of it",
     PFL_OPTIONS_JSON, 0, 1, pfl_cmd_presets},
    {"pki", "the fleet's certificates: make, renew, revoke; tokens for new hosts",
     "COMMAND DIR [ARGUMENTS]", "The certificate authority in DIR: see perfleet pki --help.",
     "0 done, 1 failed, 2 usage", 0, 0, 0, NULL},
};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_usage(FILE *stream)
{
    fputs("Usage: perfleet COMMAND [OPTIONS]\n\n"
          "Traces a fleet of Linux hosts as if it were one machine.\n\n",
          stream);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(stream, "  %-8s  %s\n", commands[i].name, commands[i].summary);
    fputs("\n'perfleet help COMMAND' prints more, 'perfleet --version' the version.\n", stream);
}

static const struct pfl_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}

static int refuse(const char *name)
{
    struct pfl_suggest suggest;

    pfl_suggest_init(&suggest, name);
    for (size_t i = 0; i < COMMANDS; i++)
        pfl_suggest_offer(&suggest, commands[i].name);
    if (pfl_suggest_get(&suggest) != NULL)
        pfl_cmd_error("there is no command %s; did you mean %s?", pfl_log_quote_str(name),
                      pfl_suggest_get(&suggest));
    else
        pfl_cmd_error("there is no command %s; perfleet --help lists them",
                      pfl_log_quote_str(name));
    return PFL_EXIT_USAGE;
}

/* For the shells' completions (deploy/completion), one word per line: `perfleet complete --
 * WORD...` prints completions of the last word; `perfleet complete [COMMAND]` commands, or a
 * command's options; `perfleet complete @KIND [OPTIONS]` words from a relay and hosts. */
static int complete(int argc, char **argv)
{
    const struct pfl_command *command = argc != 0 ? find(argv[0]) : NULL;

    if (argc != 0 && strcmp(argv[0], "--") == 0)
        pfl_complete_line(commands, COMMANDS, argc - 1, argv + 1);
    else if (!pfl_complete_ask(argc, argv, pfl_span_of(NULL, 0)) && command != NULL)
        pfl_options_print_names(command);
    for (size_t i = 0; argc == 0 && i < COMMANDS; i++)
        puts(commands[i].name);
    return PFL_EXIT_OK;
}

/* `perfleet help [COMMAND]` is `perfleet [COMMAND] --help`. */
static int help(const char *name)
{
    static char option[] = "--help";
    const struct pfl_command *command = name != NULL ? find(name) : NULL;
    char *argv[] = {(char *)name, option, NULL};

    if (name == NULL) {
        print_usage(stdout);
        return PFL_EXIT_OK;
    }
    if (command == NULL)
        return refuse(name);
    return command->run == NULL ? pfl_cmd_pki(2, argv) : pfl_args_run(command, 2, argv);
}

/* Opened files must not get the number of a closed standard stream: messages for the operator would
 * be written there. Writing to a closed one is still an error. */
static void fill_standard_streams(void)
{
    int fd = open("/dev/null", O_RDONLY);

    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd > STDERR_FILENO)
        (void)close(fd);
}

int main(int argc, char **argv)
{
    const struct pfl_command *command = argc >= 2 ? find(argv[1]) : NULL;

    fill_standard_streams();
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return help(NULL);
    if (argc >= 2 && strcmp(argv[1], "help") == 0)
        return help(argv[2]);
    if (argc >= 2 && strcmp(argv[1], "--version") == 0) {
        puts("perfleet " PFL_VERSION);
        return PFL_EXIT_OK;
    }
    if (argc >= 2 && strcmp(argv[1], "complete") == 0)
        return complete(argc - 2, argv + 2);
    if (argc >= 2 && strcmp(argv[1], "confined") == 0)
        return pfl_cmd_confined(argc - 1, argv + 1);
    if (command != NULL && command->run == NULL)
        return pfl_cmd_pki(argc - 1, argv + 1);
    if (command != NULL)
        return pfl_args_run(command, argc - 1, argv + 1);
    if (argc >= 2)
        return refuse(argv[1]);
    print_usage(stderr);
    return PFL_EXIT_USAGE;
}
