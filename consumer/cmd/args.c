/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a command line by the table of options (options.h). Happy path: getopt with the options of
 * the command's groups, the words that are left, hosts and certificates, then the command itself.
 * Failures: the error and its remedy on stderr, then exit 2.
 * Ownership: the targets; everything else is borrowed from argv.
 */
#include "consumer/cmd/args.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/ask/asking_port.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/options.h"
#include "consumer/cmd/rotation_args.h"
#include "consumer/config/category.h"
#include "consumer/config/duration.h"
#include "consumer/report/summary.h"
#include "consumer/web/web_port.h"

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

static bool take_port(const char *option, const char *arg, uint16_t *ret_port)
{
    char *end;
    unsigned long port = strtoul(arg, &end, 10);

    *ret_port = (uint16_t)port;
    if (*arg >= '0' && *arg <= '9' && *end == '\0' && port <= UINT16_MAX)
        return true;
    pfl_cmd_error("--%s %s: give a number, at most 65535", option, arg);
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

static bool take_number(const char *option, const char *arg, uint32_t max, uint32_t *ret_number)
{
    if (pfl_rotation_args_parse_number(arg, ret_number) && *ret_number != 0 && *ret_number <= max)
        return true;
    pfl_cmd_error("%s %s: give a number from 1 to %" PRIu32, option, arg, max);
    return false;
}

static bool take_sandbox(struct pfl_args *args, const char *arg)
{
    if (pfl_sandbox_mode_parse(arg, &args->ask.sandbox))
        return true;
    pfl_cmd_error("--sandbox %s: give auto, require or off", arg);
    return false;
}

static bool take_ask(struct pfl_args *args, int option, const char *arg)
{
    switch (option) {
    case OPT_CSV:
        args->ask.is_csv = true;
        return true;
    case OPT_QUIET:
        args->is_quiet = true;
        return true;
    case OPT_JOBS:
        return take_number("--jobs", arg, PFL_ASKING_JOBS_MAX, &args->ask.jobs);
    case OPT_MAX_MIB:
        return take_number("--max-mib", arg, PFL_ASK_MIB_MAX, &args->ask.max_mib);
    case OPT_MAX_TIME:
        return take_time("--max-time", arg, &args->ask.max_time_ms);
    case OPT_SANDBOX:
        return take_sandbox(args, arg);
    default:
        return false;
    }
}

/* Options that are only there or not. */
static bool take_flag(struct pfl_args *args, int option)
{
    switch (option) {
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
    case OPT_JSON:
        args->is_json = true;
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
    case OPT_OPEN:
        args->open.is_wanted = true;
        return true;
    case OPT_LIVE:
        args->live.is_wanted = true;
        return true;
    case OPT_NO_BROWSER:
        args->open.no_browser = true;
        return true;
    case OPT_LOSSY:
        args->traces.is_lossy = true;
        return true;
    case OPT_WHOLE:
        args->traces.is_whole = true;
        return true;
    case OPT_URL:
        args->traces.is_url = true;
        return true;
    case OPT_TAR:
        args->traces.is_tar = true;
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
    case OPT_EVERY:
        return take_time("--every", arg, &args->live.every_ms);
    case OPT_SERVE_FOR:
        return take_time("--serve-for", arg, &args->open.serve_ms);
    case OPT_OLDER_THAN:
        return take_age(args, arg);
    case OPT_MAX_HOST_MIB:
        return take_max_host_mib(args, arg);
    case 'b':
        return take_buffer(args, arg);
    case 'q': /* of ask it has a value */
        args->ask.query = arg;
        args->is_quiet = arg == NULL;
        return true;
    case OPT_UI_PORT:
        args->open.has_port = true;
        return take_port("ui-port", arg, &args->ui_port);
    case OPT_PORT:
        return take_port("port", arg, &args->page_port);
    case OPT_UI_ORIGIN:
        return take_ui_origin(args, arg);
    default:
        return take_flag(args, option) || take_ask(args, option, arg) ||
               take_rotation(args, option, arg);
    }
}

static const char **text_of_ask(struct pfl_args *args, int option)
{
    switch (option) {
    case 'f':
        return &args->ask.file;
    case OPT_READY:
        return &args->ask.ready;
    case OPT_SUMMARY:
        return &args->ask.summary;
    case OPT_TRACE_PROCESSOR:
        return &args->ask.program;
    default:
        return NULL;
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
        return text_of_ask(args, option);
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
    case OPT_SESSION:
        return &args->live.session;
    case OPT_UI_DIR:
        return &args->open.ui_dir;
    case OPT_UI_URL:
        return &args->open.ui_url;
    case OPT_BEHIND_PROXY:
        return &args->proxy.socket;
    case OPT_PROXY_USER:
        return &args->proxy.user;
    case OPT_ORIGIN:
        return &args->proxy.origin;
    case OPT_BIGTRACE_ORIGIN:
        return &args->bigtrace_origin;
    default:
        return text_of_traces(args, option);
    }
}

static bool take_words(const struct pfl_command *command, struct pfl_args *args, int argc,
                       char **argv)
{
    args->files = argv + optind;
    args->files_len = (size_t)(argc - optind);
    for (; optind < argc; optind++) {
        if (args->words_len == PFL_ARGS_MAX_WORDS && command->words_max > PFL_ARGS_MAX_WORDS)
            continue; /* they are in `files` */
        if (args->words_len == command->words_max) {
            pfl_cmd_error("%s: unexpected argument%s", argv[optind],
                          (command->options & PFL_OPTIONS_TARGETS) != 0
                              ? "; hosts are given with --host"
                              : "");
            return false;
        }
        args->words[args->words_len++] = argv[optind];
    }
    if (args->words_len >= command->words_min)
        return true;
    pfl_cmd_error("something is missing: perfleet %s %s", command->name, command->synopsis);
    return false;
}

/* 0: continue, 1: help was requested, -1: error reported on stderr. */
static int read_options(const struct pfl_command *command, struct pfl_args *args, int argc,
                        char **argv)
{
    struct pfl_options_getopt tables;
    int option;

    pfl_options_make_getopt(command, &tables);
    opterr = 0;
    while ((option = getopt_long(argc, argv, tables.letters, tables.options, NULL)) != -1) {
        const char **text = text_of(args, option);

        if (option == 'h')
            return 1;
        if (option == '?' || option == ':') {
            pfl_options_refuse(command, option, argv[optind - 1]);
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
        pfl_options_print_help(command);
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
