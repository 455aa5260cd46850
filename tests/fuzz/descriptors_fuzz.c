/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a peer passes with its bytes: records of `u8 kind, u8 count, u16 len`, each a message of so
 * many bytes and descriptors, in one or two pieces of control data, credentials among them. Every
 * byte arrives in order or the connection ends; one descriptor a read is announced, more end it;
 * and afterwards nobody has a descriptor left.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/closer.h"
#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/log.h"

#define RECORDS_MAX 64u
#define BYTES_MAX   8192u
#define FDS_MAX     PFL_CLOSER_MESSAGE_FDS

enum kind {
    KIND_EVENT,
    KIND_PIPE,   /* its write end */
    KIND_SOCKET, /* the receiver's own peer */
    KIND_FOLDER,
    KIND_TWO_PIECES,  /* of control data */
    KIND_CREDENTIALS, /* besides */
    KIND_END,         /* ends its direction, then continues */
    KIND_LATE,        /* the receiver reads before the next one */
    KINDS,
};

struct world {
    uv_loop_t loop;
    struct pfl_stream *stream; /* NULL: closed */
    int peer;
    uint64_t sent;
    uint64_t got;
    unsigned announced;
    unsigned passed; /* messages with at least one */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    if (dir == NULL)
        abort();
    while (readdir(dir) != NULL)
        count++;
    (void)closedir(dir);
    return count;
}

static void on_data(void *user, struct pfl_span data)
{
    struct world *w = user;

    for (size_t i = 0; i < data.len; i++) {
        if (data.data[i] != (uint8_t)(w->got + i))
            abort();
    }
    w->got += data.len;
    if (w->got > w->sent)
        abort();
}

static void on_fd(void *user, int fd)
{
    struct world *w = user;

    if (++w->announced > w->passed || (fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
        abort();
    (void)close(fd);
}

static void on_closed(void *user, int err)
{
    struct world *w = user;

    (void)err;
    w->stream = NULL;
}

static const struct pfl_stream_ops ops = {
    .on_data = on_data, .on_fd = on_fd, .on_closed = on_closed};

static int make_fd(const struct world *w, uint8_t kind)
{
    int fds[2];

    switch (kind) {
    case KIND_PIPE:
        if (pipe2(fds, O_CLOEXEC) != 0)
            abort();
        (void)close(fds[0]);
        return fds[1];
    case KIND_SOCKET:
        return dup(w->peer);
    case KIND_FOLDER:
        return open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    default:
        return eventfd(0, EFD_CLOEXEC);
    }
}

static size_t add_fds(struct msghdr *msg, size_t at, int fd, unsigned count)
{
    struct cmsghdr *c = (struct cmsghdr *)(void *)((char *)msg->msg_control + at);

    if (count == 0)
        return at;
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (unsigned i = 0; i < count; i++)
        memcpy(CMSG_DATA(c) + i * sizeof(fd), &fd, sizeof(fd));
    return at + CMSG_SPACE(sizeof(int) * count);
}

static size_t add_credentials(struct msghdr *msg, size_t at)
{
    const struct ucred own = {.pid = getpid(), .uid = getuid(), .gid = getgid()};
    struct cmsghdr *c = (struct cmsghdr *)(void *)((char *)msg->msg_control + at);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_CREDENTIALS;
    c->cmsg_len = CMSG_LEN(sizeof(own));
    memcpy(CMSG_DATA(c), &own, sizeof(own));
    return at + CMSG_SPACE(sizeof(own));
}

static void send_one(struct world *w, uint8_t kind, unsigned count, size_t len)
{
    static union {
        struct cmsghdr align;
        char bytes[2 * PFL_CLOSER_CONTROL_BYTES];
    } control;
    uint8_t bytes[BYTES_MAX];
    struct iovec iov = {.iov_base = bytes, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes};
    unsigned first = kind == KIND_TWO_PIECES ? count / 2 : count;
    int fd = count != 0 ? make_fd(w, kind) : -1;
    ssize_t n;

    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(w->sent + i);
    memset(&control, 0, sizeof(control));
    if (kind == KIND_CREDENTIALS)
        msg.msg_controllen = add_credentials(&msg, 0);
    msg.msg_controllen = add_fds(&msg, msg.msg_controllen, fd, first);
    msg.msg_controllen = add_fds(&msg, msg.msg_controllen, fd, count - first);
    n = sendmsg(w->peer, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
        w->sent += (uint64_t)n;
        w->passed += count != 0;
    }
    if (fd >= 0)
        (void)close(fd);
}

static void turn(struct world *w)
{
    for (unsigned i = 0; i < 4; i++)
        (void)uv_run(&w->loop, UV_RUN_NOWAIT);
}

static void play(struct world *w, struct pfl_reader *r)
{
    for (unsigned i = 0; i < RECORDS_MAX && r->left >= 4; i++) {
        uint8_t kind = pfl_reader_u8(r) % KINDS;
        unsigned count = pfl_reader_u8(r) % (FDS_MAX + 1);
        size_t len = pfl_reader_u16(r) % BYTES_MAX;

        if (kind == KIND_END)
            (void)shutdown(w->peer, SHUT_WR);
        else if (kind == KIND_LATE)
            turn(w);
        else
            send_one(w, kind, count, len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    struct world w = {.stream = NULL};
    struct pfl_stream_conf conf = {
        .loop = &w.loop, .ops = &ops, .user = &w, .queue_max_bytes = BYTES_MAX};
    unsigned before;
    int fds[2];

    pfl_log_set_level(PFL_LOG_ERROR);
    if (pfl_loop_init(&w.loop) != 0)
        abort();
    before = count_fds();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        abort();
    w.peer = fds[1];
    if (pfl_fdsock_open(&conf, fds[0], &w.stream) != 0)
        abort();
    play(&w, &r);
    turn(&w);
    (void)close(w.peer);
    turn(&w);
    if (w.stream != NULL)
        pfl_stream_close(w.stream);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    pfl_closer_wait();
    if (w.stream != NULL || count_fds() != before || uv_loop_close(&w.loop) != 0)
        abort();
    return 0;
}
