/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's process: see daemon.h.
 *
 * Happy path: open the agent, tell readiness, run. SIGHUP reloads certificates for connections to
 * come. SIGTERM and SIGINT end every stream and connection.
 * Failures: the agent does not open: logged there, returned here. Ownership: owns the loop and its
 * handles; the agent frees itself at its on_closed.
 */
#include "agent/daemon.h"

#include <signal.h>

#include "base/io/watchdog.h"
#include "base/log.h"
#include "base/notify.h"

struct daemon {
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct pfl_watchdog watchdog;
    struct pfl_agent *agent; /* owned; NULL once closed */
};

static const int signal_numbers[3] = {SIGHUP, SIGTERM, SIGINT};

static void on_agent_closed(void *user)
{
    struct daemon *d = user;

    d->agent = NULL;
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    pfl_watchdog_close(&d->watchdog);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    if (d->agent == NULL)
        return;
    if (number == SIGHUP) {
        pfl_notify_send_reloading();
        pfl_agent_reload(d->agent);
        pfl_notify_send("READY=1");
        return;
    }
    pfl_notify_send("STOPPING=1");
    pfl_agent_close(d->agent);
}

int pfl_agent_daemon_run(const struct pfl_agent_conf *conf)
{
    static struct daemon d;
    struct pfl_agent_conf agent = *conf;
    int rc;

    pfl_notify_open();
    if (uv_loop_init(&d.loop) != 0)
        return PFL_EIO;
    agent.loop = &d.loop;
    agent.on_closed = on_agent_closed;
    agent.user = &d;
    rc = pfl_agent_open(&agent, &d.agent);
    if (rc != 0) {
        (void)uv_loop_close(&d.loop);
        return rc;
    }
    pfl_watchdog_open(&d.watchdog, &d.loop);
    for (int i = 0; i < 3; i++) {
        (void)uv_signal_init(&d.loop, &d.signals[i]);
        d.signals[i].data = &d;
        (void)uv_signal_start(&d.signals[i], on_signal, signal_numbers[i]);
    }
    pfl_notify_send("READY=1");
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&d.loop);
    pfl_log_info("stopped", "all streams have ended");
    return 0;
}
