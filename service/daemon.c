/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of the daemon.
 *
 * run: service, ports, signals, sandbox; then the loop. Before each wait a prepare handle sends
 * observed events and sets the one timer to the service's next deadline. On SIGTERM and SIGINT the
 * ports close their connections, which ends the sessions; then the loop has no handles left and
 * returns.
 *
 * Failures: only at the start (an address that cannot be bound, no memory); what is open is closed
 * again. Limits: connections (PFL_SERVICE_MAX_PRODUCERS and PFL_SERVICE_MAX_CONSUMERS) and
 * descriptors, which users share.
 */
#include "service/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/deadline_timer.h"
#include "base/io/listener.h"
#include "base/io/listener_socket.h"
#include "base/io/log_signals.h"
#include "base/io/loop.h"
#include "base/io/loop_watch.h"
#include "base/io/watchdog.h"
#include "base/io/worker.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/service_user.h"
#include "base/subuids.h"
#include "service/copy/copier_parent.h"
#include "service/port/boost_port.h"
#include "service/port/consumer_port.h"
#include "service/port/copier_port.h"
#include "service/port/disk_port.h"
#include "service/port/guardrails_port.h"
#include "service/port/host_facts.h"
#include "service/port/memory_limit.h"
#include "service/port/producer_port.h"
#include "service/port/sandbox.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_attach.h"
#include "service/session/session_due.h"
#include "service/session/session_timers.h"

/* Workers step back behind the loop: compressing costs another session's client as little as the
 * kernel's scheduler can do. */
#define WORKER_NICE       10
#define FDS_OWN           (64u + PFL_COPIES_MAX) /* that are no connection's */
#define FILES_STUCK_MAX_S 10u                    /* when the service stops */
#define FDS_LEAST         128u                   /* for connections, whatever the limit */

struct daemon {
    uv_loop_t loop;
    struct pfl_deadline_timer timer;
    struct pfl_wakeup wakeup;  /* of the workers and of the files' threads */
    struct pfl_worker *worker; /* owned */
    uv_prepare_t prepare;
    uv_signal_t signals[2];
    size_t signals_len; /* initialized */
    bool has_alarm;
    struct pfl_watchdog watchdog;
    struct pfl_log_signals log_signals;
    struct pfl_loop_watch loop_watch; /* starts with the first query for metrics */
    struct pfl_guardrails_port guardrails;
    struct pfl_copier_port copiers;
    struct pfl_service_facts facts;
    struct pfl_service service;
    struct pfl_producer_port *producer_ports[PFL_DAEMON_MAX_PRODUCER_SOCKETS]; /* owned */
    size_t producer_ports_len;
    struct pfl_consumer_port *consumer_port; /* owned */
    uint32_t privileged_gid;
    bool has_privileged_gid;
    uv_timer_t files_watch; /* while the service stops */
    uint64_t files_progress;
    unsigned files_stuck_s;
    bool is_stopping;
};

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    (void)user;
    return pfl_clock_now_ns(id);
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    if (getrandom(dst, len, 0) != (ssize_t)len)
        memset(dst, 0x5a, len); /* cannot happen for so few bytes */
}

static int submit_work(void *user, struct pfl_work *work)
{
    struct daemon *d = user;

    return pfl_worker_submit(d->worker, work);
}

static int set_boost(void *user, const struct pfl_boost *boost)
{
    (void)user;
    return pfl_boost_port_set(boost);
}

static void measure(void *user, struct pfl_figures *figures)
{
    struct daemon *d = user;
    struct pfl_loop_look look;

    if (!d->is_stopping)
        pfl_loop_watch_start(&d->loop_watch, &d->loop);
    pfl_loop_watch_look(&d->loop_watch, &look);
    figures->values[PFL_FIGURE_CPU_NS] = look.cpu_ns;
    figures->values[PFL_FIGURE_LOOP_BUSY_NS] = look.busy_ns;
    figures->values[PFL_FIGURE_LOOP_LONGEST_NS] = look.longest_ns;
    pfl_consumer_port_get_queued(d->consumer_port, &figures->values[PFL_FIGURE_SEND_QUEUE_BYTES],
                                 &figures->values[PFL_FIGURE_SEND_QUEUE_LONGEST_BYTES]);
}

