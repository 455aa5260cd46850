/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bench producer's side of ProducerPort: proto's rpc_client over a blocking UNIX socket.
 *
 * Happy path: connect, bind, InitializeConnection, RegisterDataSource and GetAsyncCommand in one
 * go; then the service's commands arrive as they will: the memory is mapped, the target buffer
 * and the start are noted. The program looks at the fields between two chunks.
 *
 * Failures: one line on stderr, exit 1; but a service that goes is only noted.
 */
#include "tests/bench/fill_connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/ipc/rpc_client.h"

/* GetAsyncCommandResponse and its members. */
enum {
    COMMAND_START = 1,
    COMMAND_STOP = 2,
    COMMAND_SETUP_TRACING = 3,
    COMMAND_FLUSH = 5,
    COMMAND_SETUP = 6,
    SETUP_CONFIG = 2,
    CONFIG_TARGET_BUFFER = 2,
    SETUP_TRACING_PAGE_KB = 1,
    FLUSH_REQUEST_ID = 2,
};

static void fail(const char *what)
{
    fprintf(stderr, "bench_fill: %s: %s\n", what, errno != 0 ? strerror(errno) : "failed");
    exit(1);
}

static int send_all(void *user, const struct iovec *iov, int iov_len, int fd)
{
    struct pfl_fill_connection *self = user;
    struct iovec left[8];
    struct msghdr msg = {.msg_iov = left};

    (void)fd;
    if (iov_len > 8)
        return PFL_ELIMIT;
    memcpy(left, iov, (size_t)iov_len * sizeof(*iov));
    msg.msg_iovlen = (size_t)iov_len;
    while (msg.msg_iovlen > 0) {
        ssize_t n = sendmsg(self->fd, &msg, MSG_NOSIGNAL);

        if (n < 0) {
            self->is_closed = true;
            return 0;
        }
        while (msg.msg_iovlen > 0 && (size_t)n >= msg.msg_iov->iov_len) {
            n -= (ssize_t)msg.msg_iov->iov_len;
            msg.msg_iov++;
            msg.msg_iovlen--;
        }
        if (msg.msg_iovlen > 0) {
            msg.msg_iov->iov_base = (uint8_t *)msg.msg_iov->iov_base + n;
            msg.msg_iov->iov_len -= (size_t)n;
        }
    }
    return 0;
}

/* The first field `id` of a message. */
static bool find_field(struct pfl_span message, uint32_t id, struct pfl_field *ret_field)
{
    struct pfl_reader r = pfl_reader_of(message);

    while (pfl_reader_field(&r, ret_field)) {
        if (ret_field->id == id)
            return true;
    }
    return false;
}

static void map_memory(struct pfl_fill_connection *self, struct pfl_span setup)
{
    struct pfl_field page;
    struct stat st;
    void *base;

    if (!find_field(setup, SETUP_TRACING_PAGE_KB, &page) || self->received_fd < 0 ||
        fstat(self->received_fd, &st) != 0)
        fail("no shared memory");
    base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, self->received_fd, 0);
    if (base == MAP_FAILED)
        fail("mmap");
    self->smb.base = base;
    self->smb.page_bytes = (uint32_t)page.value * 1024;
    self->smb.pages = (uint32_t)((uint64_t)st.st_size / self->smb.page_bytes);
    close(self->received_fd);
    self->received_fd = -1;
}

static void note_setup(struct pfl_fill_connection *self, struct pfl_span setup)
{
    struct pfl_field config, buffer;

    if (!find_field(setup, SETUP_CONFIG, &config) ||
        !find_field(config.bytes, CONFIG_TARGET_BUFFER, &buffer))
        fail("a data source without a target buffer");
    self->target_buffer = (uint32_t)buffer.value;
}

static int on_command(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_fill_connection *self = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field field, id;

    while (pfl_reader_field(&r, &field)) {
        if (field.id == COMMAND_SETUP_TRACING) {
            map_memory(self, field.bytes);
        } else if (field.id == COMMAND_SETUP) {
            note_setup(self, field.bytes);
        } else if (field.id == COMMAND_START) {
            self->starts++;
            self->is_stopped = false;
        } else if (field.id == COMMAND_STOP) {
            self->is_stopped = true;
        } else if (field.id == COMMAND_FLUSH && find_field(field.bytes, FLUSH_REQUEST_ID, &id)) {
            self->flush_request_id = id.value;
        }
    }
    return 0;
}

