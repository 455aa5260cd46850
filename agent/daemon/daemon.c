/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's process: see daemon.h.
 *
 * Happy path: open the agent, enter the sandbox, report readiness, run (which dials). SIGHUP
 * reloads certificates for new connections. SIGTERM and SIGINT end every connection, and every
 * stream that the service manager does not keep. Failures: the agent does not open, no sandbox:
 * logged there, returned here. Ownership: owns the loop and its handles; the agent frees itself at
 * its on_closed.
 */
#include "agent/daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "agent/daemon/metrics_port.h"
#include "agent/daemon/sandbox.h"
#include "base/io/log_signals.h"
#include "base/io/loop.h"
#include "base/io/watchdog.h"
#include "base/log.h"
#include "base/notify.h"

struct daemon {
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct pfl_watchdog watchdog;
    struct pfl_log_signals log_signals;
    struct pfl_agent *agent;           /* owned; NULL once closed */
    struct pfl_agent_metrics *metrics; /* owned; NULL: none, or closed */
};

static const int signal_numbers[3] = {SIGHUP, SIGTERM, SIGINT};

static void on_agent_closed(void *user)
{
    struct daemon *d = user;

    d->agent = NULL;
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    pfl_watchdog_close(&d->watchdog);
    pfl_log_signals_close(&d->log_signals);
    pfl_agent_metrics_close(d->metrics);
    d->metrics = NULL;
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    if (d->agent == NULL)
        return;
    if (number == SIGHUP) {
        pfl_notify_send_reloading();
        pfl_agent_reload(d->agent);
        pfl_agent_metrics_reload(d->metrics);
        pfl_notify_send("READY=1");
        return;
    }
    pfl_notify_send("STOPPING=1");
    pfl_agent_close(d->agent);
}

/* Call before the loop runs, which dials. The folder is tested as the user of the running agent. */
static int confine(const struct pfl_agent_daemon_conf *conf)
{
    const struct pfl_spool_pool *pool = &conf->agent.pool;
    int rc = pfl_agent_sandbox_enter(conf);

    if (rc == 0 && pool->dir != NULL && pfl_spool_pool_try(pool) != 0) {
        rc = PFL_EIO;
        pfl_log_error(
            "spool-unusable",
            "folder=%s reason=\"%s\" remedy=\"give a folder of this user, on a local file "
            "system that knows O_TMPFILE\"",
            pfl_log_quote_str(pool->dir), strerror(errno));
    }
    return rc;
}

int pfl_agent_daemon_run(const struct pfl_agent_daemon_conf *conf)
{
    static struct daemon d;
    struct pfl_agent_conf agent = conf->agent;
    int rc;

    pfl_log_open("perfleet-agent", NULL);
    pfl_notify_open();
    if (pfl_loop_init(&d.loop) != 0)
        return PFL_EIO;
    agent.loop = &d.loop;
    agent.keeps_streams = pfl_notify_has_store();
    agent.on_closed = on_agent_closed;
    agent.user = &d;
    rc = pfl_agent_open(&agent, &d.agent);
    if (rc != 0) {
        (void)uv_loop_close(&d.loop);
        return rc;
    }
    pfl_watchdog_open(&d.watchdog, &d.loop);
    pfl_log_signals_open(&d.log_signals, &d.loop);
    for (int i = 0; i < 3; i++) {
        (void)uv_signal_init(&d.loop, &d.signals[i]);
        d.signals[i].data = &d;
        (void)uv_signal_start(&d.signals[i], on_signal, signal_numbers[i]);
    }
    rc = pfl_agent_metrics_open(conf, &d.loop, d.agent, &d.metrics);
    if (rc == 0)
        rc = confine(conf);
    if (rc == 0)
        rc = pfl_agent_open_collect(d.agent);
    if (rc == 0)
        pfl_notify_send("READY=1");
    else
        pfl_agent_close(d.agent);
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&d.loop);
    if (rc != 0)
        return rc;
    pfl_log_info("stopped", "all streams have ended, or are kept for the next process");
    return 0;
}
