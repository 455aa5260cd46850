/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listening socket on the loop: see listener.h.
 *
 * Happy path: each wake-up accepts at most ACCEPT_BUDGET connections and passes them to on_accept.
 * Besides it closes those that may_accept refuses, for REFUSE_BUDGET_NS, so that the kernel's queue
 * is emptied, and a flood holds nobody else up.
 * At max_connections it stops polling until one is released. When few descriptors or no memory are
 * left it stops too, until a release or RETRY_MS, so that it never spins.
 * Ownership: owns the listening descriptor (listener_socket.c makes it) and the socket file; an
 * accepted descriptor is the callee's. The object is freed when its handles are closed and the last
 * connection is released.
 */
#include "base/io/listener.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/listener_socket.h"
#include "base/log.h"
#include "base/mem.h"

#define ACCEPT_BUDGET    8u      /* some 0.1 ms of a turn of the loop */
#define REFUSE_BUDGET_NS 100000u /* at least one */
#define RETRY_MS         500u
#define SPARE_FDS        512u /* or a quarter of what may be open */

struct pfl_listener {
    uv_poll_t poll;
    uv_timer_t retry;
    struct pfl_listener_socket sock;         /* owned */
    bool (*may_accept)(void *user, int *fd); /* NULL: all may */
    void (*on_accept)(void *user, int fd);
    void (*on_closed)(void *user);
    void *user;
    unsigned max_connections;
    int fds_max;   /* accepts while the lowest free descriptor is below */
    unsigned live; /* accepted and not released */
    unsigned handles_open;
    bool is_full;      /* at max_connections */
    bool is_exhausted; /* accept failed for lack of descriptors or memory */
    struct pfl_log_limit full_log;
    struct pfl_log_limit exhausted_log;
    bool is_exhaustion_logged; /* once an episode: until an accept succeeds */
    bool is_closing;
};

static void on_poll(uv_poll_t *handle, int status, int events);

static void resume(struct pfl_listener *l)
{
    if (l->is_closing || l->is_full || l->is_exhausted)
        return;
    (void)uv_poll_start(&l->poll, UV_READABLE, on_poll);
}

static void on_retry(uv_timer_t *timer)
{
    struct pfl_listener *l = timer->data;

    l->is_exhausted = false;
    resume(l);
}

static void pause_exhausted(struct pfl_listener *l, int e)
{
    if (!l->is_exhaustion_logged &&
        pfl_log_limit_take(&l->exhausted_log, "accept-paused", uv_now(l->poll.loop)))
        pfl_log_error("accept-paused",
                      "address=%s reason=\"%s\" remedy=\"raise the limit of open files "
                      "(LimitNOFILE=, ulimit -n) or close connections\"",
                      pfl_log_quote_str(l->sock.name), strerror(e));
    l->is_exhaustion_logged = true;
    l->is_exhausted = true;
    (void)uv_timer_start(&l->retry, on_retry, RETRY_MS, 0);
    (void)uv_poll_stop(&l->poll);
}

static void pause_full(struct pfl_listener *l)
{
    if (!l->is_full && pfl_log_limit_take(&l->full_log, "connections-full", uv_now(l->poll.loop)))
        pfl_log_warn("connections-full",
                     "address=%s max_connections=%u; new ones wait until one ends",
                     pfl_log_quote_str(l->sock.name), l->max_connections);
    l->is_full = true;
    (void)uv_poll_stop(&l->poll);
}

/* A message brings up to 253 descriptors (base/closer.h). Those for which there is no number would
 * be closed inside recvmsg, so some are left free. */
static bool has_spare_fds(const struct pfl_listener *l)
{
    int lowest = fcntl(l->sock.fd, F_DUPFD_CLOEXEC, 0);

    if (lowest >= 0)
        (void)close(lowest);
    return lowest >= 0 && lowest < l->fds_max && !pfl_closer_is_full();
}

