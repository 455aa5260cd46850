/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet tunnel`: a local consumer socket that stands for one host, until a signal. Happy path:
 * find the host, listen, serve clients. Failures: one client's are a line on stderr; a socket that
 * cannot be made ends the command (exit 1).
 */
#include <signal.h>
#include <stdio.h>

#include "consumer/cmd/cmd.h"
#include "consumer/proxy/proxy.h"
#include "consumer/report/summary.h"

struct tunnel {
    struct pfl_proxy *proxy;
    uv_signal_t signals[2];
    unsigned open; /* signals and the proxy */
};

static void on_signal(uv_signal_t *handle, int number)
{
    struct tunnel *t = handle->data;

    (void)number;
    pfl_proxy_close(t->proxy);
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

static int serve(const struct pfl_args *args)
{
    const struct pfl_targets *targets = &args->targets;
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
    if (!args->is_quiet)
        fprintf(stderr, "listening for %s: PERFETTO_CONSUMER_SOCK_NAME=%s\n",
                targets->specs[0].text, args->socket_path);
    while (t.open > 0)
        uv_run(targets->loop, UV_RUN_ONCE);
    return PFL_EXIT_OK;
}

int pfl_cmd_tunnel(struct pfl_args *args)
{
    struct pfl_targets *targets = &args->targets;
    uv_loop_t loop;
    int code = PFL_EXIT_USAGE;

    if (args->socket_path == NULL) {
        pfl_cmd_error("give the socket to listen on: --socket PATH");
        return code;
    }
    if (args->words_len > 0 && !pfl_targets_add(targets, args->words[0]))
        return code;
    if (!pfl_targets_open(targets, &loop))
        return code;
    if (targets->specs_len == 1)
        code = serve(args);
    else
        pfl_cmd_error("a socket stands for one host: %zu are meant", targets->specs_len);
    pfl_targets_close(targets);
    return code;
}
