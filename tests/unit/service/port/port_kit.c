/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service, loop, clock and clients for tests: see port_kit.h. Sockets are abstract, named by pid,
 * so that tests may run side by side; nothing waits for time.
 */
#include "tests/unit/service/port/port_kit.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/message.h"
#include "proto/ipc/frame.h"
#include "service/port/disk_port.h"
#include "service/session/session_attach.h"
#include "service/session/session_due.h"
#include "service/session/session_file.h"
#include "service/session/session_timers.h"

#define CLIENT_MAX_BYTES (64u << 20)
#define IDLE_TURNS       4
#define OWED_TURNS                                                                                 \
    20000 /* while a user that took long waits: a slow machine makes all of it long */
#define ATTEMPTS_MAX   1000
#define ATTEMPT_GAP_US 10000

static uint64_t read_clock(void *user, enum pfl_clock_id id)
{
    struct pfl_port_kit *kit = user;

    kit->now_ns += kit->step_ns;
    return id == PFL_CLOCK_BOOTTIME ? kit->now_ns + kit->slept_ns : kit->now_ns;
}

static void read_random(void *user, void *dst, size_t len)
{
    (void)user;
    memset(dst, 0x42, len);
}

/* A thread of a busy machine may need longer than the disk port waits for it; the port is asked
 * until it answers. What it gave up before can be in the way until it is removed. */
static int repeat(int (*attempt)(void *disk, int folder, const char *path, int *ret_fd), void *disk,
                  int folder, const char *path, int *ret_fd)
{
    int error = attempt(disk, folder, path, ret_fd);
    bool was_late = false;

    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        was_late = was_late || error == ETIMEDOUT || error == EBUSY;
        if (!was_late || (error != ETIMEDOUT && error != EBUSY && error != EEXIST))
            break;
        (void)usleep(ATTEMPT_GAP_US);
        error = attempt(disk, folder, path, ret_fd);
    }
    return error;
}

static int try_folder(void *disk, int folder, const char *path, int *ret_fd)
{
    (void)folder;
    return pfl_disk_port_ops.open_folder(disk, path, ret_fd);
}

static int open_folder(void *disk, const char *path, int *ret_folder)
{
    return repeat(try_folder, disk, -1, path, ret_folder);
}

static int create(void *disk, int folder, const char *path, int *ret_fd)
{
    return repeat(pfl_disk_port_ops.create, disk, folder, path, ret_fd);
}

static void on_port_closed(void *user)
{
    struct pfl_port_kit *kit = user;

    kit->open_ports--;
}

void pfl_port_kit_open(struct pfl_port_kit *self)
{
    static unsigned serial;
    struct pfl_service_conf service = {.now_ns = read_clock, .random = read_random};
    struct pfl_port_conf port = {.mode = -1, .max_connections = 20000};

    pfl_log_set_level(PFL_LOG_ERROR);
    *self = (struct pfl_port_kit){.now_ns = 1000000000000ull};
    self->facts = (struct pfl_service_facts){.uid = (uint32_t)getuid(), .version = "test"};
    service.user = self;
    service.facts = &self->facts;
    self->disk = pfl_disk_port_ops;
    self->disk.open_folder = open_folder;
    self->disk.create = create;
    service.disk = &self->disk;
    service.disk_user = &self->wakeup;
    assert_int_equal(pfl_loop_init(&self->loop), 0);
    assert_int_equal(pfl_wakeup_open(&self->wakeup, &self->loop), 0);
    assert_int_equal(pfl_service_init(&self->service, &service), 0);
    serial++;
    (void)snprintf(self->producer_address, sizeof(self->producer_address), "@pfl-kit-%ld-%u-p",
                   (long)getpid(), serial);
    (void)snprintf(self->consumer_address, sizeof(self->consumer_address), "@pfl-kit-%ld-%u-c",
                   (long)getpid(), serial);
    port.loop = &self->loop;
    port.service = &self->service;
    port.on_closed = on_port_closed;
    port.user = self;
    port.address = self->producer_address;
    assert_int_equal(pfl_producer_port_open(&port, &self->producers), 0);
    port.address = self->consumer_address;
    assert_int_equal(pfl_consumer_port_open(&port, &self->consumers), 0);
    self->open_ports = 2;
}

void pfl_port_kit_close(struct pfl_port_kit *self)
{
    struct pfl_mem_stats stats;

    pfl_session_end_detached(&self->service);
    pfl_producer_port_close(self->producers);
    pfl_consumer_port_close(self->consumers);
    (void)uv_run(&self->loop, UV_RUN_DEFAULT);
    assert_int_equal(self->open_ports, 0);
    pfl_service_fini(&self->service);
    pfl_wakeup_close(&self->wakeup);
    (void)uv_run(&self->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&self->loop), 0);
    pfl_mem_stats_get(&stats);
    assert_int_equal(stats.live_blocks, 0);
}

