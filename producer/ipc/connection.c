/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket to the service (docs/abi/wire.md sections 1, 3 and 5).
 *
 * Happy path: connect, then reads fill one buffer of the largest frame and frames are returned in
 * place; writes go through one queue. A descriptor arrives with the first bytes of a frame and
 * waits in a single slot; an older one that was not taken is closed.
 *
 * Failures set has_failed, permanently: end of stream, socket errors, a frame that is too long,
 * more than one descriptor at a time, more than PFL_CONNECTION_OUT_MAX bytes waiting. Ownership:
 * the connection owns its descriptors and buffers.
 */
#include "producer/ipc/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "producer/platform/foreign_fd.h"
#include "producer/platform/heap.h"

#define PREFIX_BYTES 4u
#define OUT_FIRST    65536u
#define MESSAGE_FDS  253u /* one message brings at most these: SCM_MAX_FD */

static const char run_dir[] = "/run/perfetto/";
static const char run_name[] = "/run/perfetto/traced-producer.sock";
static const char tmp_name[] = "/tmp/perfetto-producer";
static const char vsock_prefix[] = "vsock://";

static bool is_network_name(const char *name)
{
    const char *colon = strrchr(name, ':');
    const char *digit;

    if (strncmp(name, vsock_prefix, sizeof(vsock_prefix) - 1) == 0)
        return true;
    if (colon == NULL || colon[1] == '\0')
        return false;
    for (digit = colon + 1; *digit >= '0' && *digit <= '9'; digit++)
        ;
    return *digit == '\0';
}

int pfl_connection_find_address(const char *name, struct pfl_connection_address *ret_address)
{
    struct pfl_connection_address a = {.un = {.sun_family = AF_UNIX}};
    size_t len;

    if (name == NULL)
        name = secure_getenv("PERFETTO_PRODUCER_SOCK_NAME"); /* not who runs a setuid program */
    if (name == NULL)
        name =
            access(run_dir, X_OK) == 0 || pfl_service_user_has_more_rights() ? run_name : tmp_name;
    len = strlen(name);
    if (len == 0 || len >= sizeof(a.un.sun_path))
        return PFL_EINVAL;
    a.is_network = name[0] != '@' && is_network_name(name);
    memcpy(a.un.sun_path, name, len);
    if (name[0] == '@')
        a.un.sun_path[0] = '\0';
    else
        len++;
    a.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    name = secure_getenv(PFL_SERVICE_USER_VARIABLE);
    if (name != NULL && name[0] != '\0')
        (void)!pfl_service_users_parse(&a.users, name); /* unknown users are not trusted */
    *ret_address = a;
    return 0;
}

int pfl_connection_adopt(struct pfl_connection *self, int fd)
{
    const int one = 1;

    /* Else the kernel closes, within recvmsg, descriptors that come with a byte out of band. */
    (void)setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
    *self = (struct pfl_connection){.fd = fd, .recv_fd = -1, .send_fd = -1};
    self->in = pfl_heap_zalloc(PFL_CONNECTION_IN_BYTES);
    self->out = pfl_heap_map(OUT_FIRST); /* grows in writers' threads, too: no heap */
    self->out_cap = OUT_FIRST;
    if (self->in != NULL && self->out != NULL)
        return 0;
    pfl_connection_close(self);
    return PFL_ENOMEM;
}

/* Starts a connect and returns the socket; a negative error. */
static int connect_to(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return PFL_EIO;
    if (connect(fd, address, len) != 0 && errno != EINPROGRESS) {
        close(fd);
        return PFL_ECLOSED;
    }
    return fd;
}

/* vsock://CID:PORT */
static int open_vsock(const char *name)
{
    struct sockaddr_vm vm = {.svm_family = AF_VSOCK};
    char *end;

    vm.svm_cid = (unsigned)strtoul(name, &end, 10);
    if (*end != ':')
        return PFL_EINVAL;
    vm.svm_port = (unsigned)strtoul(end + 1, NULL, 10);
    return connect_to((const struct sockaddr *)&vm, sizeof(vm));
}

