/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet tunnel`: a local consumer socket for one host, or the WebSocket that the Perfetto UI
 * uses, until a signal. Happy path: find the host, listen, serve clients. Failures: one client's
 * are a line on stderr; a socket that cannot be made ends the command (exit 1).
 */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>

#include "consumer/cmd/cmd.h"
#include "consumer/proxy/proxy.h"
#include "consumer/report/summary.h"
#include "consumer/ui/ui_port.h"

struct tunnel {
    struct pfl_proxy *proxy; /* one of these */
    struct pfl_ui *ui;
    uv_signal_t signals[2];
    unsigned open; /* signals, and the proxy or the UI's socket */
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct tunnel *t = handle->data;

    (void)number;
    for (size_t i = 0; i < sizeof(t->signals) / sizeof(t->signals[0]); i++)
        uv_signal_stop(&t->signals[i]); /* a second one ends the process */
    if (t->proxy != NULL)
        pfl_proxy_close(t->proxy);
    if (t->ui != NULL)
        pfl_ui_close(t->ui);
    t->proxy = NULL;
    t->ui = NULL;
}

static void on_signal_closed(uv_handle_t *handle)
{
    ((struct tunnel *)handle->data)->open--;
}

static void on_proxy_closed(void *user)
{
    struct tunnel *t = user;

    t->open--;
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&t->signals[i], on_signal_closed);
}

static void on_client_gone(void *user, const char *why)
{
    (void)user;
    if (why[0] != '\0')
        pfl_cmd_error("%s", why);
}

static void watch_signals(struct tunnel *t, uv_loop_t *loop)
{
    static const int numbers[2] = {SIGINT, SIGTERM};

    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(loop, &t->signals[i]);
        t->signals[i].data = t;
        uv_signal_start(&t->signals[i], on_signal, numbers[i]);
        t->open++;
    }
}

/* For programs that wait for it: one line on standard output. Takes `what`. */
static void print_json(json_t *what)
{
    if (what == NULL || json_dumpf(what, stdout, JSON_COMPACT) != 0 || puts("") < 0 ||
        fflush(stdout) != 0)
        pfl_cmd_error("standard output cannot be written to");
    json_decref(what);
}

static void tell_socket(const struct pfl_args *args)
{
    const char *host = args->targets.specs[0].text;

    if (args->is_json)
        print_json(
            json_pack("{s:[{s:s, s:s}]}", "listening", "host", host, "socket", args->socket_path));
    else if (!args->is_quiet)
        fprintf(stderr, "listening for %s: PERFETTO_CONSUMER_SOCK_NAME=%s\n", host,
                args->socket_path);
}

static int serve(struct pfl_args *args)
{
    struct pfl_targets *targets = &args->targets;
    struct tunnel t = {0};
    struct pfl_proxy_conf conf = {.socket_path = args->socket_path,
                                  .on_client_gone = on_client_gone,
                                  .on_closed = on_proxy_closed,
                                  .user = &t};

    pfl_targets_fill_conn(targets, &conf.host);
    conf.host.spec = &targets->specs[0];
    if (pfl_proxy_open(&conf, &t.proxy) != 0) {
        pfl_cmd_error("--socket %s: cannot listen there; give a path in a folder of yours",
                      args->socket_path);
        return PFL_EXIT_NOTHING;
    }
    t.open = 1;
    watch_signals(&t, targets->loop);
    tell_socket(args);
    while (t.open > 0)
        uv_run(targets->loop, UV_RUN_ONCE);
    return PFL_EXIT_OK;
}

/* What a path says after /traced/. */
static bool name_hosts(const struct pfl_targets *targets, const char **names)
{
    for (size_t i = 0; i < targets->specs_len; i++) {
        names[i] = targets->specs[i].name;
        if (names[i][0] != '\0' || targets->specs_len == 1)
            continue;
        pfl_cmd_error("%s: with several hosts give it a name, --host NAME=%s",
                      targets->specs[i].text, targets->specs[i].text);
        return false;
    }
    return true;
}

static json_t *paths_to_json(unsigned port, const struct pfl_targets *targets)
{
    json_t *all = json_array();

    for (size_t i = 0; all != NULL && i < targets->specs_len; i++) {
        const struct pfl_host_spec *spec = &targets->specs[i];
        char url[256];

        if (targets->specs_len == 1)
            (void)snprintf(url, sizeof(url), "ws://127.0.0.1:%u/traced", port);
        else
            (void)snprintf(url, sizeof(url), "ws://127.0.0.1:%u/traced/%s", port, spec->name);
        (void)json_array_append_new(all, json_pack("{s:s, s:s}", "host", spec->text, "url", url));
    }
    if (targets->specs_len > 1) {
        char url[64];

        (void)snprintf(url, sizeof(url), "ws://127.0.0.1:%u/fleet", port);
        (void)json_array_append_new(all, json_pack("{s:b, s:s}", "all", 1, "url", url));
    }
    return json_pack("{s:o}", "listening", all);
}

static void tell_paths(const struct pfl_ui *ui, const struct pfl_args *args)
{
    const struct pfl_targets *targets = &args->targets;
    unsigned port = pfl_ui_get_port(ui);

    if (args->is_json) {
        print_json(paths_to_json(port, targets));
        return;
    }
    if (args->is_quiet)
        return;

    fprintf(stderr, "listening for %s: ws://127.0.0.1:%u/traced\n", targets->specs[0].text, port);
    for (size_t i = 0; targets->specs_len > 1 && i < targets->specs_len; i++)
        fprintf(stderr, "listening for %s: ws://127.0.0.1:%u/traced/%s\n", targets->specs[i].text,
                port, targets->specs[i].name);
    if (targets->specs_len > 1)
        fprintf(stderr, "listening for all %zu hosts at once: ws://127.0.0.1:%u/fleet\n",
                targets->specs_len, port);
}

/* A page has no place for a warning beside a trace: unless a quorum is given, all hosts must be
 * ready. */
static bool choose_quorum(const struct pfl_args *args, size_t *ret_quorum)
{
    size_t hosts = args->targets.specs_len;

    *ret_quorum = args->quorum != 0 ? pfl_args_quorum(args, hosts) : hosts;
    if (*ret_quorum <= hosts)
        return true;
    pfl_cmd_error("--quorum %zu of %zu hosts cannot be met", *ret_quorum, hosts);
    return false;
}

static int serve_ui(struct pfl_args *args)
{
    static const char *names[PFL_TARGETS_MAX_HOSTS];
    struct pfl_targets *targets = &args->targets;
    struct tunnel t = {0};
    struct pfl_ui_conf conf = {.specs = targets->specs,
                               .recording = {.each_host = {.step_timeout_ms = targets->timeout_ms},
                                             .has_wait = args->wait_ms != 0,
                                             .wait_ms = args->wait_ms},
                               .version = PFL_VERSION,
                               .rules = {.origins = args->ui_origins,
                                         .origins_len = args->ui_origins_len,
                                         .hosts = names,
                                         .hosts_len = targets->specs_len},
                               .port = args->ui_port,
                               .on_client_gone = on_client_gone,
                               .on_closed = on_proxy_closed,
                               .user = &t};

    if (!name_hosts(targets, names) || !choose_quorum(args, &conf.recording.quorum))
        return PFL_EXIT_USAGE;
    pfl_targets_fill_conn(targets, &conf.host);
    if (pfl_ui_open(&conf, &t.ui) != 0) {
        pfl_cmd_error("--ui: cannot listen on 127.0.0.1:%u; --ui-port gives another port",
                      args->ui_port);
        return PFL_EXIT_NOTHING;
    }
    t.open = 1;
    watch_signals(&t, targets->loop);
    tell_paths(t.ui, args);
    while (t.open > 0)
        uv_run(targets->loop, UV_RUN_ONCE);
    return PFL_EXIT_OK;
}

int pfl_cmd_tunnel(struct pfl_args *args)
{
    struct pfl_targets *targets = &args->targets;
    uv_loop_t loop;
    int code = PFL_EXIT_USAGE;

    if ((args->socket_path == NULL) == !args->is_ui) {
        pfl_cmd_error("give one of the two to listen on: --socket PATH or --ui");
        return code;
    }
    if (!args->is_ui && (args->quorum != 0 || args->wait_ms != 0)) {
        pfl_cmd_error("--%s is for --ui, of all hosts: a socket stands for one host",
                      args->quorum != 0 ? "quorum" : "wait");
        return code;
    }
    for (size_t i = 0; i < args->words_len; i++)
        if (!pfl_targets_add(targets, args->words[i]))
            return code;
    code = pfl_targets_open(targets, &loop);
    if (code != PFL_EXIT_OK)
        return code;
    code = PFL_EXIT_USAGE;
    if (args->is_ui)
        code = serve_ui(args);
    else if (targets->specs_len == 1)
        code = serve(args);
    else
        pfl_cmd_error("a socket stands for one host: %zu are meant", targets->specs_len);
    pfl_targets_close(targets);
    return code;
}
