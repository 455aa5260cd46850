/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's process: see daemon.h.
 *
 * Happy path: open the port, report readiness, run. SIGHUP reloads certificates for connections to
 * come. SIGTERM and SIGINT stop accepting and let connections finish; a second one, or the end of
 * drain_timeout_ms, closes the rest. Failures: the port does not open: logged there, returned here.
 * Ownership: owns the loop and its handles; the port frees itself at its on_closed.
 */
#include "relay/daemon.h"

#include <signal.h>

#include "base/io/handshake_queue.h"
#include "base/io/log_signals.h"
#include "base/io/loop.h"
#include "base/io/watchdog.h"
#include "base/log.h"
#include "base/notify.h"
#include "relay/accept/join_port.h"
#include "relay/metrics_port.h"
#include "relay/sandbox.h"

#define FORGETTING_MAX_MS 60000u
#define POLLS_PERIOD_MS   1000u

struct daemon {
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct pfl_watchdog watchdog;
    struct pfl_log_signals log_signals;
    uv_timer_t deadline;
    uv_timer_t forgetting;                  /* of hosts that left long ago */
    uv_timer_t polls;                       /* collectors that wait for changes */
    struct pfl_tls_port *port;              /* owned; NULL once closed */
    struct pfl_join_port *join;             /* owned; NULL: none, or closed */
    struct pfl_relay_metrics *metrics;      /* the same */
    struct pfl_handshake_queue *handshakes; /* owned; of all ports; NULL once closed */
    uint64_t drain_timeout_ms;
    bool is_stopping;
};

static const int signal_numbers[3] = {SIGHUP, SIGTERM, SIGINT};

static void on_port_closed(void *user)
{
    struct daemon *d = user;

    d->port = NULL;
    pfl_join_port_close(d->join);
    d->join = NULL;
    pfl_relay_metrics_close(d->metrics);
    d->metrics = NULL;
    pfl_handshake_queue_close(d->handshakes);
    d->handshakes = NULL;
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    pfl_watchdog_close(&d->watchdog);
    pfl_log_signals_close(&d->log_signals);
    uv_close((uv_handle_t *)&d->deadline, NULL);
    uv_close((uv_handle_t *)&d->forgetting, NULL);
    uv_close((uv_handle_t *)&d->polls, NULL);
}

static void on_deadline(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    if (d->port == NULL)
        return;
    pfl_log_warn("drain-deadline", "connections=%u are cut",
                 pfl_tls_port_count_connections(d->port));
    pfl_tls_port_close(d->port);
}

static void on_forgetting(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    if (d->port != NULL)
        pfl_tls_port_forget_old(d->port);
}

static void on_polls(uv_timer_t *timer)
{
    struct daemon *d = timer->data;

    if (d->port != NULL)
        pfl_tls_port_run_polls(d->port);
}

static void start_polls(struct daemon *d)
{
    (void)uv_timer_init(&d->loop, &d->polls);
    d->polls.data = d;
    (void)uv_timer_start(&d->polls, on_polls, POLLS_PERIOD_MS, POLLS_PERIOD_MS);
}

/* Often enough that a host is forgotten at most a fifth later than at its age. */
static void start_forgetting(struct daemon *d, uint64_t age_ms)
{
    uint64_t period_ms = age_ms / 5 < FORGETTING_MAX_MS ? age_ms / 5 : FORGETTING_MAX_MS;

    (void)uv_timer_init(&d->loop, &d->forgetting);
    d->forgetting.data = d;
    if (age_ms != 0)
        (void)uv_timer_start(&d->forgetting, on_forgetting, period_ms, period_ms);
}