static bool is_disk_busy(const struct pfl_list *sessions)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions) {
        const struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->file != NULL && session->file->job != PFL_SESSION_FILE_NO_JOB)
            return true;
    }
    return false;
}

/* Files are written in threads: waits for them, as everything else is done at once here. */
static void wait_for_disk(struct pfl_port_kit *self)
{
    while (!self->is_disk_slow &&
           (is_disk_busy(&self->service.sessions) || is_disk_busy(&self->service.closing)))
        (void)uv_run(&self->loop, UV_RUN_ONCE);
}

static bool is_copying(const struct pfl_copy_job *job)
{
    return job->state == PFL_COPY_JOB_WAITS || job->state == PFL_COPY_JOB_ASKED;
}

static bool waits_for_copies(const struct pfl_service *service)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->producers)
        if (is_copying(&PFL_CONTAINER_OF(it, struct pfl_producer, node)->copy))
            return true;
    PFL_LIST_EACH (it, &service->sessions)
        if (is_copying(&PFL_CONTAINER_OF(it, struct pfl_session, node)->scrape.copy))
            return true;
    return !pfl_list_is_empty(&service->copying);
}

/* Copiers are processes. */
static void wait_for_copies(struct pfl_port_kit *self)
{
    while (self->service.copies.len != 0 && waits_for_copies(&self->service))
        (void)uv_run(&self->loop, UV_RUN_ONCE);
}

static bool has_more_to_do(struct pfl_port_kit *self)
{
    struct pollfd loop = {.fd = uv_backend_fd(&self->loop), .events = POLLIN};

    return uv_backend_timeout(&self->loop) == 0 || poll(&loop, 1, 0) != 0;
}

void pfl_port_kit_run(struct pfl_port_kit *self)
{
    for (int i = 0; i < IDLE_TURNS || (i < OWED_TURNS && has_more_to_do(self)); i++) {
        pfl_consumer_port_send_observed(self->consumers);
        if (self->service.is_scraping) /* as the daemon's alarm: it is due */
            pfl_session_due_run(&self->service);
        (void)uv_run(&self->loop, UV_RUN_NOWAIT);
        wait_for_disk(self);
        wait_for_copies(self);
    }
}

void pfl_port_kit_pass_ms(struct pfl_port_kit *self, uint64_t ms)
{
    pfl_port_kit_run(self);
    if (self->slept_ns == 0) /* else a sleep is noticed when the loop looks */
        assert_true(pfl_session_timers_next_ms(&self->service) <=
                    pfl_session_timers_find_ms(&self->service));
    self->now_ns += ms * 1000000;
    pfl_session_due_run(&self->service);
    pfl_port_kit_run(self);
}

void pfl_kit_client_open(struct pfl_kit_client *self, struct pfl_port_kit *kit, const char *address)
{
    static const char *const names[] = {"ProducerPort", "ConsumerPort"};
    const char *name = names[strcmp(address, kit->consumer_address) == 0];
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_kit_reply reply;
    size_t mark;

    *self = (struct pfl_kit_client){.kit = kit, .received_fd = -1};
    pfl_buf_init(&self->in, CLIENT_MAX_BYTES);
    if (kit->subject != NULL)
        assert_int_equal(pfl_fdsock_connect_service_for(address, kit->subject, &self->fd), 0);
    else
        assert_int_equal(pfl_fdsock_connect_unix(address, &self->fd), 0);
    pfl_buf_init(&buf, 1024);
    pfl_message_varint(&m, 2, ++self->last_id);
    mark = pfl_message_begin(&m, 3);
    pfl_message_str(&m, 1, name);
    pfl_message_end(&m, mark);
    pfl_kit_client_send_frame(self, pfl_buf_get(&buf), -1);
    pfl_buf_fini(&buf);
    assert_true(pfl_kit_client_take(self, &reply));
    assert_true(reply.is_bind);
    pfl_kit_reply_free(&reply);
}

static void drop_memory(struct pfl_kit_client *self)
{
    if (self->memory != NULL)
        (void)munmap(self->memory, self->memory_bytes);
    if (self->received_fd >= 0)
        (void)close(self->received_fd);
    self->memory = NULL;
    self->received_fd = -1;
}

