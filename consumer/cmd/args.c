/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a command line by the tables below. Happy path: getopt with the options of the command's
 * groups, the words that are left, hosts and certificates, then the command itself. Failures: the
 * error and its remedy on stderr, then exit 2. Help is made from the same tables and never fails.
 * Ownership: the targets; everything else is borrowed from argv.
 */
#include "consumer/cmd/args.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/rotation_args.h"
#include "consumer/config/category.h"
#include "consumer/config/duration.h"
#include "consumer/report/summary.h"

enum {
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
    OPT_REASON,
    OPT_KEEP_FOR,
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
    {"buffer", "SIZE", "of each host, for WHAT: 512kb, 64mb (the default), 1gb", 'b',
     PFL_OPTIONS_CONFIG},
    {"output", "FILE", "the trace file; - writes standard output", 'o',
     PFL_OPTIONS_OUTPUT | PFL_OPTIONS_TRACES},
    {"out", "FILE", NULL, 'o', PFL_OPTIONS_OUTPUT | PFL_OPTIONS_TRACES},
    {"host", "HOST",
     "[NAME=]tls://ADDRESS[:PORT], unix:PATH, ssh://[USER@]ADDRESS or local; with --relay: NAME",
     OPT_HOST, PFL_OPTIONS_HOSTS},
    {"relay", "ADDRESS", "the relay that the hosts dialled, HOST[:PORT] (default $PERFLEET_RELAY)",
     OPT_RELAY, PFL_OPTIONS_HOSTS},
    {"select", "TERMS", "the relay's hosts with these labels: role=web,zone!=b; '*' is all",
     OPT_SELECT, PFL_OPTIONS_HOSTS},
    {"older-than", "TIME", "hosts that left the relay so long ago: 30d, 12h", OPT_OLDER_THAN,
     PFL_OPTIONS_AGE},
    {"collector", "NAME", "of several collectors at the relay, this one", OPT_COLLECTOR,
     PFL_OPTIONS_COLLECTOR},
    {"since", "TIME", "traces that end after it: 14:03, 2026-11-23T14:03, 2h (ago)", OPT_SINCE,
     PFL_OPTIONS_TRACES},
    {"until", "TIME", "traces that begin before it", OPT_UNTIL, PFL_OPTIONS_TRACES},
    {"at", "TIME", "traces around it, see --window", OPT_AT, PFL_OPTIONS_TRACES},
    {"window", "TIME", "how much around --at (default 2m)", OPT_WINDOW, PFL_OPTIONS_TRACES},
    {"order", "NAME", "traces of this order; * stands for any characters", OPT_ORDER,
     PFL_OPTIONS_TRACES},
    {"trigger", "NAME", "copies that this trigger made", OPT_TRIGGER, PFL_OPTIONS_TRACES},
    {"data-source", "NAME", "traces that have it", OPT_DATA_SOURCE, PFL_OPTIONS_TRACES},
    {"lossy", NULL, "only those with losses or gaps", OPT_LOSSY, PFL_OPTIONS_TRACES},
    {"whole", NULL, "get: whole segments, not cut to the window", OPT_WHOLE, PFL_OPTIONS_TRACES},
    {"url", NULL, "get: links to the store, instead of -o", OPT_URL, PFL_OPTIONS_TRACES},
    {"reason", "TEXT", "pin: why", OPT_REASON, PFL_OPTIONS_TRACES},
    {"keep-for", "TIME", "pin: how long (default 30d)", OPT_KEEP_FOR, PFL_OPTIONS_TRACES},
    {"duration", "TIME", "overrides the config's duration_ms: 10s, 500ms, 5m", 't',
     PFL_OPTIONS_DURATION},
    {"time", "TIME", NULL, 't', PFL_OPTIONS_DURATION},
    {"quorum", "N|P%", "start only when so many hosts are ready (default 1; tunnel --ui: all)",
     OPT_QUORUM, PFL_OPTIONS_QUORUM},
    {"timeout", "TIME", "how long to wait for each step of a host (default 10s)", OPT_TIMEOUT,
     PFL_OPTIONS_HOSTS},
    {"wait", "TIME",
     "how long to wait for hosts that are away, when the others are done (default 60s)", OPT_WAIT,
     PFL_OPTIONS_QUORUM},
    {"stream", NULL, "read into the file while it records: more than the hosts' buffers hold",
     OPT_STREAM, PFL_OPTIONS_DURATION},
    {"no-stream", NULL, "read at the end only, however long it lasts", OPT_NO_STREAM,
     PFL_OPTIONS_DURATION},
    {"rotate-time", "TIME", "begin another file so often, with --stream: FILE-0001, FILE-0002, ...",
     OPT_ROTATE_TIME, PFL_OPTIONS_DURATION},
    {"rotate-size", "SIZE", "likewise when a file is so large: 512mb, 4gb", OPT_ROTATE_SIZE,
     PFL_OPTIONS_DURATION},
    {"rotate-keep", "N", "of those files keep the newest N", OPT_ROTATE_KEEP, PFL_OPTIONS_DURATION},
    {"keep-free-mib", "N",
     "stop streaming when the disk has no more (default: 5 % of it, at most 1024)",
     OPT_KEEP_FREE_MIB, PFL_OPTIONS_DURATION},
    {"no-clobber", NULL, "do not replace a trace file that is there already", OPT_NO_CLOBBER,
     PFL_OPTIONS_OUTPUT | PFL_OPTIONS_TRACES},
    {"keep", NULL, "leave the session on the hosts, with its data", OPT_KEEP, PFL_OPTIONS_KEEP},
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
    {"columns", "LIST",
     "name, state, address, service, agent, producers, sources, sessions, streams, clock, "
     "certificate, labels",
     OPT_COLUMNS, PFL_OPTIONS_TABLE},
    {"problems", NULL, "only hosts with which something is wrong", OPT_PROBLEMS, PFL_OPTIONS_TABLE},
    {"watch", NULL, "again every 2 s, until Ctrl-C", OPT_WATCH, PFL_OPTIONS_TABLE},
    {"color", "WHEN", "auto (on a terminal, without NO_COLOR), always or never", OPT_COLOR,
     PFL_OPTIONS_HOSTS},
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

static bool is_row(const struct option_row *row, const char *word)
{
    size_t len = strlen(row->name);

    if (strncmp(word, "--", 2) != 0)
        return row->id < 256 && word[0] == '-' && word[1] == row->id && word[2] == '\0';
    return strncmp(word + 2, row->name, len) == 0 &&
           (word[len + 2] == '\0' || word[len + 2] == '=');
}

bool pfl_args_find_option(const struct pfl_command *command, const char *word,
                          const char **ret_name, const char **ret_arg)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (!takes(command, &rows[i]) || !is_row(&rows[i], word))
            continue;
        *ret_name = rows[i].name;
        *ret_arg = rows[i].arg;
        return true;
    }
    return false;
}

