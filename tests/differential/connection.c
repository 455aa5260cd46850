/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A blocking connection (see connection.h).
 *
 * Happy path: connect, bind, then calls: send the request, read until its last reply has come.
 * Whatever else arrives meanwhile (commands, late replies) goes to its own callback.
 * Failures are kept in `trouble`: the first one wins, nothing blocks any more.
 */
#include "tests/differential/connection.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/differential/text.h"

#define READ_BYTES (256u * 1024u)

static void note_trouble(struct diff_connection *self, const char *what)
{
    if (self->trouble == NULL)
        self->trouble = what;
}

static int send_all(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct diff_connection *self = user;

    (void)fd;
    for (int i = 0; i < iov_len; i++) {
        const uint8_t *pos = iov[i].iov_base;
        size_t left = iov[i].iov_len;

        while (left > 0 && self->trouble == NULL) {
            ssize_t n = send(self->fd, pos, left, MSG_NOSIGNAL);

            if (n <= 0) {
                note_trouble(self, "the service closed the connection");
                break;
            }
            pos += n;
            left -= (size_t)n;
        }
    }
    return 0;
}

static int on_bound(void *user, bool is_bound)
{
    struct diff_connection *self = user;

    self->is_bound = true;
    if (!is_bound)
        note_trouble(self, "the service does not know the port");
    return 0;
}

void diff_connection_open(struct diff_connection *self, const char *socket_path,
                          const char *service)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = DIFF_CONNECTION_PATIENCE_S};
    struct pfl_rpc_client_conf conf = {.user = self, .send = send_all};

    *self = (struct diff_connection){.received_fd = -1};
    if (strlen(socket_path) >= sizeof(address.sun_path))
        diff_die("%s: a name that long", socket_path);
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (self->fd < 0 ||
        setsockopt(self->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
        setsockopt(self->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) != 0 ||
        pfl_rpc_client_new(&conf, &self->rpc) != 0)
        diff_die("no socket: %s", strerror(errno));
    if (connect(self->fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        note_trouble(self, "the service does not listen");
        return;
    }
    if (pfl_rpc_client_bind(self->rpc, service, on_bound, self) != 0)
        diff_die("bind failed");
    while (!self->is_bound && self->trouble == NULL)
        diff_connection_pump(self);
}

bool diff_connection_is_open(const struct diff_connection *self)
{
    return self->rpc != NULL;
}

void diff_connection_close(struct diff_connection *self)
{
    if (self->rpc == NULL)
        return;
    pfl_rpc_client_free(self->rpc);
    self->rpc = NULL;
    close(self->fd);
    if (self->received_fd >= 0)
        close(self->received_fd);
    self->received_fd = -1;
}

static void keep_descriptor(struct diff_connection *self, struct msghdr *msg)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    if (c == NULL || c->cmsg_type != SCM_RIGHTS)
        return;
    if (self->received_fd >= 0)
        close(self->received_fd);
    memcpy(&self->received_fd, CMSG_DATA(c), sizeof(int));
}

void diff_connection_pump(struct diff_connection *self)
{
    static uint8_t room[READ_BYTES];
    uint8_t control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {.iov_base = room, .iov_len = sizeof(room)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};
    ssize_t n;

    if (self->trouble != NULL)
        return;
    msg.msg_controllen = sizeof(control);
    do
        n = recvmsg(self->fd, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        note_trouble(self, "the service does not answer");
    } else if (n <= 0) {
        note_trouble(self, "the service closed the connection");
    } else {
        keep_descriptor(self, &msg);
        if (pfl_rpc_client_feed(self->rpc, pfl_span_of(room, (size_t)n)) != 0)
            note_trouble(self, "the service said something impossible");
    }
}

static int on_answer(void *user, const struct pfl_rpc_reply *reply)
{
    struct diff_connection *self = user;

    if (reply->success && self->on_body != NULL)
        self->on_body(self->user, reply->body);
    self->is_success = reply->success;
    self->is_answered = !reply->has_more;
    return 0;
}

void diff_connection_send(struct diff_connection *self, const char *method, struct pfl_span args,
                          pfl_rpc_reply_cb cb, void *user)
{
    if (self->trouble == NULL && pfl_rpc_client_invoke(self->rpc, method, args, -1, cb, user) != 0)
        note_trouble(self, "the service does not know the method");
}

bool diff_connection_call(struct diff_connection *self, const char *method, struct pfl_span args,
                          void (*on_body)(void *user, struct pfl_span body), void *user)
{
    self->on_body = on_body;
    self->user = user;
    self->is_answered = false;
    self->is_success = false;
    diff_connection_send(self, method, args, on_answer, self);
    while (!self->is_answered && self->trouble == NULL)
        diff_connection_pump(self);
    return self->is_answered && self->is_success;
}

bool diff_find_field(struct pfl_span message, uint32_t id, struct pfl_field *ret_field)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field field;
    bool is_found = false;

    while (pfl_reader_field(&r, &field)) {
        if (field.id == id) {
            *ret_field = field;
            is_found = true;
        }
    }
    return is_found;
}