static void stop(struct daemon *d)
{
    if (d->is_stopping) {
        pfl_tls_port_close(d->port);
        return;
    }
    d->is_stopping = true;
    pfl_notify_send("STOPPING=1");
    pfl_log_info("stopping", "connections=%u drain_timeout_ms=%llu",
                 pfl_tls_port_count_connections(d->port), (unsigned long long)d->drain_timeout_ms);
    (void)uv_timer_start(&d->deadline, on_deadline, d->drain_timeout_ms, 0);
    pfl_join_port_close(d->join);
    d->join = NULL;
    pfl_tls_port_drain(d->port);
}

static void reload(struct daemon *d)
{
    pfl_notify_send_reloading();
    pfl_tls_port_reload(d->port);
    pfl_join_port_reload(d->join);
    pfl_relay_metrics_reload(d->metrics);
    pfl_notify_send("READY=1");
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    if (d->port == NULL)
        return;
    if (number != SIGHUP)
        stop(d);
    else if (!d->is_stopping)
        reload(d);
}

static int open_join(struct daemon *d, const struct pfl_relay_daemon_conf *conf)
{
    const struct pfl_join_port_conf join = {.loop = &d->loop,
                                            .listen_address = conf->join_listen,
                                            .files = conf->port.files,
                                            .signer_socket = conf->signer,
                                            .handshakes = d->handshakes};

    return conf->signer != NULL ? pfl_join_port_open(&join, &d->join) : 0;
}

/* At most half of the connections may be without a certificate so far. */
static int open_port(struct daemon *d, const struct pfl_relay_daemon_conf *conf)
{
    struct pfl_tls_port_conf port = conf->port;
    unsigned max = port.max_connections > 1 ? port.max_connections / 2 : 1;
    int rc = pfl_handshake_queue_open(&d->loop, max, port.max_handshakes_per_min, &d->handshakes);

    if (rc != 0)
        return rc;
    port.loop = &d->loop;
    port.handshakes = d->handshakes;
    port.on_closed = on_port_closed;
    port.user = d;
    rc = pfl_tls_port_open(&port, &d->port);
    if (rc == 0)
        return 0;
    pfl_handshake_queue_close(d->handshakes);
    (void)uv_run(&d->loop, UV_RUN_DEFAULT);
    return rc;
}

int pfl_relay_daemon_run(const struct pfl_relay_daemon_conf *conf)
{
    static struct daemon d;
    int rc;

    pfl_log_open("perfleet-relay", NULL);
    pfl_notify_open();
    if (pfl_loop_init(&d.loop) != 0)
        return PFL_EIO;
    d.drain_timeout_ms = conf->drain_timeout_ms;
    rc = open_port(&d, conf);
    if (rc != 0) {
        (void)uv_loop_close(&d.loop);
        return rc;
    }
    pfl_watchdog_open(&d.watchdog, &d.loop); /* a descriptor, which the sandbox would refuse */
    pfl_log_signals_open(&d.log_signals, &d.loop);
    rc = open_join(&d, conf);
    if (rc == 0)
        rc = pfl_relay_metrics_open(conf, d.port, &d.metrics);
    if (rc == 0)
        rc = pfl_relay_sandbox_enter(conf);
    for (int i = 0; i < 3; i++) {
        (void)uv_signal_init(&d.loop, &d.signals[i]);
        d.signals[i].data = &d;
        (void)uv_signal_start(&d.signals[i], on_signal, signal_numbers[i]);
    }
    (void)uv_timer_init(&d.loop, &d.deadline);
    d.deadline.data = &d;
    start_forgetting(&d, conf->port.forget_after_ms);
    start_polls(&d);
    if (rc != 0) {
        pfl_tls_port_close(d.port);
        (void)uv_run(&d.loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&d.loop);
        return rc;
    }
    pfl_log_info("listening", "address=%s port=%u consumer_socket=%s",
                 pfl_log_quote_str(conf->port.listen_address), pfl_tls_port_get_number(d.port),
                 pfl_log_quote_str(conf->port.consumer_socket));
    pfl_notify_send("READY=1");
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&d.loop);
    pfl_log_info("stopped", "all connections have ended");
    return 0;
}