static bool take_time(const char *option, const char *arg, uint32_t *ret_ms)
{
    if (pfl_duration_parse(arg, ret_ms))
        return true;
    pfl_cmd_error("%s %s: give a time such as 10s, 500ms or 5m, at most a week", option, arg);
    return false;
}

static bool take_timeout(struct pfl_args *args, const char *arg)
{
    uint32_t ms;

    return take_time("--timeout", arg, &ms) &&
           pfl_operator_settings_take(&args->settings, "timeout", arg);
}

static bool take_age(struct pfl_args *args, const char *arg)
{
    if (pfl_duration_parse_age(arg, &args->targets.min_away_ms))
        return true;
    pfl_cmd_error("--older-than %s: give a time such as 30d, 12h or 90s, at most %ud", arg,
                  PFL_DURATION_AGE_DAYS);
    return false;
}

/* Options that are settings, too. */
static const char *setting_of(int option)
{
    switch (option) {
    case OPT_RELAY:
        return "relay";
    case OPT_CA:
        return "ca";
    case OPT_CRL:
        return "crl";
    case OPT_CERT:
        return "cert";
    case OPT_KEY:
        return "key";
    case OPT_PRESET:
        return "preset";
    case OPT_COLOR:
        return "color";
    default:
        return NULL;
    }
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
    args->has_max_host_mib = pfl_rotation_args_parse_number(arg, &args->max_host_mib);
    if (args->has_max_host_mib)
        return true;
    pfl_cmd_error("--max-host-mib %s: give a number of MiB, or 0 for no limit", arg);
    return false;
}

