/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connected socket as a pfl_stream, on uv_poll.
 *
 * Happy path: writev sends at once when nothing is queued; the rest is queued and sent on the next
 * wake-ups. A wake-up reads at most READ_BUDGET bytes through one buffer that all sockets share, so
 * a silent connection costs only this struct.
 * Failures: all are detected in on_poll, never reported from inside a call. After a failed send the
 * queue is dropped, data that the peer had sent before is still delivered, then on_closed is
 * called.
 * Closing: the descriptor is closed at once, on_closed follows with the last libuv handle. Received
 * descriptors, and a socket with unread ones, are closed by base/closer.h, because the peer can
 * delay that. So all descriptors of a message are received, and none from a user whose descriptors
 * still wait there.
 * Ownership: owns the descriptor, the queue and a received descriptor until on_fd.
 * Limits: queue_max_bytes; one descriptor a message; IOV_MAX pieces a sendmsg.
 *
 *   OPEN --close_after_flush--> FLUSHING --(TCP)--> LINGER --> CLOSING
 *     \---------------- close, failure ------------------------/
 */
#include "base/io/fdsock.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/io/fdqueue.h"
#include "base/io/stream_impl.h"
#include "base/io/wake_cost.h"
#include "base/log.h"
#include "base/mem.h"

#define READ_BUFFER_BYTES (128u * 1024)
#define READ_BUDGET_BYTES (256u * 1024)
#define SEND_BUDGET_BYTES (1024u * 1024)
#define SEND_PIECES       64

enum state { STATE_OPEN, STATE_FLUSHING, STATE_LINGER, STATE_CLOSING };

struct fdsock {
    struct pfl_stream base;
    uv_poll_t poll;
    uv_timer_t timer; /* runs in FLUSHING and LINGER, and while an open socket waits */
    struct pfl_fdqueue queue;
    size_t queue_max_bytes;
    size_t queue_low_bytes;
    size_t turn_max_bytes; /* read at a turn of the loop */
    int fd;                /* owned; -1 once closed */
    uint32_t uid;          /* of the peer, on a UNIX socket: the user whose share it uses */
    int polled;
    int close_err;
    int close_errno;
    enum state state;
    unsigned handles_open;
    bool is_unix;
    bool is_reading;
    bool has_eof;
    bool is_shutdown_wanted;
    bool is_shutdown_done;
    bool is_above_low;  /* on_writable is due at the low mark */
    bool is_write_dead; /* a send failed; the socket closes once its input is drained */
};

/* One loop, one thread: every socket reads through it. */
static uint8_t read_buffer[READ_BUFFER_BYTES];

/* Likewise. */
static struct pfl_wake_cost costs;

static void on_poll(uv_poll_t *handle, int status, int events);

static struct fdsock *self_of(struct pfl_stream *s)
{
    return PFL_CONTAINER_OF(s, struct fdsock, base);
}

static const struct fdsock *self_of_const(const struct pfl_stream *s)
{
    return PFL_CONTAINER_OF(s, const struct fdsock, base);
}

static int err_of_errno(int e)
{
    switch (e) {
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return PFL_ECLOSED;
    case ENOMEM:
        return PFL_ENOMEM;
    case ENOENT:
        return PFL_ENOENT;
    case EACCES:
    case EPERM:
        return PFL_EPERM;
    case EAGAIN:
        return PFL_EAGAIN;
    default:
        return PFL_EIO;
    }
}

static int wanted_events(const struct fdsock *s)
{
    bool can_read = s->is_reading && !s->has_eof;
    int want = 0;

    switch (s->state) {
    case STATE_OPEN:
        if (can_read)
            want |= UV_READABLE;
        if (s->queue.bytes != 0 || s->is_above_low ||
            (s->is_shutdown_wanted && !s->is_shutdown_done) || (can_read && s->is_write_dead))
            want |= UV_WRITABLE;
        return want;
    case STATE_FLUSHING:
        return UV_WRITABLE;
    case STATE_LINGER:
        return UV_READABLE;
    default:
        return 0;
    }
}

/* ---- what its user's sockets cost ---- */