void pfl_kit_client_close(struct pfl_kit_client *self)
{
    (void)close(self->fd);
    drop_memory(self);
    pfl_buf_fini(&self->in);
    pfl_port_kit_run(self->kit);
}

void pfl_kit_client_send(struct pfl_kit_client *self, const void *data, size_t len, int fd)
{
    const uint8_t *left = data;

    while (len != 0 && !self->is_closed) {
        char control[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec iov = {.iov_base = (void *)(uintptr_t)left, .iov_len = len};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        ssize_t sent;

        if (fd >= 0) {
            struct cmsghdr *cmsg;

            msg.msg_control = control;
            msg.msg_controllen = sizeof(control);
            cmsg = CMSG_FIRSTHDR(&msg);
            cmsg->cmsg_level = SOL_SOCKET;
            cmsg->cmsg_type = SCM_RIGHTS;
            cmsg->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
        }
        sent = sendmsg(self->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EPIPE)
            self->is_closed = true;
        if (sent > 0) {
            left += sent;
            len -= (size_t)sent;
            fd = -1;
        }
        pfl_port_kit_run(self->kit);
    }
}

void pfl_kit_client_send_frame(struct pfl_kit_client *self, struct pfl_span payload, int fd)
{
    struct pfl_buf buf;
    uint8_t prefix[4];
    struct pfl_writer w = pfl_writer_of(prefix, sizeof(prefix));

    pfl_writer_u32(&w, (uint32_t)payload.len);
    pfl_buf_init(&buf, 1u << 20);
    assert_int_equal(pfl_buf_append(&buf, prefix, sizeof(prefix)), 0);
    assert_int_equal(pfl_buf_append(&buf, payload.data, payload.len), 0);
    pfl_kit_client_send(self, pfl_buf_get(&buf).data, buf.len, fd);
    pfl_buf_fini(&buf);
}

static uint64_t invoke(struct pfl_kit_client *self, unsigned method, struct pfl_span args,
                       bool drop_reply, int fd)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t mark;

    pfl_buf_init(&buf, 1u << 20);
    pfl_message_varint(&m, 2, ++self->last_id);
    mark = pfl_message_begin(&m, 5);
    pfl_message_varint(&m, 1, 1);
    pfl_message_varint(&m, 2, method);
    pfl_message_bytes(&m, 3, args);
    if (drop_reply)
        pfl_message_varint(&m, 4, 1);
    pfl_message_end(&m, mark);
    assert_int_equal(m.rc, 0);
    pfl_kit_client_send_frame(self, pfl_buf_get(&buf), fd);
    pfl_buf_fini(&buf);
    return self->last_id;
}

uint64_t pfl_kit_client_invoke(struct pfl_kit_client *self, unsigned method, struct pfl_span args)
{
    return invoke(self, method, args, false, -1);
}

uint64_t pfl_kit_client_invoke_fd(struct pfl_kit_client *self, unsigned method,
                                  struct pfl_span args, int fd)
{
    return invoke(self, method, args, false, fd);
}

uint64_t pfl_kit_client_invoke_drop(struct pfl_kit_client *self, unsigned method,
                                    struct pfl_span args)
{
    return invoke(self, method, args, true, -1);
}

static void take_descriptor(struct pfl_kit_client *self, struct msghdr *msg)
{
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
    struct stat st;

    if (cmsg == NULL || cmsg->cmsg_type != SCM_RIGHTS)
        return;
    drop_memory(self);
    memcpy(&self->received_fd, CMSG_DATA(cmsg), sizeof(int));
    assert_int_equal(fstat(self->received_fd, &st), 0);
    self->memory_bytes = (size_t)st.st_size;
    self->memory =
        mmap(NULL, self->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->received_fd, 0);
    assert_ptr_not_equal(self->memory, MAP_FAILED);
}

