/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector's process: see daemon.h.
 *
 * Happy path: open relays (which learns the collector's name) and engines, enter the sandbox,
 * report readiness, run. SIGHUP reloads certificates. SIGTERM and SIGINT end visits where they are:
 * what is not live is read again later. Failures: what does not open is logged there, and returned
 * here. Ownership: owns the loop and its handles; relays free themselves at their on_closed.
 */
#include "collector/daemon.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>

#include "base/io/log_signals.h"
#include "base/io/loop.h"
#include "base/io/watchdog.h"
#include "base/log.h"
#include "base/notify.h"
#include "collector/metrics_port.h"
#include "collector/order/rollout_port.h"
#include "collector/retain/cleaner_port.h"
#include "collector/sandbox.h"
#include "collector/serve/serve_port.h"

struct daemon {
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct pfl_watchdog watchdog;
    struct pfl_log_signals log_signals;
    struct pfl_engines engines;
    struct pfl_relays *relays;             /* owned until its on_closed */
    struct pfl_pull *pull;                 /* owned */
    struct pfl_rollout_port *rollout;      /* owned */
    struct pfl_serve *serve;               /* owned until its on_closed */
    struct pfl_cleaner *cleaner;           /* owned */
    struct pfl_collector_metrics *metrics; /* owned; NULL: none */
    bool is_stopping;
    char index[PATH_MAX];
};

#define KEEP_PERCENT   80u /* of the store's file system */
#define FILES_OF_TRACE 3u  /* the trace, its description, and a folder that has no other one */

static const int signal_numbers[3] = {SIGHUP, SIGTERM, SIGINT};

/* What uses the engines ends first, and is freed when their work has ended. */
static void close_work(struct daemon *d)
{
    pfl_pull_stop(d->pull);
    pfl_rollout_port_stop(d->rollout);
    pfl_serve_stop(d->serve);
    pfl_cleaner_stop(d->cleaner);
    pfl_engines_close(&d->engines);
    pfl_pull_close(d->pull);
    pfl_rollout_port_close(d->rollout);
    pfl_serve_close(d->serve);
    pfl_cleaner_close(d->cleaner);
    d->pull = NULL;
    d->rollout = NULL;
    d->serve = NULL;
    d->cleaner = NULL;
}

static void stop(struct daemon *d)
{
    if (d->is_stopping)
        return;
    d->is_stopping = true;
    pfl_notify_send("STOPPING=1");
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    pfl_watchdog_close(&d->watchdog);
    pfl_log_signals_close(&d->log_signals);
    pfl_collector_metrics_close(d->metrics);
    close_work(d);
    pfl_relays_close(d->relays);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    if (number != SIGHUP) {
        stop(d);
        return;
    }
    pfl_notify_send_reloading();
    pfl_relays_reload(d->relays);
    pfl_serve_reload(d->serve);
    pfl_collector_metrics_reload(d->metrics);
    pfl_notify_send("READY=1");
}

static void on_replaced(void *user)
{
    pfl_log_error("replaced", "reason=\"another collector has joined the index under this name\" "
                              "remedy=\"give each its own --instance\"");
    stop(user);
}

static void on_collector_lost(void *user)
{
    struct daemon *d = user;

    if (d->rollout != NULL)
        pfl_rollout_port_on_collector_lost(d->rollout);
}

/* ---- relays ---- */

static void on_host(void *user, unsigned relay, const struct pfl_spool_host *host)
{
    struct daemon *d = user;

    if (d->pull != NULL)
        pfl_pull_on_host(d->pull, relay, host);
    if (d->rollout != NULL)
        pfl_rollout_port_on_host(d->rollout, relay, host);
    if (d->serve != NULL)
        pfl_serve_on_host(d->serve, relay, host);
}

static void on_listed(void *user, unsigned relay, bool is_whole)
{
    struct daemon *d = user;

    if (d->pull != NULL)
        pfl_pull_on_listed(d->pull);
    if (d->rollout != NULL)
        pfl_rollout_port_on_listed(d->rollout, relay, is_whole);
}

static void on_lost(void *user, unsigned relay)
{
    struct daemon *d = user;

    if (d->pull != NULL)
        pfl_pull_on_relay_lost(d->pull, relay);
    if (d->rollout != NULL)
        pfl_rollout_port_on_relay_lost(d->rollout, relay);
    if (d->serve != NULL)
        pfl_serve_on_relay_lost(d->serve, relay);
}

static void on_relays_closed(void *user)
{
    struct daemon *d = user;

    d->relays = NULL;
}

/* ---- opening ---- */

static int open_relays(struct daemon *d, const struct pfl_collector_conf *conf)
{
    struct pfl_relays_conf relays = {
        .loop = &d->loop,
        .files = conf->files,
        .len = conf->relays_len,
        .on_host = on_host,
        .on_listed = on_listed,
        .on_lost = on_lost,
        .on_closed = on_relays_closed,
        .user = d,
    };

    for (size_t i = 0; i < conf->relays_len; i++)
        relays.addresses[i] = conf->relays[i];
    return pfl_relays_open(&relays, &d->relays);
}

static int open_engines(struct daemon *d, const struct pfl_collector_conf *conf)
{
    struct pfl_engines_conf engines = {
        .loop = &d->loop,
        .store = conf->store,
        .index = d->index,
        .name = conf->instance != NULL ? conf->instance : pfl_relays_get_name(d->relays),
        .on_replaced = on_replaced,
        .on_collector_lost = on_collector_lost,
        .user = d,
    };
    int len = conf->index != NULL ? snprintf(d->index, sizeof(d->index), "%s", conf->index)
                                  : snprintf(d->index, sizeof(d->index), "sqlite:%s/index.sqlite",
                                             conf->store.where);

    if (len < 0 || (size_t)len >= sizeof(d->index))
        return PFL_ELIMIT;
    return pfl_engines_open(&engines, &d->engines);
}

static void on_visited(void *user, const char *host)
{
    const struct daemon *d = user;

    if (d->rollout != NULL)
        pfl_rollout_port_on_visited(d->rollout, host);
}

static int open_pull(struct daemon *d, const struct pfl_collector_conf *conf)
{
    struct pfl_pull_conf pull = {
        .loop = &d->loop,
        .engines = &d->engines,
        .relays = d->relays,
        .visits_max = conf->max_visits,
        .newest_first = conf->newest_first,
        .newest_first_len = conf->newest_first_len,
        .on_visited = on_visited,
        .user = d,
    };

    return pfl_pull_open(&pull, &d->pull);
}

static int open_rollout(struct daemon *d)
{
    struct pfl_rollout_port_conf rollout = {
        .loop = &d->loop,
        .engines = &d->engines,
        .relays = d->relays,
        .turns_max = PFL_ROLLOUT_TURNS_MAX,
    };

    return pfl_rollout_port_open(&rollout, &d->rollout);
}

static void on_orders_changed(void *user)
{
    struct daemon *d = user;

    if (d->rollout != NULL)
        pfl_rollout_port_on_orders(d->rollout);
}

static void on_serve_closed(void *user)
{
    (void)user; /* the loop ends with its last handle */
}

static int open_serve(struct daemon *d, const struct pfl_collector_conf *conf)
{
    struct pfl_serve_conf serve = {
        .loop = &d->loop,
        .engines = &d->engines,
        .relays = d->relays,
        .files = conf->files,
        .len = conf->relays_len,
        .on_orders_changed = on_orders_changed,
        .on_closed = on_serve_closed,
        .user = d,
    };

    for (size_t i = 0; i < conf->relays_len; i++)
        serve.addresses[i] = conf->relays[i];
    return pfl_serve_open(&serve, &d->serve);
}

/*
 * Without a bound of their own, traces leave a part of the file system to others. Whatever their
 * bytes, there are no more than it may have files: small ones would use up these first, and then no
 * file can be made any more.
 */
static void set_bounds(struct daemon *d, bool is_capacity_kept, struct pfl_keep_rules *rules)
{
    struct pfl_store_capacity capacity = {.bytes = 0};

    if (pfl_store_get_capacity(d->engines.store, &capacity) != 0 && is_capacity_kept)
        pfl_log_warn("no-bound-of-bytes", "reason=\"the store is no file system, and there is no "
                                          "--keep-bytes\" effect=\"age and classes bound it\"");
    if (is_capacity_kept)
        rules->bytes = capacity.bytes / 100 * KEEP_PERCENT;
    rules->traces = capacity.files / 100 * KEEP_PERCENT / FILES_OF_TRACE;
}

static int open_cleaner(struct daemon *d, const struct pfl_collector_conf *conf)
{
    struct pfl_keep_rules rules = conf->keep;
    const struct pfl_cleaner_conf cleaner = {
        .loop = &d->loop,
        .engines = &d->engines,
        .rules = &rules,
        .fleet = pfl_relays_get_fleet(d->relays),
    };

    set_bounds(d, conf->is_capacity_kept, &rules);
    return pfl_cleaner_open(&cleaner, &d->cleaner);
}

static void watch_signals(struct daemon *d)
{
    pfl_watchdog_open(&d->watchdog, &d->loop);
    pfl_log_signals_open(&d->log_signals, &d->loop);
    for (int i = 0; i < 3; i++) {
        (void)uv_signal_init(&d->loop, &d->signals[i]);
        d->signals[i].data = d;
        (void)uv_signal_start(&d->signals[i], on_signal, signal_numbers[i]);
    }
}

/* All that is opened before the first signal can come. */
static int open_parts(struct daemon *d, const struct pfl_collector_conf *conf)
{
    int rc = open_relays(d, conf);

    if (rc != 0)
        return rc;
    rc = open_engines(d, conf);
    if (rc == 0) {
        rc = open_pull(d, conf);
        if (rc == 0)
            rc = open_rollout(d);
        if (rc == 0)
            rc = open_serve(d, conf);
        if (rc == 0)
            rc = open_cleaner(d, conf);
        if (rc != 0)
            close_work(d);
    }
    if (rc != 0)
        pfl_relays_close(d->relays);
    return rc;
}

int pfl_collector_run(const struct pfl_collector_conf *conf)
{
    static struct daemon d;
    struct pfl_collector_parts parts;
    int rc;

    pfl_log_open("perfleet-collector", NULL);
    pfl_notify_open();
    if (pfl_loop_init(&d.loop) != 0)
        return PFL_EIO;
    rc = open_parts(&d, conf);
    if (rc == 0) {
        watch_signals(&d);
        parts = (struct pfl_collector_parts){.loop = &d.loop,
                                             .relays = d.relays,
                                             .pull = d.pull,
                                             .rollout = d.rollout,
                                             .serve = d.serve,
                                             .cleaner = d.cleaner};
        rc = pfl_collector_metrics_open(conf, &parts, &d.metrics);
        if (rc == 0)
            rc = pfl_collector_sandbox_enter(conf, d.index);
        if (rc != 0)
            stop(&d);
    }
    if (rc == 0) {
        pfl_log_info("collecting", "collector=%s fleet=%s relays=%zu store=%s index=%s",
                     pfl_relays_get_name(d.relays), pfl_relays_get_fleet(d.relays),
                     conf->relays_len, pfl_log_quote_str(conf->store.where),
                     pfl_log_quote_str(d.index));
        pfl_notify_send("READY=1");
    }
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&d.loop);
    if (rc == 0)
        pfl_log_info("stopped", "what was not stored stays at its hosts");
    return rc;
}