static void end_call_of(uint32_t uid, struct pfl_wake_cost_call call)
{
    static struct pfl_log_limit limit;

    if (pfl_wake_cost_end(&costs, uid, call) &&
        pfl_log_limit_take(&limit, "socket-costly",
                           pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000))
        pfl_log_warn("socket-costly",
                     "uid=%u reason=\"very many wait for the other end of its sockets\"; its "
                     "sockets wait",
                     uid);
}

static void end_call(const struct fdsock *s, struct pfl_wake_cost_call call)
{
    if (s->is_unix)
        end_call_of(s->uid, call);
}

static uint64_t get_wait_ms_of(uint32_t uid)
{
    return costs.due_ns != 0
               ? pfl_wake_cost_get_wait_ms(&costs, uid, pfl_clock_now_ns(PFL_CLOCK_MONOTONIC))
               : 0;
}

static uint64_t get_wait_ms(const struct fdsock *s)
{
    return s->is_unix ? get_wait_ms_of(s->uid) : 0;
}

static void update_poll(struct fdsock *s);

static void on_wait_end(uv_timer_t *timer)
{
    update_poll(timer->data);
}

/* An open socket is polled again at the end of its user's wait. */
static bool waits(struct fdsock *s)
{
    uint64_t wait_ms = s->state == STATE_OPEN ? get_wait_ms(s) : 0;

    if (wait_ms != 0 && !uv_is_active((const uv_handle_t *)&s->timer))
        (void)uv_timer_start(&s->timer, on_wait_end, wait_ms, 0);
    return wait_ms != 0;
}

static void update_poll(struct fdsock *s)
{
    int want = wanted_events(s);

    if (want != 0 && waits(s))
        want = 0;
    if (s->state == STATE_CLOSING || want == s->polled)
        return;
    s->polled = want;
    if (want != 0)
        (void)uv_poll_start(&s->poll, want, on_poll);
    else
        (void)uv_poll_stop(&s->poll);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct fdsock *s = handle->data;

    if (--s->handles_open != 0)
        return;
    s->base.ops->on_closed(s->base.user, s->close_err);
    pfl_mem_free(s);
}

static void close_unix_socket(int fd, uint32_t uid)
{
    struct pfl_wake_cost_call call;

    if (get_wait_ms_of(uid) != 0) {
        pfl_closer_close_socket_later(&fd, uid);
        return;
    }
    call = pfl_wake_cost_begin(&costs);
    pfl_closer_close_socket(&fd, uid);
    end_call_of(uid, call);
}

void pfl_fdsock_drop(int fd)
{
    struct pfl_peer_cred cred;

    if (pfl_fdsock_get_cred(fd, &cred) == 0)
        close_unix_socket(fd, cred.who);
    else
        close(fd);
}

static void begin_close(struct fdsock *s, int err, int saved_errno)
{
    if (s->state == STATE_CLOSING)
        return;
    s->state = STATE_CLOSING;
    s->close_err = err;
    s->close_errno = saved_errno;
    pfl_fdqueue_fini(&s->queue);
    uv_close((uv_handle_t *)&s->poll, on_handle_closed);
    uv_close((uv_handle_t *)&s->timer, on_handle_closed);
    if (s->is_unix)
        close_unix_socket(s->fd, s->uid);
    else
        close(s->fd);
    s->fd = -1;
}

/* ---- sending ---- */

