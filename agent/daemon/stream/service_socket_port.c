/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the service: see service_socket_port.h.
 *
 * Happy path: one read per wake-up, as large as the owner has room; one write per call. Failures: a
 * failed read is the service's end; after a failed write, bytes that the service had sent are still
 * read. A service sends no descriptors to consumers: received ones are closed, and so is a
 * connection with unread ones, on threads (base/closer.h). If more arrive than these can close, the
 * connection ends. Ownership: the descriptor, the poll handle. Limits: none of its own.
 */
#include "agent/daemon/stream/service_socket_port.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/fdsock.h"
#include "base/mem.h"

struct pfl_service_socket {
    struct pfl_service_socket_conf conf;
    uv_poll_t poll;
    uint32_t uid; /* the service's */
    int polled;
    bool is_reading;
    bool has_eof;
    bool is_full; /* on_writable is due */
    bool is_shut; /* nothing is sent any more */
    bool is_closing;
};

static void on_poll(uv_poll_t *handle, int status, int events);

static void update_poll(struct pfl_service_socket *s)
{
    int want = (s->is_reading && !s->has_eof ? UV_READABLE : 0) | (s->is_full ? UV_WRITABLE : 0);

    if (s->is_closing || want == s->polled)
        return;
    s->polled = want;
    if (want != 0)
        (void)uv_poll_start(&s->poll, want, on_poll);
    else
        (void)uv_poll_stop(&s->poll);
}

static void end_reading(struct pfl_service_socket *s)
{
    s->has_eof = true;
    update_poll(s);
    s->conf.ops->on_eof(s->conf.user);
}

static void read_some(struct pfl_service_socket *s)
{
    struct pfl_noted_call *call = pfl_stream_memory_get_reading(s->conf.memory);
    union {
        struct cmsghdr align;
        char bytes[PFL_CLOSER_CONTROL_BYTES];
    } control;
    struct iovec pieces[2];
    uint64_t reads;
    int len = s->conf.ops->get_room(s->conf.user, pieces, &reads);
    int rc;

    if (len == 0)
        return;
    if (!pfl_closer_has_room(s->uid)) {
        end_reading(s);
        return;
    }
    call->message.msg_hdr = (struct msghdr){.msg_iov = pieces,
                                            .msg_iovlen = (size_t)len,
                                            .msg_control = control.bytes,
                                            .msg_controllen = sizeof(control.bytes)};
    pfl_noted_call_begin(call, reads);
    rc = recvmmsg(s->conf.fd, &call->message, 1, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
    if (rc < 0 && errno == ECONNRESET) /* reported once, before bytes that were sent before it */
        rc = recvmmsg(s->conf.fd, &call->message, 1, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
    if (rc == 1)
        pfl_closer_close_received(&call->message.msg_hdr, s->uid);
    if (rc < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return;
    if (rc < 1 || call->message.msg_len == 0)
        end_reading(s);
    else
        s->conf.ops->on_read(s->conf.user, call->message.msg_len);
}

/* Callbacks may close the socket; it stays until the loop's next turn. */
static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct pfl_service_socket *s = handle->data;

    if (status < 0) { /* the poll has ended; the calls return the error */
        events = UV_READABLE | UV_WRITABLE;
        s->polled = 0;
    }
    if ((events & UV_WRITABLE) != 0 && s->is_full) {
        s->is_full = false;
        s->conf.ops->on_writable(s->conf.user);
    }
    if (!s->is_closing && (events & UV_READABLE) != 0 && s->is_reading && !s->has_eof)
        read_some(s);
    update_poll(s);
}

int pfl_service_socket_open(const struct pfl_service_socket_conf *conf,
                            struct pfl_service_socket **ret_socket)
{
    struct pfl_service_socket *s = pfl_mem_zalloc(sizeof(*s));
    struct pfl_peer_cred cred;

    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = *conf;
    s->uid = pfl_fdsock_get_cred(conf->fd, &cred) == 0 ? cred.uid : PFL_CLOSER_NOBODY;
    s->poll.data = s;
    if (uv_poll_init(conf->loop, &s->poll, conf->fd) != 0) {
        pfl_mem_free(s);
        return PFL_ENOMEM;
    }
    s->is_reading = true;
    update_poll(s);
    *ret_socket = s;
    return 0;
}

static void on_poll_closed(uv_handle_t *handle)
{
    pfl_mem_free(handle->data);
}

void pfl_service_socket_break(struct pfl_service_socket *self)
{
    if (self != NULL)
        (void)shutdown(self->conf.fd, SHUT_RDWR);
}

void pfl_service_socket_close(struct pfl_service_socket *self)
{
    int unread = 0;

    if (self == NULL || self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->poll, on_poll_closed);
    if (ioctl(self->conf.fd, FIONREAD, &unread) == 0 && unread == 0)
        (void)close(self->conf.fd);
    else
        pfl_closer_close(self->conf.fd, self->uid); /* no shutdown: it may be kept elsewhere */
}

int pfl_service_socket_get_fd(const struct pfl_service_socket *self)
{
    return self->conf.fd;
}

void pfl_service_socket_read_stop(struct pfl_service_socket *self)
{
    self->is_reading = false;
    update_poll(self);
}

void pfl_service_socket_read_start(struct pfl_service_socket *self)
{
    self->is_reading = true;
    update_poll(self);
}

int pfl_service_socket_send(struct pfl_service_socket *self, struct pfl_span data, uint64_t writes,
                            size_t *ret_len)
{
    struct pfl_noted_call *call = pfl_stream_memory_get_writing(self->conf.memory);
    struct iovec piece = {.iov_base = (void *)(uintptr_t)data.data, .iov_len = data.len};
    int rc;

    *ret_len = 0;
    if (self->is_shut)
        return PFL_ECLOSED;
    if (self->is_full)
        return 0;
    call->message.msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
    pfl_noted_call_begin(call, writes);
    rc = sendmmsg(self->conf.fd, &call->message, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (rc == 1)
        *ret_len = call->message.msg_len;
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        self->is_shut = true;
    self->is_full = !self->is_shut && *ret_len < data.len;
    update_poll(self);
    return self->is_shut ? PFL_ECLOSED : 0;
}

void pfl_service_socket_shutdown(struct pfl_service_socket *self)
{
    if (!self->is_shut)
        (void)shutdown(self->conf.fd, SHUT_WR);
    self->is_shut = true;
}