static void on_timer(void *user)
{
    struct daemon *d = user;

    pfl_session_due_run(&d->service);
}

static void on_prepare(uv_prepare_t *prepare)
{
    struct daemon *d = prepare->data;

    if (d->is_stopping)
        return;
    pfl_consumer_port_send_observed(d->consumer_port);
    pfl_deadline_timer_set(&d->timer, pfl_session_timers_next_ms(&d->service));
}

/* A file can take for ever: a pipe that nobody reads, a file system that does not answer. A thread
 * still has its bytes, so nothing is freed. */
static void on_files_watch(uv_timer_t *timer)
{
    struct daemon *d = timer->data;
    uint64_t progress = pfl_disk_port_get_progress();

    if (pfl_disk_port_get_busy() == 0 || progress != d->files_progress)
        d->files_stuck_s = 0;
    else
        d->files_stuck_s++;
    d->files_progress = progress;
    if (d->files_stuck_s < FILES_STUCK_MAX_S)
        return;
    pfl_log_error("trace-files-abandoned",
                  "count=%u reason=\"nothing could be written for %u s, and the service stops\"",
                  pfl_disk_port_get_busy(), FILES_STUCK_MAX_S);
    _exit(EXIT_SUCCESS);
}

static void watch_files(struct daemon *d)
{
    (void)uv_timer_init(&d->loop, &d->files_watch);
    d->files_watch.data = d;
    (void)uv_timer_start(&d->files_watch, on_files_watch, 1000, 1000);
    uv_unref((uv_handle_t *)&d->files_watch);
}