static bool take_buffer(struct pfl_args *args, const char *arg)
{
    if (pfl_category_parse_size(arg, &args->buffer_kb))
        return true;
    pfl_cmd_error("--buffer %s: give a size such as 512kb, 64mb or 1gb, at most 4gb", arg);
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

/* Options of a recording that lasts. */
static bool take_rotation(struct pfl_args *args, int option, const char *arg)
{
    switch (option) {
    case OPT_ROTATE_TIME:
        return pfl_rotation_args_take_rotate_time(args, arg);
    case OPT_ROTATE_SIZE:
        return pfl_rotation_args_take_rotate_size(args, arg);
    case OPT_ROTATE_KEEP:
        return pfl_rotation_args_take_rotate_keep(args, arg);
    case OPT_KEEP_FREE_MIB:
        return pfl_rotation_args_take_keep_free_mib(args, arg);
    default:
        return false;
    }
}

static bool take_traces(struct pfl_args *args, int option)
{
    switch (option) {
    case OPT_LOSSY:
        args->traces.is_lossy = true;
        return true;
    case OPT_WHOLE:
        args->traces.is_whole = true;
        return true;
    case OPT_URL:
        args->traces.is_url = true;
        return true;
    default:
        return false;
    }
}

static bool take_option(struct pfl_args *args, int option, const char *arg)
{
    if (setting_of(option) != NULL)
        return pfl_operator_settings_take(&args->settings, setting_of(option), arg);
    switch (option) {
    case OPT_HOST:
        return pfl_targets_add(&args->targets, arg);
    case 't':
        return take_time("--duration", arg, &args->duration_ms);
    case OPT_QUORUM:
        return take_quorum(args, arg);
    case OPT_TIMEOUT:
        return take_timeout(args, arg);
    case OPT_WAIT:
        return take_time("--wait", arg, &args->wait_ms);
    case OPT_OLDER_THAN:
        return take_age(args, arg);
    case OPT_STREAM:
        args->is_streamed = true;
        return true;
    case OPT_NO_STREAM:
        args->no_stream = true;
        return true;
    case OPT_NO_CLOBBER:
        args->no_clobber = true;
        return true;
    case OPT_KEEP:
        args->is_kept = true;
        return true;
    case OPT_MAX_HOST_MIB:
        return take_max_host_mib(args, arg);
    case 'b':
        return take_buffer(args, arg);
    case OPT_JSON:
        args->is_json = true;
        return true;
    case 'q':
        args->is_quiet = true;
        return true;
    case OPT_PROBLEMS:
        args->is_problems = true;
        return true;
    case OPT_WATCH:
        args->is_watch = true;
        return true;
    case OPT_UI:
        args->is_ui = true;
        return true;
    case OPT_UI_PORT:
        return take_ui_port(args, arg);
    case OPT_UI_ORIGIN:
        return take_ui_origin(args, arg);
    default:
        return take_traces(args, option) || take_rotation(args, option, arg);
    }
}

static const char **text_of_traces(struct pfl_args *args, int option)
{
    switch (option) {
    case OPT_SINCE:
        return &args->traces.since;
    case OPT_UNTIL:
        return &args->traces.until;
    case OPT_AT:
        return &args->traces.at;
    case OPT_WINDOW:
        return &args->traces.window;
    case OPT_ORDER:
        return &args->traces.order;
    case OPT_TRIGGER:
        return &args->traces.trigger;
    case OPT_DATA_SOURCE:
        return &args->traces.data_source;
    case OPT_REASON:
        return &args->traces.reason;
    case OPT_KEEP_FOR:
        return &args->traces.keep_for;
    default:
        return NULL;
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
    case OPT_SOCKET:
        return &args->socket_path;
    case OPT_SELECT:
        return &args->targets.selection;
    case OPT_COLUMNS:
        return &args->columns;
    case OPT_COLLECTOR:
        return &args->collector;
    default:
        return text_of_traces(args, option);
    }
}

struct getopt_tables {
    struct option options[ROWS + 1];
    char letters[2 * ROWS + 2];
};

static void make_tables(const struct pfl_command *command, struct getopt_tables *ret_tables)
{
    struct getopt_tables tables = {0};
    size_t n = 0;
    size_t letters = 0;

    tables.letters[letters++] = ':'; /* a missing value differs from an unknown option */
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

/* For an argument that getopt rejects: `word` contains it, optopt is the option, 0 for an unknown
 * long one. */
static void refuse_option(const struct pfl_command *command, int why, const char *word)
{
    struct pfl_suggest suggest;
    char name[PFL_SUGGEST_MAX + 1];
    const struct option_row *known = NULL;

    for (size_t i = ROWS; i-- > 0;)
        if (takes(command, &rows[i]) && rows[i].id == optopt)
            known = &rows[i];
    if (why == ':') {
        pfl_cmd_error("%s: give a value: --%s %s", word, known->name, known->arg);
        return;
    }
    if (known != NULL) {
        pfl_cmd_error("%s: --%s takes no value", word, known->name);
        return;
    }
    if (optopt != 0) {
        pfl_cmd_error("perfleet %s has no option -%c", command->name, optopt);
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    pfl_suggest_init(&suggest, name);
    for (size_t i = 0; i < ROWS; i++)
        if (takes(command, &rows[i]))
            pfl_suggest_offer(&suggest, rows[i].name);
    if (pfl_suggest_get(&suggest) != NULL)
        pfl_cmd_error("perfleet %s has no option --%s; did you mean --%s?", command->name, name,
                      pfl_suggest_get(&suggest));
    else
        pfl_cmd_error("perfleet %s has no option --%s", command->name, name);
}

/* 0: continue, 1: help was requested, -1: error reported on stderr. */
static int read_options(const struct pfl_command *command, struct pfl_args *args, int argc,
                        char **argv)
{
    struct getopt_tables tables;
    int option;

    make_tables(command, &tables);
    opterr = 0;
    while ((option = getopt_long(argc, argv, tables.letters, tables.options, NULL)) != -1) {
        const char **text = text_of(args, option);

        if (option == 'h')
            return 1;
        if (option == '?' || option == ':') {
            refuse_option(command, option, argv[optind - 1]);
            return -1;
        }
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

static bool is_of(const struct pfl_args *args, const char *key, enum pfl_settings_source source)
{
    return pfl_operator_conf_source(&args->settings.conf, key) == source;
}

/* NO_COLOR (no-color.org) applies unless an option says otherwise. */
static bool wants_color(const struct pfl_args *args)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    switch (args->settings.conf.values->color) {
    case PERFLEET__OPERATOR_CONFIG__COLOR__always:
        return true;
    case PERFLEET__OPERATOR_CONFIG__COLOR__never:
        return false;
    default:
        return (no_color == NULL || no_color[0] == '\0') &&
               (term == NULL || strcmp(term, "dumb") != 0) && isatty(STDOUT_FILENO) != 0;
    }
}

/* What the command line does not say, the environment and the files do. */
static bool take_settings(struct pfl_args *args)
{
    const Perfleet__OperatorConfig *v;
    struct pfl_targets *t = &args->targets;
    uint32_t timeout_ms = 0;

    if (!pfl_operator_settings_load(&args->settings))
        return false;
    v = args->settings.conf.values;
    if (pfl_duration_parse(v->timeout, &timeout_ms))
        t->timeout_ms = timeout_ms;
    t->relay = v->relay;
    t->is_relay_default = v->relay != NULL && !is_of(args, "relay", PFL_SETTINGS_FLAG);
    t->ca_path = v->ca;
    t->cert_path = v->cert;
    t->key_path = v->key;
    t->crl_path = is_of(args, "crl", PFL_SETTINGS_DEFAULT) ? NULL : v->crl;
    t->crl_default = args->settings.list;
    args->is_color = wants_color(args);
    args->preset = v->preset;
    args->is_preset_default = !is_of(args, "preset", PFL_SETTINGS_FLAG);
    return true;
}

static int run(const struct pfl_command *command, struct pfl_args *args)
{
    bool has_settings = (command->options & (PFL_OPTIONS_HOSTS | PFL_OPTIONS_CONFIG)) != 0;

    return has_settings && !take_settings(args) ? PFL_EXIT_USAGE : command->run(args);
}

int pfl_args_run(const struct pfl_command *command, int argc, char **argv)
{
    struct pfl_args args = {.command = command->name, .ui_port = PFL_UI_PORT};
    int code = PFL_EXIT_USAGE;
    int rc;

    pfl_operator_settings_init(&args.settings);
    pfl_targets_init(&args.targets);
    args.targets.is_all_default = (command->options & PFL_OPTIONS_ALL_HOSTS) != 0;
    args.targets.has_left_ones = (command->options & PFL_OPTIONS_LEFT_HOSTS) != 0;
    rc = read_options(command, &args, argc, argv);
    if (rc > 0) {
        print_help(command);
        code = PFL_EXIT_OK;
    } else if (rc == 0) {
        code = run(command, &args);
    }
    if (code == PFL_EXIT_USAGE && !args.targets.is_past_options)
        fprintf(stderr, "Try 'perfleet %s --help'.\n", command->name);
    pfl_targets_fini(&args.targets);
    pfl_operator_settings_fini(&args.settings);
    return code;
}