/* One sendmsg. Returns bytes taken, 0 when the kernel is full, or -errno. */
static ssize_t send_once(const struct fdsock *s, const struct iovec *iov, size_t iov_len, int fd)
{
    struct pfl_wake_cost_call call;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct msghdr msg = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = iov_len};
    ssize_t n;

    if (fd >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.align), &fd, sizeof(fd));
    }
    call = pfl_wake_cost_begin(&costs);
    do {
        n = sendmsg(s->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        n = errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
    end_call(s, call);
    return n;
}

/* Sends what the kernel takes now; an error is left for the loop to find. */
static size_t send_direct(struct fdsock *s, const struct iovec *iov, int iov_len, int fd)
{
    size_t sent = 0;

    while (iov_len > 0) {
        int count = iov_len < IOV_MAX ? iov_len : IOV_MAX;
        size_t want = 0;
        ssize_t n;

        for (int i = 0; i < count; i++)
            want += iov[i].iov_len;
        if (want != 0) {
            n = send_once(s, iov, (size_t)count, fd);
            if (n < 0)
                s->close_errno = (int)-n; /* the kernel reports it once */
            if (n <= 0)
                return sent;
            fd = -1;
            sent += (size_t)n;
            if ((size_t)n < want)
                return sent;
        }
        iov += count;
        iov_len -= count;
    }
    return sent;
}

static int sock_writev(struct pfl_stream *stream, const struct iovec *iov, int iov_len, int fd)
{
    struct fdsock *s = self_of(stream);
    size_t len;
    size_t sent = 0;
    int rc;

    if (s->state != STATE_OPEN || s->is_shutdown_wanted)
        return PFL_ESTATE;
    if (!pfl_stream_sum_iov(iov, iov_len, &len) || (fd >= 0 && (len == 0 || !s->is_unix)))
        return PFL_EINVAL;
    if (len == 0 || s->is_write_dead)
        return 0;
    if (len > s->queue_max_bytes || s->queue.bytes > s->queue_max_bytes - len)
        return PFL_ELIMIT;
    if (s->queue.bytes == 0 && get_wait_ms(s) == 0)
        sent = send_direct(s, iov, iov_len, fd);
    rc = pfl_fdqueue_append(&s->queue, iov, iov_len, sent, sent != 0 ? -1 : fd);
    if (rc != 0) {
        if (sent != 0)
            begin_close(s, rc, 0); /* half a write is out: nothing sane can follow */
        return rc;
    }
    if (s->queue.bytes > s->queue_low_bytes)
        s->is_above_low = true;
    update_poll(s);
    return 0;
}

/* 0 when the queue is empty, the kernel is full or the budget is used up; else an errno. */
static int flush_queue(struct fdsock *s)
{
    size_t budget = SEND_BUDGET_BYTES;

    while (s->queue.bytes != 0 && budget != 0) {
        struct iovec iov[SEND_PIECES];
        int fd;
        int pieces = pfl_fdqueue_get(&s->queue, iov, SEND_PIECES, &fd);
        ssize_t n = send_once(s, iov, (size_t)pieces, fd);

        if (n <= 0)
            return n < 0 ? (int)-n : 0;
        pfl_fdqueue_consume(&s->queue, (size_t)n);
        budget -= (size_t)n < budget ? (size_t)n : budget;
    }
    return 0;
}

/* Nothing can be sent any more; the socket closes once its input is drained. */
static void give_up_sending(struct fdsock *s, int e)
{
    s->is_write_dead = true;
    s->is_shutdown_done = true;
    if (s->close_errno == 0)
        s->close_errno = e;
    pfl_fdqueue_fini(&s->queue);
}

static void handle_writable(struct fdsock *s)
{
    int e = s->is_write_dead ? 0 : flush_queue(s);

    if (e != 0)
        give_up_sending(s, e);
    if (s->queue.bytes == 0 && s->is_shutdown_wanted && !s->is_shutdown_done) {
        (void)shutdown(s->fd, SHUT_WR);
        s->is_shutdown_done = true;
    }
    if (s->is_above_low && s->queue.bytes <= s->queue_low_bytes) {
        s->is_above_low = false;
        if (s->base.ops->on_writable != NULL)
            s->base.ops->on_writable(s->base.user);
    }
}

/* ---- receiving ---- */

/* Takes the descriptors out of `msg`. One goes to `ret_fd`; more than one is a violation. */
static int take_fds(const struct fdsock *s, struct msghdr *msg, int *ret_fd)
{
    int kept = -1;
    unsigned count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            if (count++ == 0)
                kept = fd;
            else
                pfl_closer_close(fd, s->uid);
        }
    }
    if (count > 1 || (msg->msg_flags & MSG_CTRUNC) != 0) {
        pfl_closer_close(kept, s->uid);
        return PFL_EPROTO;
    }
    *ret_fd = kept;
    return 0;
}

/* Returns bytes read, 0 at the end, -errno; -EPROTO for descriptors against the rule, -EDQUOT when
 * too many of this user's wait to be closed. */