static int on_bound(void *user, bool is_bound)
{
    struct pfl_fill_connection *self = user;

    if (!is_bound)
        fail("the service knows no ProducerPort");
    self->is_bound = true;
    return 0;
}

static int on_synced(void *user, const struct pfl_rpc_reply *reply)
{
    struct pfl_fill_connection *self = user;

    (void)reply;
    self->is_synced = true;
    return 0;
}

void pfl_fill_connection_pump(struct pfl_fill_connection *self, bool wait)
{
    uint8_t room[65536], control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {.iov_base = room, .iov_len = sizeof(room)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control};
    struct cmsghdr *c;
    ssize_t n;

    msg.msg_controllen = sizeof(control);
    n = recvmsg(self->fd, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        self->is_closed = true;
        return;
    }
    c = CMSG_FIRSTHDR(&msg);
    if (c != NULL && c->cmsg_type == SCM_RIGHTS)
        memcpy(&self->received_fd, CMSG_DATA(c), sizeof(int));
    if (pfl_rpc_client_feed(self->rpc, pfl_span_of(room, (size_t)n)) != 0)
        fail("an impossible message");
}

static void request(struct pfl_fill_connection *self, const char *method, struct pfl_writer *args,
                    const uint8_t *begin, pfl_rpc_reply_cb cb)
{
    size_t len = args != NULL ? (size_t)(args->pos - begin) : 0;

    if (pfl_rpc_client_invoke(self->rpc, method, pfl_span_of(begin, len), -1, cb, self) != 0)
        fail(method);
}

static void introduce(struct pfl_fill_connection *self, const char *source, uint32_t smb_kb)
{
    uint8_t init[128], descriptor[128], reg[160];
    struct pfl_writer i = pfl_writer_of(init, sizeof(init));
    struct pfl_writer d = pfl_writer_of(descriptor, sizeof(descriptor));
    struct pfl_writer r = pfl_writer_of(reg, sizeof(reg));

    /* InitializeConnectionRequest: sizes' hints 1 and 2, producer_name 3. */
    if (smb_kb != 0)
        pfl_writer_field_varint(&i, 1, 4096);
    if (smb_kb != 0)
        pfl_writer_field_varint(&i, 2, (uint64_t)smb_kb * 1024);
    pfl_writer_field_bytes(&i, 3, source, strlen(source));
    request(self, "InitializeConnection", &i, init, NULL);
    /* RegisterDataSourceRequest {data_source_descriptor 1 {name 1}} */
    pfl_writer_field_bytes(&d, 1, source, strlen(source));
    pfl_writer_field_bytes(&r, 1, descriptor, (size_t)(d.pos - descriptor));
    if (i.failed || d.failed || r.failed)
        fail("a name that long");
    request(self, "GetAsyncCommand", NULL, NULL, on_command);
    request(self, "RegisterDataSource", &r, reg, NULL);
}

void pfl_fill_connection_init(struct pfl_fill_connection *self, const char *socket_path,
                              const char *source, uint32_t smb_kb)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct pfl_rpc_client_conf conf = {.user = self, .send = send_all};

    memset(self, 0, sizeof(*self));
    self->received_fd = -1;
    if (strlen(socket_path) >= sizeof(address.sun_path))
        fail(socket_path);
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(self->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        fail(socket_path);
    if (pfl_rpc_client_new(&conf, &self->rpc) != 0 ||
        pfl_rpc_client_bind(self->rpc, "ProducerPort", on_bound, self) != 0)
        fail("bind");
    while (!self->is_bound && !self->is_closed)
        pfl_fill_connection_pump(self, true);
    introduce(self, source, smb_kb);
    pfl_fill_connection_sync(self);
}

void pfl_fill_connection_fini(struct pfl_fill_connection *self)
{
    if (self->smb.base != NULL)
        munmap(self->smb.base, (size_t)self->smb.page_bytes * self->smb.pages);
    pfl_rpc_client_free(self->rpc);
    close(self->fd);
}

void pfl_fill_connection_commit(struct pfl_fill_connection *self, struct pfl_span commit)
{
    if (pfl_rpc_client_invoke(self->rpc, "CommitData", commit, -1, NULL, self) != 0)
        fail("CommitData");
}

void pfl_fill_connection_sync(struct pfl_fill_connection *self)
{
    self->is_synced = false;
    request(self, "Sync", NULL, NULL, on_synced);
    while (!self->is_synced && !self->is_closed)
        pfl_fill_connection_pump(self, true);
}
