/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's loop: one poll of two descriptors, signals and notices.
 *
 * Happy path: start the program; keep its descriptors, pass on its state and the signals that we
 * receive; when it stops by itself or on a signal, exit with its status. If it dies: read its last
 * notices before it is reaped, then start it again with the kept descriptors (restarts.h). It gives
 * up only if the program could not be executed the first time. As process 1 of a container it reaps
 * all orphans. Malformed datagrams, and those of strangers, are logged, with a limit, and dropped.
 * No seccomp list and no Landlock: the program, which has its own, would inherit both.
 */
#include "agent/supervisor/keep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/supervisor/child.h"
#include "agent/supervisor/notify_socket.h"
#include "agent/supervisor/restarts.h"
#include "base/clock.h"
#include "base/closer.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/notify.h"

/* One turn of the loop takes so many datagrams; at a death at most so many are before its last. */
#define DATAGRAMS_MAX 4096u
/* Descriptors: those kept, as many numbers for the copies, those of one datagram, and ours. */
#define FILES_SPARE (PFL_NOTIFY_SOCKET_MAX_FDS + 32u)
#define FILES_WANT  4096u

static const int stop_signals[] = {SIGTERM, SIGINT, SIGQUIT};
static const int other_signals[] = {SIGHUP, SIGUSR1, SIGUSR2};

struct keep {
    struct pfl_child_conf child;
    struct pfl_fd_store store;
    struct pfl_notify_socket socket;
    struct pfl_received received; /* the datagram at hand */
    struct pfl_restarts restarts;
    struct pfl_life life;
    int signal_fd;
    int wait_status; /* of the last process */
    pid_t pid;       /* 0: none runs */
    uint64_t begin_ms;
    uint64_t due_ms;
    uint64_t watchdog_due_ms;
    bool was_started; /* at least once it came to exec */
    bool is_stopping;
    bool is_over;
    int exit_status;
};

static uint64_t now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;
}

/* --- notices ----------------------------------------------------------------------------- */

static void take_removal(struct keep *k, const char *name)
{
    size_t removed = pfl_fd_store_remove(&k->store, name);

    pfl_log_debug("descriptor-removed", "name=%s count=%zu kept=%zu", name, removed, k->store.len);
}

static void take_fds(struct keep *k)
{
    struct pfl_received *r = &k->received;

    if (r->notice.has_bad_name)
        pfl_log_warn("name-refused", "fds=%zu taken_as=%s", r->fds_len, r->notice.name);
    for (size_t i = 0; i < r->fds_len; i++) {
        int rc = r->notice.stores ? pfl_fd_store_add(&k->store, r->notice.name, r->fds[i]) : 0;

        if (!r->notice.stores) /* sd_notify_barrier(3) waits for this */
            pfl_closer_close(r->fds[i], getuid());
        else if (rc == PFL_ELIMIT)
            pfl_log_warn("descriptor-refused", "name=%s kept=%zu max=%zu", r->notice.name,
                         k->store.len, k->store.max);
        else
            pfl_log_debug("descriptor-kept", "name=%s kept=%zu", r->notice.name, k->store.len);
    }
}

static void take_notice(struct keep *k)
{
    const struct pfl_notice *notice = &k->received.notice;

    k->life.was_ready |= notice->is_ready;
    if (notice->passed_on_len != 0)
        pfl_notify_send(notice->passed_on);
    if (notice->removes)
        take_removal(k, notice->name);
    take_fds(k);
}

static void take_notices(struct keep *k)
{
    for (unsigned i = 0; i < DATAGRAMS_MAX; i++) {
        pid_t from = 0;
        int rc = pfl_notify_socket_receive(&k->socket, k->pid, &k->received, &from);

        if (rc == PFL_EAGAIN)
            return;
        if (rc == 0)
            take_notice(k);
        else
            pfl_log_warn("datagram-refused", "pid=%ld reason=\"%s\"", (long)from, pfl_err_str(rc));
    }
}

/* --- the program ------------------------------------------------------------------------- */

static void end(struct keep *k, int exit_status)
{
    k->is_over = true;
    k->exit_status = exit_status;
}

static void wait_for_next(struct keep *k, const char *how, int number)
{
    uint64_t random;
    uint64_t wait_ms;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
        random = now_ms();
    wait_ms = pfl_restarts_wait_ms(&k->restarts, &k->life, random);
    k->due_ms = now_ms() + wait_ms;
    pfl_log_warn("program-died", "%s=%d up_ms=%llu kept=%zu again_in_ms=%llu", how, number,
                 (unsigned long long)k->life.up_ms, k->store.len, (unsigned long long)wait_ms);
}

static void start(struct keep *k)
{
    k->life = (struct pfl_life){0};
    if (pfl_child_start(&k->child, &k->pid) != 0) {
        k->pid = 0;
        wait_for_next(k, "errno", errno);
        return;
    }
    k->begin_ms = now_ms();
    pfl_log_info("program-started", "pid=%ld program=%s kept=%zu", (long)k->pid,
                 pfl_log_quote_str(k->child.argv[0]), k->store.len);
}

static void on_exec_failure(struct keep *k, int error)
{
    pfl_log_error("program-not-executed", "program=%s reason=\"%s\"",
                  pfl_log_quote_str(k->child.argv[0]), strerror(error));
    if (k->is_stopping || !k->was_started)
        end(k, error == ENOENT ? PFL_KEEP_EXIT_NOT_FOUND : PFL_KEEP_EXIT_NOT_EXECUTED);
    else
        wait_for_next(k, "errno", error);
}