static void receive(struct pfl_kit_client *self)
{
    while (self->in.len < CLIENT_MAX_BYTES / 2) { /* what comes behind waits in the socket */
        char control[CMSG_SPACE(sizeof(int))] = {0};
        struct iovec iov = {.iov_len = 65536};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
        uint8_t *room;
        ssize_t got;

        assert_int_equal(pfl_buf_reserve(&self->in, iov.iov_len, &room), 0);
        iov.iov_base = room;
        got = recvmsg(self->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            self->is_closed = true;
        if (got <= 0)
            return;
        take_descriptor(self, &msg);
        pfl_buf_extend(&self->in, (size_t)got);
        pfl_port_kit_run(self->kit);
    }
}

static void parse_reply(struct pfl_span payload, struct pfl_kit_reply *reply)
{
    struct pfl_reader r = pfl_reader_of(payload);
    struct pfl_span invoke_reply = {0};
    struct pfl_span body = {0};
    struct pfl_field f;

    *reply = (struct pfl_kit_reply){0};
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 2)
            reply->request_id = f.value;
        else if (f.id == 4)
            reply->is_bind = true;
        else if (f.id == 6)
            invoke_reply = f.bytes;
        else if (f.id == 7)
            reply->is_error = true;
    }
    assert_false(r.failed);
    r = pfl_reader_of(invoke_reply);
    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1) {
            reply->success = f.value != 0;
            reply->has_success = true;
        } else if (f.id == 2) {
            reply->has_more = f.value != 0;
        } else if (f.id == 3) {
            body = f.bytes;
        }
    }
    assert_false(r.failed);
    reply->body = pfl_mem_memdup(body.len != 0 ? body.data : payload.data, body.len);
    reply->body_len = body.len;
}

bool pfl_kit_client_take(struct pfl_kit_client *self, struct pfl_kit_reply *ret_reply)
{
    struct pfl_reader r;
    uint32_t len;

    pfl_port_kit_run(self->kit);
    receive(self);
    r = pfl_reader_of(pfl_buf_get(&self->in));
    len = pfl_reader_u32(&r);
    if (r.failed || r.left < len)
        return false;
    assert_true(len <= PFL_FRAME_PAYLOAD_MAX);
    parse_reply(pfl_span_of(r.pos, len), ret_reply);
    pfl_buf_consume(&self->in, len + 4);
    return true;
}

void pfl_kit_reply_free(struct pfl_kit_reply *reply)
{
    pfl_mem_free(reply->body);
    reply->body = NULL;
}

struct pfl_kit_reply pfl_kit_client_expect(struct pfl_kit_client *self, uint64_t request_id,
                                           bool success, bool has_more)
{
    struct pfl_kit_reply reply;

    assert_true(pfl_kit_client_take(self, &reply));
    assert_int_equal(reply.request_id, request_id);
    assert_int_equal(reply.success, success);
    assert_int_equal(reply.has_more, has_more);
    return reply;
}

void pfl_kit_client_expect_empty(struct pfl_kit_client *self, uint64_t request_id, bool success,
                                 bool has_more)
{
    struct pfl_kit_reply reply = pfl_kit_client_expect(self, request_id, success, has_more);

    assert_int_equal(reply.body_len, 0);
    pfl_kit_reply_free(&reply);
}

void pfl_kit_client_expect_nothing(struct pfl_kit_client *self)
{
    struct pfl_kit_reply reply;

    assert_false(pfl_kit_client_take(self, &reply));
}

/* Adds the slices of one frame: data to `packet`, whole packets to `trace`. */
static void add_slices(struct pfl_span body, struct pfl_buf *packet, struct pfl_buf *trace)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_message m = pfl_message_of(trace);
    struct pfl_field slice;
    struct pfl_field f;

    while (pfl_reader_field(&r, &slice)) {
        struct pfl_reader fields = pfl_reader_of(slice.bytes);
        bool is_last = false;

        assert_int_equal(slice.id, 2);
        while (pfl_reader_field(&fields, &f)) {
            if (f.id == 1)
                assert_int_equal(pfl_buf_append(packet, f.bytes.data, f.bytes.len), 0);
            else if (f.id == 2)
                is_last = f.value != 0;
        }
        assert_false(fields.failed);
        if (!is_last)
            continue;
        pfl_message_bytes(&m, 1, pfl_buf_get(packet));
        pfl_buf_clear(packet);
    }
    assert_false(r.failed);
    assert_int_equal(m.rc, 0);
}

void pfl_kit_client_read_trace(struct pfl_kit_client *self, uint64_t request_id,
                               struct pfl_buf *ret_trace)
{
    struct pfl_kit_reply reply;
    struct pfl_buf packet;
    bool has_more = true;
    int idle = 0;

    pfl_buf_init(&packet, CLIENT_MAX_BYTES);
    pfl_buf_init(ret_trace, CLIENT_MAX_BYTES);
    while (has_more) {
        if (!pfl_kit_client_take(self, &reply)) {
            assert_true(++idle < 100);
            continue;
        }
        assert_int_equal(reply.request_id, request_id);
        assert_true(reply.success);
        has_more = reply.has_more;
        add_slices(pfl_span_of(reply.body, reply.body_len), &packet, ret_trace);
        pfl_kit_reply_free(&reply);
    }
    assert_int_equal(packet.len, 0);
    pfl_buf_fini(&packet);
}
