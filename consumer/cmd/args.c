/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a command line by the tables below. Happy path: getopt with the options of the command's
 * groups, the words that are left, hosts and certificates, then the command itself.
 * Failures: what is wrong and what would be right, on stderr, then exit 2. Help is made from the
 * same tables and never fails. Ownership: the targets; everything else is borrowed from argv.
 */
#include "consumer/cmd/args.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"

enum {
    OPT_PRESET = 256,
    OPT_HOST,
    OPT_RELAY,
    OPT_SELECT,
    OPT_DURATION,
    OPT_QUORUM,
    OPT_TIMEOUT,
    OPT_MAX_HOST_MIB,
    OPT_CA,
    OPT_CRL,
    OPT_CERT,
    OPT_KEY,
    OPT_JSON,
    OPT_SOCKET,
    OPT_UI,
    OPT_UI_PORT,
    OPT_UI_ORIGIN,
};

struct option_row {
    const char *name;
    const char *arg;  /* NULL: takes none */
    const char *help; /* NULL: another spelling of the row above */
    int id;           /* a letter where the option has one */
    unsigned group;
};

static const struct option_row rows[] = {
    {"config", "FILE", "trace config, text (.pbtx) or binary; - reads standard input", 'c',
     PFL_OPTIONS_CONFIG},
    {"preset", "NAME", "a ready-made config: see perfleet presets", OPT_PRESET, PFL_OPTIONS_CONFIG},
    {"output", "FILE", "the trace file; - writes standard output", 'o', PFL_OPTIONS_OUTPUT},
    {"out", "FILE", NULL, 'o', PFL_OPTIONS_OUTPUT},
    {"host", "HOST",
     "[NAME=]tls://ADDRESS:PORT, unix:PATH, ssh://[USER@]ADDRESS or local; with --relay: NAME",
     OPT_HOST, PFL_OPTIONS_HOSTS},
    {"relay", "ADDRESS", "the relay that the hosts dialled, HOST:PORT (default $PERFLEET_RELAY)",
     OPT_RELAY, PFL_OPTIONS_HOSTS},
    {"select", "TERMS", "the relay's hosts with these labels: role=web,zone!=b; '*' is all",
     OPT_SELECT, PFL_OPTIONS_HOSTS},
    {"duration", "TIME", "overrides the config's duration_ms: 10s, 500ms, 5m", OPT_DURATION,
     PFL_OPTIONS_DURATION},
    {"quorum", "N|P%", "start only when so many hosts are ready (default 1)", OPT_QUORUM,
     PFL_OPTIONS_QUORUM},
    {"timeout", "TIME", "how long to wait for each step of a host (default 10s)", OPT_TIMEOUT,
     PFL_OPTIONS_HOSTS},
    {"max-host-mib", "N",
     "read at most so much of each host; 0: all (default: what its buffers can hold)",
     OPT_MAX_HOST_MIB, PFL_OPTIONS_OUTPUT},
    {"ca", "FILE", "the fleet's CA (default ~/.config/perfleet/ca.pem)", OPT_CA, PFL_OPTIONS_HOSTS},
    {"crl", "FILE", "the fleet's revocation list (default crl.pem there, if it is there)", OPT_CRL,
     PFL_OPTIONS_HOSTS},
    {"cert", "FILE", "your certificate (default cert.pem there)", OPT_CERT, PFL_OPTIONS_HOSTS},
    {"key", "FILE", "its key (default key.pem there)", OPT_KEY, PFL_OPTIONS_HOSTS},
    {"socket", "PATH", "the local socket to listen on; @NAME is abstract", OPT_SOCKET,
     PFL_OPTIONS_SOCKET},
    {"ui", NULL, "the WebSocket that the Perfetto UI's recording page looks for", OPT_UI,
     PFL_OPTIONS_SOCKET},
    {"ui-port", "N", "its port on 127.0.0.1 (default 8037); 0: any", OPT_UI_PORT,
     PFL_OPTIONS_SOCKET},
    {"ui-origin", "ORIGIN", "besides https://ui.perfetto.dev and http://localhost:10000",
     OPT_UI_ORIGIN, PFL_OPTIONS_SOCKET},
    {"json", NULL, "as JSON", OPT_JSON, PFL_OPTIONS_JSON},
    {"quiet", NULL, "no progress", 'q', PFL_OPTIONS_QUIET},
    {"help", NULL, "this text", 'h', ~0u},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool takes(const struct pfl_command *command, const struct option_row *row)
{
    return row->group == ~0u || (command->options & row->group) != 0;
}

static void print_option(const struct option_row *row)
{
    char left[64];
    int len = row->id < 256 ? snprintf(left, sizeof(left), "-%c, --%s", row->id, row->name)
                            : snprintf(left, sizeof(left), "    --%s", row->name);

    if (row->arg != NULL && len > 0 && (size_t)len < sizeof(left))
        snprintf(left + len, sizeof(left) - (size_t)len, " %s", row->arg);
    printf("  %-21s %s\n", left, row->help);
}

static void print_help(const struct pfl_command *command)
{
    printf("Usage: perfleet %s %s\n\n%s\n\n", command->name, command->synopsis, command->text);
    for (size_t i = 0; i < ROWS; i++)
        if (takes(command, &rows[i]) && rows[i].help != NULL)
            print_option(&rows[i]);
    if ((command->options & PFL_OPTIONS_HOSTS) != 0)
        puts("\nHOSTS is --host HOST [--host HOST ...], or --relay ADDRESS with --select TERMS or "
             "--host NAME ...");
    printf("\nExit codes: %s.\n", command->exits);
}

void pfl_args_print_options(const struct pfl_command *command)
{
    for (size_t i = 0; i < ROWS; i++)
        if (takes(command, &rows[i]) && rows[i].help != NULL)
            printf("--%s\n", rows[i].name);
}

static bool take_time(const char *option, const char *arg, uint32_t *ret_ms)
{
    if (pfl_cmd_parse_duration(arg, ret_ms))
        return true;
    pfl_cmd_error("%s %s: give a time such as 10s, 500ms or 5m, at most a week", option, arg);
    return false;
}

static bool take_timeout(struct pfl_targets *targets, const char *arg)
{
    uint32_t ms;

    if (!take_time("--timeout", arg, &ms))
        return false;
    targets->timeout_ms = ms;
    return true;
}

static bool take_quorum(struct pfl_args *args, const char *arg)
{
    char *end;

    args->quorum = strtoul(arg, &end, 10);
    args->is_quorum_percent = strcmp(end, "%") == 0;
    if (*arg >= '0' && *arg <= '9' && args->quorum >= 1 &&
        (args->is_quorum_percent ? args->quorum <= 100 : *end == '\0'))
        return true;
    pfl_cmd_error("--quorum %s: give a number of hosts, 1 or more, or a share such as 90%%", arg);
    return false;
}

static bool take_max_host_mib(struct pfl_args *args, const char *arg)
{
    char *end;
    unsigned long mib = strtoul(arg, &end, 10);

    args->max_host_mib = (uint32_t)mib;
    args->has_max_host_mib = *arg >= '0' && *arg <= '9' && *end == '\0' && mib <= UINT32_MAX;
    if (args->has_max_host_mib)
        return true;
    pfl_cmd_error("--max-host-mib %s: give a number of MiB, or 0 for no limit", arg);
    return false;
}

static bool take_ui_port(struct pfl_args *args, const char *arg)
{
    char *end;
    unsigned long port = strtoul(arg, &end, 10);

    args->ui_port = (uint16_t)port;
    if (*arg >= '0' && *arg <= '9' && *end == '\0' && port <= UINT16_MAX)
        return true;
    pfl_cmd_error("--ui-port %s: give a number, at most 65535", arg);
    return false;
}

static bool take_ui_origin(struct pfl_args *args, const char *arg)
{
    if (!pfl_ui_is_origin(arg)) {
        pfl_cmd_error("--ui-origin %s: give one as browsers send it, https://HOST or "
                      "http://HOST:PORT, in small letters and without a path",
                      arg);
        return false;
    }
    if (args->ui_origins_len == PFL_UI_MAX_ORIGINS) {
        pfl_cmd_error("--ui-origin may be given %u times", PFL_UI_MAX_ORIGINS);
        return false;
    }
    args->ui_origins[args->ui_origins_len++] = arg;
    return true;
}

static bool take_option(struct pfl_args *args, int option, const char *arg)
{
    switch (option) {
    case OPT_HOST:
        return pfl_targets_add(&args->targets, arg);
    case OPT_DURATION:
        return take_time("--duration", arg, &args->duration_ms);
    case OPT_QUORUM:
        return take_quorum(args, arg);
    case OPT_TIMEOUT:
        return take_timeout(&args->targets, arg);
    case OPT_MAX_HOST_MIB:
        return take_max_host_mib(args, arg);
    case OPT_JSON:
        args->is_json = true;
        return true;
    case 'q':
        args->is_quiet = true;
        return true;
    case OPT_UI:
        args->is_ui = true;
        return true;
    case OPT_UI_PORT:
        return take_ui_port(args, arg);
    case OPT_UI_ORIGIN:
        return take_ui_origin(args, arg);
    default:
        return false;
    }
}

/* Options that are nothing but a text. */
static const char **text_of(struct pfl_args *args, int option)
{
    switch (option) {
    case 'c':
        return &args->config_path;
    case 'o':
        return &args->output;
    case OPT_PRESET:
        return &args->preset;
    case OPT_SOCKET:
        return &args->socket_path;
    case OPT_RELAY:
        return &args->targets.relay;
    case OPT_SELECT:
        return &args->targets.selection;
    case OPT_CA:
        return &args->targets.ca_path;
    case OPT_CRL:
        return &args->targets.crl_path;
    case OPT_CERT:
        return &args->targets.cert_path;
    case OPT_KEY:
        return &args->targets.key_path;
    default:
        return NULL;
    }
}

struct getopt_tables {
    struct option options[ROWS + 1];
    char letters[2 * ROWS + 1];
};

static void make_tables(const struct pfl_command *command, struct getopt_tables *ret_tables)
{
    struct getopt_tables tables = {0};
    size_t n = 0;
    size_t letters = 0;

    for (size_t i = 0; i < ROWS; i++) {
        const struct option_row *row = &rows[i];

        if (!takes(command, row))
            continue;
        tables.options[n++] = (struct option){
            row->name, row->arg != NULL ? required_argument : no_argument, NULL, row->id};
        if (row->id >= 256 || strchr(tables.letters, row->id) != NULL)
            continue;
        tables.letters[letters++] = (char)row->id;
        if (row->arg != NULL)
            tables.letters[letters++] = ':';
    }
    *ret_tables = tables;
}

static bool take_words(const struct pfl_command *command, struct pfl_args *args, int argc,
                       char **argv)
{
    for (; optind < argc; optind++) {
        if (args->words_len == command->words_max) {
            pfl_cmd_error(
                "%s: unexpected argument%s", argv[optind],
                (command->options & PFL_OPTIONS_HOSTS) != 0 ? "; hosts are given with --host" : "");
            return false;
        }
        args->words[args->words_len++] = argv[optind];
    }
    if (args->words_len >= command->words_min)
        return true;
    pfl_cmd_error("something is missing: perfleet %s %s", command->name, command->synopsis);
    return false;
}

/* 0: go on, 1: help was asked for, -1: said on stderr what is wrong. */
static int read_options(const struct pfl_command *command, struct pfl_args *args, int argc,
                        char **argv)
{
    struct getopt_tables tables;
    int option;

    make_tables(command, &tables);
    while ((option = getopt_long(argc, argv, tables.letters, tables.options, NULL)) != -1) {
        const char **text = text_of(args, option);

        if (option == 'h')
            return 1;
        if (text != NULL)
            *text = optarg;
        else if (!take_option(args, option, optarg))
            return -1;
    }
    return take_words(command, args, argc, argv) ? 0 : -1;
}

size_t pfl_args_quorum(const struct pfl_args *args, size_t hosts)
{
    if (args->quorum == 0)
        return 1;
    return args->is_quorum_percent ? (hosts * args->quorum + 99) / 100 : args->quorum;
}

int pfl_args_run(const struct pfl_command *command, int argc, char **argv)
{
    struct pfl_args args = {.command = command->name, .ui_port = PFL_UI_PORT};
    int code = PFL_EXIT_USAGE;
    int rc;

    pfl_targets_init(&args.targets);
    args.targets.is_all_default = (command->options & PFL_OPTIONS_ALL_HOSTS) != 0;
    rc = read_options(command, &args, argc, argv);
    if (rc > 0) {
        print_help(command);
        code = PFL_EXIT_OK;
    } else if (rc == 0) {
        code = command->run(&args);
    }
    if (code == PFL_EXIT_USAGE)
        fprintf(stderr, "Try 'perfleet %s --help'.\n", command->name);
    pfl_targets_fini(&args.targets);
    return code;
}
