/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket to the service (docs/abi/wire.md sections 1, 3 and 5).
 *
 * Happy path: connect, then reads fill one buffer of the largest frame and frames are handed out
 * in place; writes go through one queue. A descriptor comes with the first bytes of a frame and
 * waits in a single place; an older one that nobody took is closed.
 *
 * Failures set has_failed, once and for all: end of stream, socket errors, a frame that is too
 * long, more than one descriptor at a time, more than PFL_LINK_OUT_MAX bytes waiting.
 * Ownership: the link owns its descriptors and buffers.
 */
#include "producer/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "producer/heap.h"

#define PREFIX_BYTES 4u
#define OUT_FIRST    65536u

static const char run_dir[] = "/run/perfetto/";
static const char run_name[] = "/run/perfetto/traced-producer.sock";
static const char tmp_name[] = "/tmp/perfetto-producer";

static bool is_network_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    const char *digit;

    if (strncmp(name, "vsock://", 8) == 0)
        return true;
    if (colon == NULL || colon[1] == '\0')
        return false;
    for (digit = colon + 1; *digit >= '0' && *digit <= '9'; digit++)
        ;
    return *digit == '\0';
}

int pfl_link_find_address(const char *name, struct pfl_link_address *ret_address)
{
    struct pfl_link_address a = {.un = {.sun_family = AF_UNIX}};
    size_t len;

    if (name == NULL)
        name = getenv("PERFETTO_PRODUCER_SOCK_NAME");
    if (name == NULL)
        name = access(run_dir, X_OK) == 0 ? run_name : tmp_name;
    len = strlen(name);
    /* Without shared memory there is nothing to write to: other families are refused. */
    if (len == 0 || len >= sizeof(a.un.sun_path) || (name[0] != '@' && is_network_name(name)))
        return PFL_EINVAL;
    memcpy(a.un.sun_path, name, len);
    if (name[0] == '@')
        a.un.sun_path[0] = '\0';
    else
        len++;
    a.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    *ret_address = a;
    return 0;
}

int pfl_link_adopt(struct pfl_link *self, int fd)
{
    *self = (struct pfl_link){.fd = fd, .recv_fd = -1};
    self->in = pfl_heap_zalloc(PFL_LINK_IN_BYTES);
    self->out = pfl_heap_zalloc(OUT_FIRST);
    self->out_cap = OUT_FIRST;
    if (self->in != NULL && self->out != NULL)
        return 0;
    pfl_link_close(self);
    return PFL_ENOMEM;
}

int pfl_link_open(struct pfl_link *self, const struct pfl_link_address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *self = (struct pfl_link){.fd = -1, .recv_fd = -1};
    if (fd < 0)
        return PFL_EIO;
    if (connect(fd, (const struct sockaddr *)&address->un, address->len) != 0) {
        close(fd);
        return PFL_ECLOSED;
    }
    return pfl_link_adopt(self, fd);
}

void pfl_link_close(struct pfl_link *self)
{
    if (self->fd >= 0)
        close(self->fd);
    if (self->recv_fd >= 0)
        close(self->recv_fd);
    pfl_heap_free(self->in);
    pfl_heap_free(self->out);
    *self = (struct pfl_link){.fd = -1, .recv_fd = -1};
}

/* --- in ---------------------------------------------------------------------------------- */

static void keep_fd(struct pfl_link *self, struct msghdr *msg)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    if (c != NULL && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
        if (self->recv_fd >= 0)
            close(self->recv_fd);
        memcpy(&self->recv_fd, CMSG_DATA(c), sizeof(int));
    }
    if ((msg->msg_flags & MSG_CTRUNC) != 0)
        self->has_failed = true;
}

bool pfl_link_read(struct pfl_link *self)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov;
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (self->in_pos > 0) {
        memmove(self->in, self->in + self->in_pos, self->in_len - self->in_pos);
        self->in_len -= self->in_pos;
        self->in_pos = 0;
    }
    iov.iov_base = self->in + self->in_len;
    iov.iov_len = PFL_LINK_IN_BYTES - self->in_len;
    msg.msg_control = control.bytes;
    msg.msg_controllen = sizeof(control.bytes);
    n = recvmsg(self->fd, &msg, MSG_CMSG_CLOEXEC);
    if (n < 0) {
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            self->has_failed = true;
        return !self->has_failed;
    }
    if (n == 0)
        self->has_failed = true;
    keep_fd(self, &msg);
    self->in_len += (size_t)n;
    return !self->has_failed;
}

bool pfl_link_next_frame(struct pfl_link *self, struct pfl_span *ret_frame)
{
    while (self->in_len - self->in_pos >= PREFIX_BYTES) {
        struct pfl_reader r =
            pfl_reader_of(pfl_span_of(self->in + self->in_pos, self->in_len - self->in_pos));
        uint32_t len = pfl_reader_u32(&r);

        if (len > PFL_LINK_IN_BYTES - PREFIX_BYTES) {
            self->has_failed = true;
            return false;
        }
        if (r.left < len)
            return false;
        self->in_pos += PREFIX_BYTES + len;
        if (len == 0)
            continue;
        *ret_frame = pfl_reader_bytes(&r, len);
        return true;
    }
    return false;
}

int pfl_link_take_fd(struct pfl_link *self)
{
    int fd = self->recv_fd;

    self->recv_fd = -1;
    return fd;
}

/* --- out --------------------------------------------------------------------------------- */

struct pfl_writer pfl_link_reserve(struct pfl_link *self, size_t bytes)
{
    size_t cap = self->out_cap;
    uint8_t *grown;

    if (self->out_pos > 0) {
        memmove(self->out, self->out + self->out_pos, self->out_len - self->out_pos);
        self->out_len -= self->out_pos;
        self->out_pos = 0;
    }
    while (cap - self->out_len < bytes && cap < PFL_LINK_OUT_MAX)
        cap *= 2;
    if (cap > self->out_cap && !self->has_failed) {
        grown = pfl_heap_resize(self->out, cap, 1);
        if (grown != NULL) {
            self->out = grown;
            self->out_cap = cap;
        }
    }
    if (self->has_failed || self->out_cap - self->out_len < bytes) {
        self->has_failed = true;
        return (struct pfl_writer){.failed = true};
    }
    return pfl_writer_of(self->out + self->out_len, bytes);
}

void pfl_link_commit(struct pfl_link *self, const struct pfl_writer *w)
{
    if (w->failed)
        self->has_failed = true;
    else
        self->out_len = (size_t)(w->pos - self->out);
}

void pfl_link_send(struct pfl_link *self)
{
    while (!self->has_failed && self->out_pos < self->out_len) {
        ssize_t n = send(self->fd, self->out + self->out_pos, self->out_len - self->out_pos,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN && errno != EWOULDBLOCK)
                self->has_failed = true;
            return;
        }
        self->out_pos += (size_t)n;
    }
}

size_t pfl_link_queued(const struct pfl_link *self)
{
    return self->out_len - self->out_pos;
}