static void stop(struct daemon *d)
{
    if (d->is_stopping)
        return;
    d->is_stopping = true;
    watch_files(d);
    pfl_scrape_turns_stop(&d->service);
    pfl_session_end_detached(&d->service);
    for (size_t i = 0; i < d->producer_ports_len; i++)
        pfl_producer_port_close(d->producer_ports[i]);
    if (d->consumer_port != NULL)
        pfl_consumer_port_close(d->consumer_port);
    if (d->has_alarm)
        pfl_deadline_timer_close(&d->timer);
    pfl_guardrails_port_close(&d->guardrails);
    uv_close((uv_handle_t *)&d->prepare, NULL);
    for (size_t i = 0; i < d->signals_len; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
    pfl_watchdog_close(&d->watchdog);
    pfl_log_signals_close(&d->log_signals);
    (void)pfl_loop_watch_close(&d->loop_watch, NULL, NULL);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct daemon *d = handle->data;

    pfl_notify_send("STOPPING=1");
    pfl_log_info("stopping", "signal=%d", number);
    stop(d);
}

static int open_ports(struct daemon *d, const struct pfl_daemon_conf *conf)
{
    struct pfl_port_conf port = {
        .loop = &d->loop,
        .service = &d->service,
        .privileged_gid = d->has_privileged_gid ? &d->privileged_gid : NULL,
    };
    int rc;

    for (size_t i = 0; i < conf->producers_len; i++) {
        port.address = conf->producers[i].address;
        port.family = conf->producers[i].family;
        port.inherited_fd = conf->producers[i].inherited_fd;
        port.has_relay = conf->producers[i].has_relay;
        port.group = conf->producer_access.group;
        port.mode = conf->producer_access.mode;
        port.max_connections = PFL_SERVICE_MAX_PRODUCERS;
        rc = pfl_producer_port_open(&port, &d->producer_ports[i]);
        if (rc != 0)
            return rc;
        d->producer_ports_len++;
    }
    port.address = conf->consumer.address;
    port.family = PFL_SOCKET_UNIX;
    port.inherited_fd = conf->consumer.inherited_fd;
    port.has_relay = false;
    port.group = conf->consumer_access.group;
    port.mode = conf->consumer_access.mode;
    port.max_connections = PFL_SERVICE_MAX_CONSUMERS;
    return pfl_consumer_port_open(&port, &d->consumer_port);
}

/* In /tmp any user can create the socket first: other users' clients refuse a service there. */
static void warn_of_place(const struct pfl_daemon_socket *sock)
{
    char folder[PFL_SERVICE_USER_PLACE_BYTES];
    struct stat st;
    char *slash;

    if (sock->family != PFL_SOCKET_UNIX || sock->inherited_fd > 0 || sock->address[0] != '/')
        return;
    (void)snprintf(folder, sizeof(folder), "%s", sock->address);
    slash = strrchr(folder, '/');
    slash[slash == folder ? 1 : 0] = '\0';
    if (stat(folder, &st) != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return;
    pfl_log_warn("socket-place-shared",
                 "address=%s folder=%s effect=\"others can serve there before this service does, "
                 "and clients of other users speak to it only if it runs as root\" "
                 "remedy=\"make /run/perfetto, a folder of the service's user\"",
                 pfl_log_quote_str(sock->address), pfl_log_quote_str(folder));
}

static void warn_of_places(const struct pfl_daemon_conf *conf)
{
    for (size_t i = 0; i < conf->producers_len; i++)
        warn_of_place(&conf->producers[i]);
    warn_of_place(&conf->consumer);
}

/* The loop's own handles; a prepare handle cannot fail on an open loop. */
static int open_handles(struct daemon *d)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    int rc;

    (void)uv_prepare_init(&d->loop, &d->prepare);
    d->prepare.data = d;
    rc = pfl_deadline_timer_open(&d->timer, &d->loop, on_timer, d);
    if (rc != 0)
        return rc;
    d->has_alarm = true;
    pfl_watchdog_open(&d->watchdog, &d->loop);
    pfl_log_signals_open(&d->log_signals, &d->loop);
    for (size_t i = 0; i < 2; i++) {
        rc = uv_signal_init(&d->loop, &d->signals[i]);
        if (rc != 0)
            return PFL_EIO;
        d->signals[i].data = d;
        d->signals_len++;
    }
    (void)uv_prepare_start(&d->prepare, on_prepare);
    for (size_t i = 0; i < 2; i++) {
        rc = uv_signal_start(&d->signals[i], on_signal, numbers[i]);
        if (rc != 0)
            return PFL_EIO;
    }
    return 0;
}

/* Every connection is a descriptor, and every producer's memory one more. Returns how many there
 * are for connections: not those that wait to be closed, a message more, and one that comes. */
static uint64_t raise_descriptor_limit(void)
{
    struct rlimit limit;
    uint64_t own;
    uint64_t max;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        pfl_log_warn("descriptor-limit-not-raised", "errno=%d", errno);
    own = FDS_OWN + pfl_closer_get_max() + 2 * PFL_CLOSER_MESSAGE_FDS;
    max = limit.rlim_cur < INT32_MAX ? limit.rlim_cur : INT32_MAX;
    return max > own + FDS_LEAST ? max - own : FDS_LEAST;
}

/* The loop, and how threads reach it. */
static int open_loop(struct daemon *d)
{
    const struct pfl_worker_conf worker = {
        .loop = &d->loop, .threads_max = PFL_WORKER_THREADS_MAX, .nice = WORKER_NICE};
    int rc = pfl_loop_init(&d->loop) == 0 ? 0 : PFL_EIO;

    if (rc != 0)
        return rc;
    rc = pfl_wakeup_open(&d->wakeup, &d->loop);
    if (rc != 0)
        goto no_wakeup;
    rc = pfl_worker_open(&worker, &d->worker);
    if (rc == 0)
        return 0;
    pfl_wakeup_close(&d->wakeup);
    (void)uv_run(&d->loop, UV_RUN_DEFAULT);
no_wakeup:
    (void)uv_loop_close(&d->loop);
    return rc;
}

static void close_loop(struct daemon *d)
{
    pfl_worker_close(d->worker);
    pfl_wakeup_close(&d->wakeup);
    (void)uv_run(&d->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&d->loop);
}

/* While the group database can be read. */
static void find_privileged_group(struct daemon *d, const char *name)
{
    gid_t gid;

    if (name == NULL)
        return;
    d->has_privileged_gid = pfl_listener_socket_find_group(name, &gid);
    if (d->has_privileged_gid)
        d->privileged_gid = gid;
    else
        pfl_log_warn("privileged-group-missing",
                     "group=%s effect=\"exclusive_prio and lockdown_mode are for root and this "
                     "service's user\" remedy=\"groupadd --system, and start again\"",
                     pfl_log_quote_str(name));
}

/* Sockets listen, and this is the user for good. */
static void say_who_may(struct daemon *d, const struct pfl_daemon_conf *conf)
{
    d->facts.uid = (uint32_t)geteuid();
    if (conf->output_dirs_len == 0)
        pfl_log_info("output-path-limited",
                     "users=\"root and user %u\" reason=\"what a config names would be made with "
                     "this service's rights\" remedy=\"--output-dir, a folder for all\"",
                     d->facts.uid);
}

static int start_copiers(struct daemon *d, const struct pfl_daemon_conf *conf)
{
    int parent;
    int rc = pfl_copier_parent_start(conf->sandbox, conf->run_as, &parent);

    if (rc == 0)
        pfl_copier_port_open(&d->copiers, &d->loop, parent);
    return rc;
}

int pfl_daemon_run(const struct pfl_daemon_conf *conf)
{
    static struct daemon d;
    struct pfl_service_conf service = {.now_ns = read_clock,
                                       .random = read_random,
                                       .submit = submit_work,
                                       .boost = set_boost,
                                       .measure = measure,
                                       .user = &d,
                                       .copies = &pfl_copier_port_ops,
                                       .copies_user = &d.copiers,
                                       .disk = &pfl_disk_port_ops,
                                       .disk_user = &d.wakeup,
                                       .sessions_max = conf->sessions_max,
                                       .sessions_per_uid_max = conf->sessions_per_uid_max,
                                       .has_output_dirs = conf->output_dirs_len != 0,
                                       .facts = &d.facts};
    int rc;

    service.fds_max = raise_descriptor_limit(); /* of copiers, too */
    rc = start_copiers(&d, conf);
    if (rc != 0)
        return rc;
    find_privileged_group(&d, conf->privileged_group);
    pfl_subuids_load();
    pfl_smb_map_guard();
    pfl_host_facts_read(&d.facts);
    service.buffer_bytes_max = d.facts.ram_bytes;
    service.memory_max = pfl_memory_limit_read("/proc/self/cgroup", "/sys/fs/cgroup");
    rc = open_loop(&d);
    if (rc != 0)
        return rc;
    rc = pfl_service_init(&d.service, &service);
    if (rc != 0) {
        close_loop(&d);
        return rc;
    }
    rc = open_handles(&d);
    if (rc == 0 && conf->has_guardrails)
        rc = pfl_guardrails_port_open(&d.guardrails, &d.loop, &d.service);
    if (rc == 0)
        rc = open_ports(&d, conf);
    if (rc == 0) {
        warn_of_places(conf);
        rc = pfl_service_sandbox_enter(conf);
    }
    if (rc == 0)
        say_who_may(&d, conf);
    pfl_service_set_owner(&d.service, d.facts.uid);
    pfl_worker_set_owner(d.worker, d.facts.uid);
    if (rc != 0)
        stop(&d);
    else if (conf->on_ready != NULL)
        conf->on_ready(conf->user);
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&d.files_watch, NULL);
    pfl_service_fini(&d.service);
    close_loop(&d);
    pfl_copier_port_close(&d.copiers);
    return rc;
}