/* HOST:PORT or [V6]:PORT; the last colon counts. The first address that lets itself be asked. */
static int open_tcp(const char *name)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char host[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *colon = strrchr(name, ':');
    size_t skip = name[0] == '[';
    size_t len = (size_t)(colon - name);
    struct addrinfo *found = NULL;
    int one = 1;
    int fd = PFL_ECLOSED;

    if (skip == 1 && (len < 2 || name[len - 1] != ']'))
        return PFL_EINVAL;
    len -= 2 * skip;
    memcpy(host, name + skip, len);
    host[len] = '\0';
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return PFL_ECLOSED;
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
        fd = connect_to(at->ai_addr, at->ai_addrlen);
    freeaddrinfo(found);
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

static int open_network(struct pfl_connection *self, const char *name)
{
    int fd = strncmp(name, vsock_prefix, sizeof(vsock_prefix) - 1) == 0
                 ? open_vsock(name + sizeof(vsock_prefix) - 1)
                 : open_tcp(name);
    int rc = fd < 0 ? fd : pfl_connection_adopt(self, fd);

    self->is_network = true;
    return rc;
}

/* The name as it was given, for words. */
static void get_name(const struct pfl_connection_address *address,
                     char ret_name[sizeof(address->un.sun_path)])
{
    memcpy(ret_name, address->un.sun_path, sizeof(address->un.sun_path));
    if (ret_name[0] == '\0')
        ret_name[0] = '@';
}

int pfl_connection_open(struct pfl_connection *self, const struct pfl_connection_address *address,
                        char ret_why[PFL_SERVICE_USER_WHY_BYTES])
{
    char name[sizeof(address->un.sun_path)];
    int fd;

    ret_why[0] = '\0';
    *self = (struct pfl_connection){.fd = -1, .recv_fd = -1, .send_fd = -1};
    if (address->is_network)
        return open_network(self, address->un.sun_path);
    get_name(address, name);
    if (pfl_service_user_check_file(name, &address->users, ret_why) != 0)
        return PFL_ESTRANGER;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return PFL_EIO;
    if (connect(fd, (const struct sockaddr *)&address->un, address->len) != 0) {
        close(fd);
        return PFL_ECLOSED;
    }
    if (pfl_service_user_check(fd, name, &address->users, ret_why) != 0) {
        pfl_foreign_fd_close_socket(fd);
        return PFL_ESTRANGER;
    }
    return pfl_connection_adopt(self, fd);
}

void pfl_connection_close(struct pfl_connection *self)
{
    if (self->fd >= 0)
        pfl_foreign_fd_close_socket(self->fd);
    pfl_foreign_fd_close(self->recv_fd);
    pfl_heap_free(self->in);
    pfl_heap_unmap(self->out, self->out_cap);
    *self = (struct pfl_connection){.fd = -1, .recv_fd = -1, .send_fd = -1};
}

/* --- in ---------------------------------------------------------------------------------- */

/* One descriptor is kept, the newest; of several in a message none is, and the connection has
 * failed. */
static void take_fds(struct pfl_connection *self, struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        size_t count = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                           ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                           : 0;

        self->has_failed = self->has_failed || count > 1;
        for (size_t i = 0; i < count; i++) {
            pfl_foreign_fd_close(self->recv_fd);
            memcpy(&self->recv_fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
        }
    }
    if ((msg->msg_flags & MSG_CTRUNC) != 0)
        self->has_failed = true;
}

bool pfl_connection_read(struct pfl_connection *self)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(MESSAGE_FDS * sizeof(int))]; /* else recvmsg itself closes them */
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
    iov.iov_len = PFL_CONNECTION_IN_BYTES - self->in_len;
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
    take_fds(self, &msg);
    self->in_len += (size_t)n;
    return !self->has_failed;
}

bool pfl_connection_next_frame(struct pfl_connection *self, struct pfl_span *ret_frame)
{
    while (self->in_len - self->in_pos >= PREFIX_BYTES) {
        struct pfl_reader r =
            pfl_reader_of(pfl_span_of(self->in + self->in_pos, self->in_len - self->in_pos));
        uint32_t len = pfl_reader_u32(&r);

        if (len > PFL_CONNECTION_IN_BYTES - PREFIX_BYTES) {
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

int pfl_connection_take_fd(struct pfl_connection *self)
{
    int fd = self->recv_fd;

    self->recv_fd = -1;
    return fd;
}

/* --- out --------------------------------------------------------------------------------- */

struct pfl_writer pfl_connection_reserve(struct pfl_connection *self, size_t bytes)
{
    size_t cap = self->out_cap;
    uint8_t *grown;

    if (self->out_pos > 0) {
        memmove(self->out, self->out + self->out_pos, self->out_len - self->out_pos);
        self->out_len -= self->out_pos;
        self->out_pos = 0;
    }
    while (cap - self->out_len < bytes && cap < PFL_CONNECTION_OUT_MAX)
        cap *= 2;
    if (cap > self->out_cap && !self->has_failed) {
        grown = pfl_heap_remap(self->out, self->out_cap, cap);
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

void pfl_connection_commit(struct pfl_connection *self, const struct pfl_writer *w)
{
    if (w->failed)
        self->has_failed = true;
    else
        self->out_len = (size_t)(w->pos - self->out);
}

/* The descriptor is sent with the first of these bytes. */
static ssize_t send_with_fd(struct pfl_connection *self)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {self->out + self->out_pos, self->out_len - self->out_pos};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    ssize_t n;

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &self->send_fd, sizeof(int));
    n = sendmsg(self->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
        self->send_fd = -1;
    return n;
}

static ssize_t send_some(struct pfl_connection *self)
{
    if (__builtin_expect(self->send_fd >= 0, 0))
        return send_with_fd(self);
    return send(self->fd, self->out + self->out_pos, self->out_len - self->out_pos,
                MSG_NOSIGNAL | MSG_DONTWAIT);
}

void pfl_connection_send(struct pfl_connection *self)
{
    while (!self->has_failed && self->out_pos < self->out_len) {
        ssize_t n = send_some(self);

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

size_t pfl_connection_queued(const struct pfl_connection *self)
{
    return self->out_len - self->out_pos;
}