static ssize_t recv_once(const struct fdsock *s, size_t max, int *ret_fd)
{
    union {
        struct cmsghdr align;
        char bytes[PFL_CLOSER_CONTROL_BYTES];
    } control;
    struct iovec iov = {.iov_base = read_buffer, .iov_len = max};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct pfl_wake_cost_call call;
    ssize_t n;

    *ret_fd = -1;
    if (s->is_unix) {
        if (!pfl_closer_has_room(s->uid))
            return -EDQUOT;
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
    }
    call = pfl_wake_cost_begin(&costs);
    do {
        n = recvmsg(s->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        n = -errno;
    end_call(s, call);
    if (n < 0)
        return n;
    if (s->is_unix && take_fds(s, &msg, ret_fd) != 0)
        return -EPROTO;
    return n;
}

static void deliver(struct fdsock *s, size_t len, int fd)
{
    if (fd >= 0) {
        if (s->base.ops->on_fd != NULL)
            s->base.ops->on_fd(s->base.user, fd);
        else
            pfl_closer_close(fd, s->uid);
    }
    if (s->state == STATE_OPEN)
        s->base.ops->on_data(s->base.user, pfl_span_of(read_buffer, len));
}

/* Stops reading from a user whose descriptors wait to be closed. */
static void refuse_descriptors(struct fdsock *s)
{
    static struct pfl_log_limit limit;

    if (pfl_log_limit_take(&limit, "descriptors-not-closed", uv_now(s->poll.loop)))
        pfl_log_warn(
            "descriptors-not-closed",
            "uid=%u; what this user, or all, passed takes long to close, the connection is "
            "ended",
            s->uid);
    begin_close(s, PFL_ELIMIT, 0);
}

static void handle_recv_end(struct fdsock *s, ssize_t n)
{
    if (n == -EAGAIN || n == -EWOULDBLOCK) {
        if (s->is_write_dead)
            begin_close(s, err_of_errno(s->close_errno), s->close_errno);
    } else if (n == -EPROTO) {
        begin_close(s, PFL_EPROTO, 0);
    } else if (n == -EDQUOT) {
        refuse_descriptors(s);
    } else if (n < 0) {
        if (err_of_errno((int)-n) == PFL_EIO)
            pfl_log_warn("socket-read-failed", "errno=%d reason=\"%s\"", (int)-n,
                         strerror((int)-n));
        begin_close(s, err_of_errno((int)-n), (int)-n);
    } else {
        s->has_eof = true;
        if (s->is_write_dead)
            begin_close(s, err_of_errno(s->close_errno), s->close_errno);
        else if (s->base.ops->on_eof != NULL)
            s->base.ops->on_eof(s->base.user);
    }
}

static void handle_readable(struct fdsock *s)
{
    size_t budget = s->turn_max_bytes;

    if (s->base.ops->on_input != NULL && !s->base.ops->on_input(s->base.user))
        return;
    while (budget != 0 && s->state == STATE_OPEN && s->is_reading && !s->has_eof) {
        size_t max = budget < sizeof(read_buffer) ? budget : sizeof(read_buffer);
        int fd;
        ssize_t n = recv_once(s, max, &fd);

        if (n <= 0) {
            handle_recv_end(s, n);
            return;
        }
        deliver(s, (size_t)n, fd);
        if ((size_t)n < max && !s->is_write_dead)
            return;
        budget -= (size_t)n;
    }
}

/* ---- wake-ups ---- */

static void handle_flushing(struct fdsock *s)
{
    int e = flush_queue(s);

    if (e != 0) {
        begin_close(s, err_of_errno(e), e);
        return;
    }
    if (s->queue.bytes != 0)
        return;
    if (s->is_unix) {
        begin_close(s, 0, 0);
        return;
    }
    /* Closing TCP with unread input would reset it and destroy what the peer has not read yet. */
    (void)shutdown(s->fd, SHUT_WR);
    s->state = STATE_LINGER;
}

static void handle_linger(struct fdsock *s)
{
    ssize_t n = recv(s->fd, read_buffer, sizeof(read_buffer), MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        begin_close(s, 0, 0);
}

static void handle_open(struct fdsock *s, int status, int events)
{
    int e = 0;
    socklen_t len = sizeof(e);

    if (status < 0) {
        events = UV_READABLE | UV_WRITABLE;
        if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &e, &len) == 0 && e != 0)
            give_up_sending(s, e);
    }
    if (events & UV_WRITABLE)
        handle_writable(s);
    if ((events & UV_READABLE) || s->is_write_dead)
        handle_readable(s);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct fdsock *s = handle->data;

    if (status < 0)
        s->polled = 0; /* libuv stops polling at an error of the socket */
    if (s->state == STATE_OPEN && (status < 0 || get_wait_ms(s) == 0))
        handle_open(s, status, events);
    else if (s->state == STATE_FLUSHING)
        handle_flushing(s);
    else if (s->state == STATE_LINGER)
        handle_linger(s);
    update_poll(s);
}

static void on_flush_timeout(uv_timer_t *timer)
{
    struct fdsock *s = timer->data;

    begin_close(s, s->queue.bytes != 0 ? PFL_ETIMEOUT : 0, 0);
}

/* ---- the rest of the table ---- */

static size_t sock_queued_bytes(const struct pfl_stream *stream)
{
    return self_of_const(stream)->queue.bytes;
}

static void sock_read_stop(struct pfl_stream *stream)
{
    self_of(stream)->is_reading = false;
    update_poll(self_of(stream));
}

static void sock_read_start(struct pfl_stream *stream)
{
    self_of(stream)->is_reading = true;
    update_poll(self_of(stream));
}

void pfl_fdsock_call_writable(struct pfl_stream *self)
{
    self_of(self)->is_above_low = true;
    update_poll(self_of(self));
}

static void sock_shutdown(struct pfl_stream *stream)
{
    self_of(stream)->is_shutdown_wanted = true;
    update_poll(self_of(stream));
}

static void sock_close(struct pfl_stream *stream)
{
    begin_close(self_of(stream), 0, 0);
}

static void sock_close_after_flush(struct pfl_stream *stream, uint64_t timeout_ms)
{
    struct fdsock *s = self_of(stream);

    if (s->state != STATE_OPEN)
        return;
    if (s->is_write_dead) {
        begin_close(s, err_of_errno(s->close_errno), s->close_errno);
        return;
    }
    s->state = STATE_FLUSHING;
    (void)uv_timer_start(&s->timer, on_flush_timeout, timeout_ms, 0);
    update_poll(s);
}

static int sock_get_errno(const struct pfl_stream *stream)
{
    return self_of_const(stream)->close_errno;
}

static const struct pfl_stream_vtable vtable = {
    .writev = sock_writev,
    .queued_bytes = sock_queued_bytes,
    .read_stop = sock_read_stop,
    .read_start = sock_read_start,
    .shutdown = sock_shutdown,
    .close = sock_close,
    .close_after_flush = sock_close_after_flush,
    .get_errno = sock_get_errno,
};

int pfl_fdsock_open(const struct pfl_stream_conf *conf, int fd, struct pfl_stream **ret_stream)
{
    struct pfl_peer_cred cred;
    struct fdsock *s;
    int rc;

    assert(conf->queue_max_bytes > 0 && conf->ops->on_data != NULL && conf->ops->on_closed != NULL);
    s = pfl_mem_zalloc(sizeof(*s));
    if (s == NULL)
        return PFL_ENOMEM;
    s->base = (struct pfl_stream){.vtable = &vtable, .ops = conf->ops, .user = conf->user};
    s->queue_max_bytes = conf->queue_max_bytes;
    s->queue_low_bytes = conf->queue_low_bytes;
    s->turn_max_bytes = conf->turn_max_bytes != 0 ? conf->turn_max_bytes : READ_BUDGET_BYTES;
    s->fd = fd;
    s->is_reading = true;
    pfl_fdqueue_init(&s->queue);
    rc = pfl_fdsock_prepare(fd, &s->is_unix);
    if (rc == 0 && s->is_unix && pfl_fdsock_get_cred(fd, &cred) == 0)
        s->uid = cred.who;
    if (rc == 0 && uv_poll_init(conf->loop, &s->poll, fd) != 0)
        rc = PFL_EIO;
    if (rc != 0) {
        pfl_mem_free(s);
        return rc;
    }
    (void)uv_timer_init(conf->loop, &s->timer);
    s->handles_open = 2;
    s->poll.data = s;
    s->timer.data = s;
    update_poll(s);
    *ret_stream = &s->base;
    return 0;
}