/* Its number is given back already. */
static void on_death(struct keep *k, int wait_status)
{
    k->pid = 0;
    k->life.up_ms = now_ms() - k->begin_ms;
    if (*k->child.exec_errno != 0) {
        on_exec_failure(k, *k->child.exec_errno);
        return;
    }
    k->was_started = true;
    if (!pfl_restarts_is_due(wait_status, k->is_stopping)) {
        end(k, pfl_restarts_exit_status(wait_status));
        pfl_log_info("program-ended", "status=%d", k->exit_status);
    } else if (WIFSIGNALED(wait_status)) {
        wait_for_next(k, "signal", WTERMSIG(wait_status));
    } else {
        wait_for_next(k, "status", WEXITSTATUS(wait_status));
    }
}

static void reap(struct keep *k)
{
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        int wait_status;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
            return;
        if (info.si_pid == k->pid)
            take_notices(k);
        if (waitpid(info.si_pid, &wait_status, WNOHANG) == k->pid && k->pid != 0)
            on_death(k, wait_status);
    }
}

static bool is_to_stop(int number)
{
    for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++) {
        if (number == stop_signals[i])
            return true;
    }
    return false;
}

static void pass_signal(struct keep *k, int number)
{
    k->is_stopping |= is_to_stop(number);
    if (k->pid != 0 && kill(k->pid, number) != 0)
        pfl_log_warn("signal-not-passed-on", "signal=%d errno=%d", number, errno);
}

static void take_signals(struct keep *k)
{
    struct signalfd_siginfo info;

    while (read(k->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(k);
        else
            pass_signal(k, (int)info.ssi_signo);
    }
}

/* --- the loop ---------------------------------------------------------------------------- */

/* While no process runs, the signs of life are ours. */
static int get_timeout_ms(struct keep *k)
{
    uint64_t now = now_ms();

    if (k->pid != 0)
        return -1;
    return pfl_notify_watch(&k->watchdog_due_ms, now, k->due_ms > now ? (int)(k->due_ms - now) : 0);
}

static void loop(struct keep *k)
{
    start(k);
    while (!k->is_over) {
        struct pollfd fds[] = {{.fd = k->signal_fd, .events = POLLIN},
                               {.fd = k->socket.fd, .events = POLLIN}};
        int n = poll(fds, 2, get_timeout_ms(k));

        if (n < 0 && errno != EINTR && errno != ENOMEM) {
            pfl_log_error("poll-failed", "errno=%d", errno);
            k->is_stopping = true;
        }
        if (n > 0 && fds[1].revents != 0)
            take_notices(k);
        if (n > 0 && fds[0].revents != 0)
            take_signals(k);
        if (k->is_over || k->pid != 0)
            continue;
        if (k->is_stopping)
            end(k, 0);
        else if (now_ms() >= k->due_ms)
            start(k);
    }
}

/* As many descriptors as the store may take; the program has the same limit. */
static size_t raise_file_limit(void)
{
    struct rlimit limit;
    size_t max;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur < FILES_WANT) {
        limit.rlim_cur = limit.rlim_max < FILES_WANT ? limit.rlim_max : FILES_WANT;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    max = limit.rlim_cur > FILES_SPARE ? (size_t)(limit.rlim_cur - FILES_SPARE) / 2 : 0;
    if (max >= PFL_FD_STORE_MAX)
        return PFL_FD_STORE_MAX;
    pfl_log_warn("file-limit", "kept_max=%zu is what %llu open files allow", max,
                 (unsigned long long)limit.rlim_cur);
    return max;
}

static int open_signals(struct keep *k)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++)
        sigaddset(&set, stop_signals[i]);
    for (size_t i = 0; i < sizeof(other_signals) / sizeof(other_signals[0]); i++)
        sigaddset(&set, other_signals[i]);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored, there would be nothing to reap */
    (void)signal(SIGPIPE, SIG_IGN); /* the log may be a pipe or a file */
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)sigprocmask(SIG_BLOCK, &set, &k->child.signals);
    k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return k->signal_fd >= 0 ? 0 : PFL_EIO;
}

static int open_all(struct keep *k, const struct pfl_keep_conf *conf)
{
    void *shared =
        mmap(NULL, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rc;

    k->signal_fd = -1;
    k->socket.fd = -1;
    if (shared == MAP_FAILED)
        return PFL_ENOMEM;
    k->child.argv = conf->argv;
    k->child.exec_errno = shared;
    k->child.store = &k->store;
    k->restarts.backoff.max_ms = conf->restart_max_ms;
    k->store.max = raise_file_limit();
    rc = open_signals(k);
    if (rc == 0)
        rc = pfl_notify_socket_open(&k->socket);
    k->child.notify_socket = k->socket.name;
    return rc;
}

int pfl_keep_run(const struct pfl_keep_conf *conf, int *ret_exit_status)
{
    struct keep *k = pfl_mem_zalloc(sizeof(*k));
    int rc;

    if (k == NULL)
        return PFL_ENOMEM;
    rc = open_all(k, conf);
    if (rc == 0) {
        loop(k);
        *ret_exit_status = k->exit_status;
    }
    pfl_fd_store_fini(&k->store);
    pfl_notify_socket_close(&k->socket);
    if (k->signal_fd >= 0)
        (void)close(k->signal_fd);
    if (k->child.exec_errno != NULL)
        (void)munmap((void *)k->child.exec_errno, sizeof(int));
    pfl_mem_free(k);
    return rc;
}