unsigned pfl_listener_get_fds_max(void)
{
    struct rlimit limit = {.rlim_cur = 1024};
    rlim_t spare;

    (void)getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur > INT_MAX)
        limit.rlim_cur = INT_MAX;
    spare = limit.rlim_cur / 4 < SPARE_FDS ? limit.rlim_cur / 4 : SPARE_FDS;
    return (unsigned)(limit.rlim_cur - spare);
}

/* In a wake-up. */
struct counts {
    unsigned accepted;
    uint64_t refusing_ns;
};

static void pass_on(struct pfl_listener *l, int fd, struct counts *counts)
{
    uint64_t begin_ns = l->may_accept != NULL ? uv_hrtime() : 0;

    l->is_exhaustion_logged = false;
    if (l->may_accept != NULL && !l->may_accept(l->user, &fd)) {
        counts->refusing_ns += uv_hrtime() - begin_ns;
        return;
    }
    counts->accepted++;
    l->live++;
    l->on_accept(l->user, fd);
}

/* False when there is nothing more to accept now. */
static bool accept_one(struct pfl_listener *l, struct counts *counts)
{
    int fd = accept4(l->sock.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) {
        pass_on(l, fd, counts);
        return true;
    }
    counts->accepted++; /* it counts, too: no error is tried again without end */
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        pause_exhausted(l, errno);
        return false;
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
        return true;
    default:
        return false; /* EAGAIN, and the network errors accept(2) says to treat like it */
    }
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct pfl_listener *l = handle->data;
    struct counts counts = {0};

    (void)events;
    if (status < 0) {
        resume(l);
        return;
    }
    if (l->live < l->max_connections && !has_spare_fds(l)) {
        pause_exhausted(l, EMFILE);
        return;
    }
    while (counts.accepted < ACCEPT_BUDGET && counts.refusing_ns < REFUSE_BUDGET_NS &&
           !l->is_closing) {
        if (l->live >= l->max_connections) {
            pause_full(l);
            return;
        }
        if (!accept_one(l, &counts))
            return;
    }
}

static void free_if_done(struct pfl_listener *l)
{
    if (l->handles_open == 0 && l->live == 0)
        pfl_mem_free(l);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_listener *l = handle->data;

    if (--l->handles_open != 0)
        return;
    if (l->on_closed != NULL)
        l->on_closed(l->user);
    free_if_done(l);
}

void pfl_listener_release(struct pfl_listener *self)
{
    assert(self->live > 0);
    self->live--;
    if (self->is_closing) {
        free_if_done(self);
        return;
    }
    if (!self->is_full && !self->is_exhausted)
        return;
    self->is_full = false;
    self->is_exhausted = false;
    resume(self);
}

uint16_t pfl_listener_get_port(const struct pfl_listener *self)
{
    return self->sock.port;
}

void pfl_listener_close(struct pfl_listener *self)
{
    if (self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->poll, on_handle_closed);
    uv_close((uv_handle_t *)&self->retry, on_handle_closed);
    pfl_listener_socket_close(&self->sock);
}

int pfl_listener_open(const struct pfl_listener_conf *conf, struct pfl_listener **ret_listener)
{
    struct pfl_listener *l;
    int rc;

    assert(conf->max_connections > 0 && conf->on_accept != NULL);
    l = pfl_mem_zalloc(sizeof(*l));
    if (l == NULL)
        return PFL_ENOMEM;
    rc = pfl_listener_socket_open(&l->sock, conf);
    if (rc == 0 && uv_poll_init(conf->loop, &l->poll, l->sock.fd) != 0) {
        pfl_listener_socket_close(&l->sock);
        rc = PFL_EIO;
    }
    if (rc != 0) {
        pfl_mem_free(l);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &l->retry);
    l->handles_open = 2;
    l->poll.data = l;
    l->retry.data = l;
    l->may_accept = conf->may_accept;
    l->on_accept = conf->on_accept;
    l->on_closed = conf->on_closed;
    l->user = conf->user;
    l->max_connections = conf->max_connections;
    l->fds_max = (int)pfl_listener_get_fds_max();
    resume(l);
    *ret_listener = l;
    return 0;
}
