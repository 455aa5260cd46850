/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet ui`: the pages, until a signal. Happy path: find the relay's hosts, or those that were
 * named; listen; print the link; serve. The port is another one each time, unless it was named:
 * what another user served at a port may still be in the browser, and has its origin. Failures: a
 * port that is taken ends the command (exit 1), as a relay that does not answer at the beginning;
 * later the pages say that the relay is away.
 */
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/service_user.h"
#include "consumer/cmd/ask_program.h"
#include "consumer/cmd/cmd.h"
#include "consumer/cmd/open_trace.h"
#include "consumer/open/hand_over.h"
#include "consumer/report/summary.h"
#include "consumer/web/frame/web_access.h"
#include "consumer/web/html/command_line.h"
#include "consumer/web/web_port.h"
#include "proto/tunnel/identity.h"

#define LINK_BYTES   128u
#define RETRY_MAX_MS 5000u

struct page {
    struct pfl_args *args;
    struct pfl_web *web; /* NULL: closing, or closed */
    uv_signal_t signals[2];
    unsigned open; /* signals, and the port */
    struct pfl_identity own;
};

/* ---- the relay, for the pages ---- */

static void ask_relay(void *user)
{
    pfl_targets_ask_relay(user);
}

static bool take_relay(void *user, struct pfl_inventory **ret_inventory)
{
    struct pfl_targets *t = user;

    if (!t->has_answer)
        return false;
    *ret_inventory = t->inventory;
    t->inventory = NULL;
    return true;
}

static const char *get_away(void *user)
{
    const struct pfl_targets *t = user;

    return pfl_targets_is_relay_away(t) ? t->relay_why : NULL;
}

/* ---- signals: a second one ends the process ---- */

static void on_signal(uv_signal_t *handle, int number)
{
    struct page *p = handle->data;

    (void)number;
    for (size_t i = 0; i < 2; i++)
        uv_signal_stop(&p->signals[i]);
    if (p->web != NULL)
        pfl_web_close(p->web);
    p->web = NULL;
}

static void on_signal_closed(uv_handle_t *handle)
{
    ((struct page *)handle->data)->open--;
}

static void on_web_closed(void *user)
{
    struct page *p = user;

    p->open--;
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&p->signals[i], on_signal_closed);
}

static void watch_signals(struct page *p, uv_loop_t *loop)
{
    static const int numbers[2] = {SIGINT, SIGTERM};

    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(loop, &p->signals[i]);
        p->signals[i].data = p;
        uv_signal_start(&p->signals[i], on_signal, numbers[i]);
        p->open++;
    }
}

/* ---- command lines that the pages show ---- */

#define WORDS_MAX 16u

/* The options that this command line gave; settings and defaults apply to other commands, too. As a
 * line for people, and as words for a process. */
static void write_options(const struct pfl_args *args, struct pfl_command_line *line,
                          const char *ret_words[WORDS_MAX + 1])
{
    const struct pfl_operator_conf *conf = &args->settings.conf;
    const struct {
        const char *key;
        const char *option;
        const char *value;
    } all[] = {
        {"relay", "--relay", args->targets.relay}, {"ca", "--ca", conf->values->ca},
        {"crl", "--crl", conf->values->crl},       {"cert", "--cert", conf->values->cert},
        {"key", "--key", conf->values->key},       {"timeout", "--timeout", conf->values->timeout}};

    size_t len = 0;

    *line = (struct pfl_command_line){.len = 0};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (pfl_operator_conf_source(conf, all[i].key) != PFL_SETTINGS_FLAG)
            continue;
        pfl_command_line_option(line, all[i].option, all[i].value);
        ret_words[len++] = all[i].option;
        ret_words[len++] = all[i].value;
    }
    if (args->collector != NULL) {
        ret_words[len++] = "--collector";
        ret_words[len++] = args->collector;
    }
    ret_words[len] = NULL;
}

static void write_targets(const struct pfl_args *args, struct pfl_command_line *line)
{
    *line = (struct pfl_command_line){.len = 0};
    for (size_t i = 0; i < args->targets.hosts_len; i++)
        pfl_command_line_option(line, "--host", args->targets.hosts[i]);
    pfl_command_line_option(line, "--select", args->targets.selection);
}

/* ---- the link ---- */

static void print_link(const struct pfl_args *args, const char *link)
{
    json_t *object = args->is_json ? json_pack("{s:s}", "link", link) : NULL;
    unsigned long port = strtoul(link + sizeof("http://127.0.0.1:") - 1, NULL, 10);

    if (object != NULL && json_dumpf(object, stdout, JSON_COMPACT) == 0)
        puts("");
    json_decref(object);
    if (!args->is_json) {
        printf("Open this link in a browser of this machine; it gives one browser access:\n  %s\n",
               link);
        if (getenv("SSH_CONNECTION") != NULL)
            printf("From the machine you sit at, first: ssh -L %lu:127.0.0.1:%lu THIS-MACHINE\n",
                   port, port);
        puts("Ctrl-C ends it.");
    }
    if (fflush(stdout) != 0)
        pfl_cmd_error("standard output cannot be written to");
}

/* ui.perfetto.dev fetches from one port alone; each other UI gets another port each time. */
static uint16_t choose_ui_port(const struct pfl_args *args)
{
    const struct pfl_open_args *open = &args->open;

    if (open->has_port)
        return args->ui_port;
    return open->ui_dir == NULL &&
                   (open->ui_url == NULL || strcmp(open->ui_url, PFL_HAND_OVER_UI) == 0)
               ? PFL_HAND_OVER_PORT
               : 0;
}

static void print_socket(const struct pfl_args *args)
{
    const struct pfl_proxy_args *p = &args->proxy;
    json_t *object =
        args->is_json ? json_pack("{s:s,s:s}", "socket", p->socket, "origin", p->origin) : NULL;

    if (object != NULL && json_dumpf(object, stdout, JSON_COMPACT) == 0)
        puts("");
    json_decref(object);
    if (!args->is_json)
        printf("Everyone whom the proxy lets through to %s has the rights of this certificate. "
               "The pages are at %s/\n",
               p->socket, p->origin);
    if (fflush(stdout) != 0)
        pfl_cmd_error("standard output cannot be written to");
}

/* ---- behind a proxy ---- */

/* A folder that is not there is said when the socket is made. */
static bool may_others_make_files_beside(const char *path)
{
    char folder[PATH_MAX];
    const char *end = strrchr(path, '/');
    size_t len = end == path ? 1 : (size_t)(end - path);
    struct stat st;

    if (len >= sizeof(folder))
        return true;
    memcpy(folder, path, len);
    folder[len] = '\0';
    if (lstat(folder, &st) != 0)
        return false;
    return !S_ISDIR(st.st_mode) || (st.st_uid != 0 && st.st_uid != geteuid()) ||
           (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* NULL, or what is wrong. */
static const char *check_proxy(struct pfl_proxy_args *p, uint16_t port)
{
    struct pfl_service_users users = {.len = 0};

    p->uid = geteuid();
    if (p->socket == NULL)
        return p->user != NULL || p->origin != NULL
                   ? "--proxy-user and --origin belong to --behind-proxy"
                   : NULL;
    if (port != 0)
        return "--port and --behind-proxy exclude each other";
    if (p->socket[0] != '/' || may_others_make_files_beside(p->socket))
        return "--behind-proxy wants the full path of a socket in a folder where only you may make "
               "files: others could put a socket of their own there";
    if (p->origin == NULL || !pfl_web_access_is_origin(p->origin))
        return "--behind-proxy needs --origin https://HOST[:PORT], in lower case and without a "
               "path: the pages' address at the proxy";
    if (p->user != NULL && (pfl_service_users_parse(&users, p->user) != 0 || users.len != 1))
        return "--proxy-user is no user of this machine: give the user of the proxy's workers, "
               "for nginx of Debian www-data";
    if (p->user != NULL)
        p->uid = users.uids[0];
    return NULL;
}

/* NULL: none. */
static const char *get_own_name(const struct pfl_targets *t, struct pfl_identity *room)
{
    return t->tls != NULL &&
                   pfl_identity_parse(pfl_tls_conf_get_identity(t->tls)->uri, room) == 0 &&
                   room->role == PFL_IDENTITY_OPERATOR
               ? room->name
               : NULL;
}

/* ---- questions to traces, for the BigTrace page ---- */

/* Without a Trace Processor the pages work, and that page gets the reason. False: the one that was
 * named is not there. */
static bool find_processor(const struct pfl_args *args, struct pfl_ask_program *ret_program)
{
    if (pfl_ask_program_find(&args->ask, ret_program) || args->ask.program == NULL)
        return true;
    pfl_cmd_error("%s", ret_program->why);
    return false;
}

static void say_cannot_listen(const struct pfl_args *args)
{
    if (args->proxy.socket != NULL)
        pfl_cmd_error("cannot listen on %s: is its folder there, and yours?", args->proxy.socket);
    else
        pfl_cmd_error("cannot listen on 127.0.0.1:%u; --port gives another port, 0 any",
                      args->page_port);
}

static int serve(struct pfl_args *args, const struct pfl_ask_program *program)
{
    struct pfl_targets *t = &args->targets;
    struct pfl_command_line options;
    struct pfl_command_line targets;
    const char *words[WORDS_MAX + 1];
    struct page page = {.args = args};
    struct pfl_web_conf conf = {
        .timeout_ms = t->timeout_ms,
        .specs = t->specs,
        .specs_len = t->specs_len,
        .relay = {t->relay, ask_relay, take_relay, get_away, t},
        .inventory = t->inventory,
        .hosts = {t->selection, t->hosts, t->hosts_len},
        .fleet = t->fleet,
        .own_name = get_own_name(t, &page.own),
        .collector = args->collector,
        .options = options.text,
        .words = words,
        .targets = targets.text,
        .version = PFL_VERSION,
        .ui = {.dir = args->open.ui_dir,
               .url = args->open.ui_url != NULL ? args->open.ui_url : PFL_HAND_OVER_UI,
               .port = choose_ui_port(args)},
        .ask = {.engine = pfl_ask_program_get_engine(program), .why = program->why},
        .bigtrace_origin = args->bigtrace_origin,
        .port = args->page_port,
        .socket = args->proxy.socket,
        .proxy_uid = args->proxy.uid,
        .origin = args->proxy.origin,
        .own_end_s = t->tls != NULL ? pfl_tls_conf_get_identity(t->tls)->not_after_s : 0,
        .on_closed = on_web_closed,
        .user = &page,
    };
    char link[LINK_BYTES];

    write_options(args, &options, words);
    write_targets(args, &targets);
    pfl_targets_fill_conn(t, &conf.conn);
    t->inventory = NULL;
    if (pfl_web_open(&conf, &page.web) != 0) {
        say_cannot_listen(args);
        return PFL_EXIT_NOTHING;
    }
    page.open = 1;
    watch_signals(&page, t->loop);
    pfl_web_get_link(page.web, link, sizeof(link));
    if (args->proxy.socket != NULL)
        print_socket(args);
    else
        print_link(args, link);
    while (page.open > 0) {
        uv_run(t->loop, UV_RUN_ONCE);
        if (page.web != NULL)
            pfl_web_step(page.web);
    }
    return PFL_EXIT_OK;
}

static const char *check_page(struct pfl_args *args)
{
    const char *origin = args->bigtrace_origin;

    if (origin != NULL && !pfl_web_access_is_origin(origin))
        return "--bigtrace-origin is an origin, http://HOST[:PORT] or https://HOST[:PORT], in "
               "lower case and without a path";
    return check_proxy(&args->proxy, args->page_port);
}

int pfl_cmd_ui(struct pfl_args *args)
{
    struct pfl_targets *t = &args->targets;
    const char *why = check_page(args);
    struct pfl_ask_program program;
    uv_loop_t loop;
    int code;

    if (why != NULL) {
        pfl_cmd_error("%s", why);
        return PFL_EXIT_USAGE;
    }
    if (!find_processor(args, &program))
        return PFL_EXIT_NOTHING;
    if (args->collector != NULL && t->relay == NULL) {
        pfl_cmd_error("--collector %s: collectors are reached through a relay: give --relay",
                      args->collector);
        return PFL_EXIT_USAGE;
    }
    if (!pfl_open_trace_is_address_usable(args))
        return PFL_EXIT_USAGE;
    t->relay_retry_max_ms = RETRY_MAX_MS;
    t->is_relay_only =
        t->relay != NULL && !(t->is_relay_default && pfl_targets_has_only_addresses(t));
    code = pfl_targets_open(t, &loop);
    if (code != PFL_EXIT_OK)
        return code;
    code = t->relay == NULL || pfl_targets_check_names(t) ? serve(args, &program) : PFL_EXIT_USAGE;
    pfl_targets_close(t);
    return code;
}
