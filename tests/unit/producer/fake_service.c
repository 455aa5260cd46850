/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_service.h. Frames are made and read here by the test's own few lines. */
#include "tests/unit/producer/fake_service.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "abi/fragment.h"

#define WAIT_MS 60000

static const char *const names[FAKE_METHODS] = {
    "InitializeConnection",
    "RegisterDataSource",
    "UnregisterDataSource",
    "CommitData",
    "GetAsyncCommand",
    "RegisterTraceWriter",
    "UnregisterTraceWriter",
    "NotifyDataSourceStarted",
    "NotifyDataSourceStopped",
    "ActivateTriggers",
    "Sync",
    "UpdateDataSource",
};

void fake_listen(struct fake_service *s)
{
    static int count;
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int len;

    memset(s, 0, sizeof(*s));
    s->fd = s->own_fd = -1;
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    len = snprintf(s->name, sizeof(s->name), "@perfleet-test-%d-%d", (int)getpid(), count++);
    memcpy(un.sun_path + 1, s->name + 1, (size_t)len - 1);
    assert_int_equal(bind(s->listen_fd, (struct sockaddr *)&un,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)len)),
                     0);
    assert_int_equal(listen(s->listen_fd, 5), 0);
}

void fake_listen_tcp(struct fake_service *s)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);

    memset(s, 0, sizeof(*s));
    s->is_network = true;
    s->fd = s->own_fd = -1;
    s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->listen_fd, (struct sockaddr *)&in, sizeof(in)), 0);
    assert_int_equal(getsockname(s->listen_fd, (struct sockaddr *)&in, &len), 0);
    snprintf(s->name, sizeof(s->name), "127.0.0.1:%d", ntohs(in.sin_port));
    assert_int_equal(listen(s->listen_fd, 5), 0);
}

static void wait_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

void fake_accept(struct fake_service *s)
{
    wait_readable(s->listen_fd);
    s->fd = accept(s->listen_fd, NULL, NULL);
    assert_true(s->fd >= 0);
    s->in_len = s->in_pos = 0;
    s->command_id = 0;
}

void fake_hang_up(struct fake_service *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    if (s->own_fd >= 0)
        close(s->own_fd);
    s->own_fd = -1;
    if (s->smb.base != NULL)
        munmap(s->smb.base, (size_t)s->smb.pages * 4096);
    s->smb.base = NULL;
}

void fake_fini(struct fake_service *s)
{
    fake_hang_up(s);
    close(s->listen_fd);
}

void fake_hold(struct fake_service *s)
{
    s->is_held = true;
    s->held_len = 0;
}

void fake_release(struct fake_service *s)
{
    s->is_held = false;
    assert_int_equal(send(s->fd, s->held, s->held_len, MSG_NOSIGNAL), (ssize_t)s->held_len);
}

static void hold_frame(struct fake_service *s, struct pfl_span frame)
{
    struct pfl_writer w = pfl_writer_of(s->held + s->held_len, sizeof(s->held) - s->held_len);

    pfl_writer_u32(&w, (uint32_t)frame.len);
    pfl_writer_bytes(&w, frame.data, frame.len);
    assert_false(w.failed);
    s->held_len = sizeof(s->held) - w.left;
}

void fake_send(struct fake_service *s, struct pfl_span frame, int fd)
{
    uint8_t prefix[4];
    struct pfl_writer w = pfl_writer_of(prefix, sizeof(prefix));
    struct iovec iov[2] = {{prefix, 4}, {(void *)(uintptr_t)frame.data, frame.len}};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    if (s->is_held) {
        hold_frame(s, frame);
        return;
    }
    pfl_writer_u32(&w, (uint32_t)frame.len);
    if (fd >= 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = sizeof(control.bytes);
        CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
        CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(int));
    }
    assert_int_equal(sendmsg(s->fd, &msg, MSG_NOSIGNAL), (ssize_t)frame.len + 4);
}

static ssize_t receive(struct fake_service *s)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {s->in + s->in_len, sizeof(s->in) - s->in_len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(s->fd, &msg, MSG_CMSG_CLOEXEC);

    if (CMSG_FIRSTHDR(&msg) != NULL) {
        assert_int_equal(s->own_fd, -1);
        memcpy(&s->own_fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
    }
    return n;
}

static struct pfl_span read_frame(struct fake_service *s)
{
    for (;;) {
        struct pfl_reader r = pfl_reader_of(pfl_span_of(s->in + s->in_pos, s->in_len - s->in_pos));
        uint32_t len = pfl_reader_u32(&r);
        ssize_t n;

        if (!r.failed && r.left >= len) {
            s->in_pos += 4 + len;
            return pfl_reader_bytes(&r, len);
        }
        memmove(s->in, s->in + s->in_pos, s->in_len - s->in_pos);
        s->in_len -= s->in_pos;
        s->in_pos = 0;
        wait_readable(s->fd);
        n = receive(s);
        assert_true(n > 0);
        s->in_len += (size_t)n;
    }
}

static struct pfl_span field_of(struct pfl_span message, uint32_t id, uint64_t *ret_value)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_span found = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != id)
            continue;
        found = f.bytes;
        if (ret_value != NULL)
            *ret_value = f.value;
    }
    assert_false(r.failed);
    return found;
}

static void answer_bind(struct fake_service *s)
{
    uint8_t body[1024];
    uint8_t method[64];
    uint8_t frame[1100];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct pfl_writer w = pfl_writer_of(frame, sizeof(frame));
    struct pfl_span request = read_frame(s);
    struct pfl_span name;
    uint64_t id = 0;

    (void)field_of(request, 2, &id);
    name = field_of(field_of(request, 3, NULL), 1, NULL);
    assert_int_equal(name.len, 12);
    assert_memory_equal(name.data, "ProducerPort", 12);
    pfl_writer_field_varint(&b, 1, 1);
    pfl_writer_field_varint(&b, 2, 42);
    for (uint32_t m = FAKE_METHODS; m-- > 0;) {
        struct pfl_writer d = pfl_writer_of(method, sizeof(method));

        if ((s->lacks & 1u << m) != 0)
            continue;
        pfl_writer_field_varint(&d, 1, m * 3 + 5);
        pfl_writer_field_bytes(&d, 2, names[m], strlen(names[m]));
        pfl_writer_field_bytes(&b, 3, method, sizeof(method) - d.left);
    }
    if (s->is_new) { /* a method of the future, with a field of the future */
        static const uint8_t future[] = {0x08, 99, 0x12, 6, 'D', 'o', 'M', 'o', 'r', 'e', 0x78, 1};

        pfl_writer_field_bytes(&b, 3, future, sizeof(future));
    }
    pfl_writer_field_varint(&w, 2, id);
    pfl_writer_field_bytes(&w, 4, body, sizeof(body) - b.left);
    fake_send(s, pfl_span_of(frame, sizeof(frame) - w.left), -1);
}

/* The rules for memory that is brought along: docs/abi/smb.md section 7. */
static void map_own(struct fake_service *s, struct pfl_span args)
{
    uint64_t page_bytes = 0;
    struct stat st;

    (void)field_of(args, 1, &page_bytes);
    assert_true(s->own_fd >= 0);
    assert_int_equal(fstat(s->own_fd, &st), 0);
    assert_int_equal(fcntl(s->own_fd, F_GET_SEALS) & 7, 7);
    assert_int_equal(page_bytes, 4096);
    s->smb = (struct pfl_smb){.page_bytes = 4096, .pages = (uint32_t)(st.st_size / 4096)};
    s->smb.base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, s->own_fd, 0);
    assert_true(s->smb.base != MAP_FAILED);
}

void fake_greet(struct fake_service *s)
{
    static const uint8_t more[] = {0x9a, 0x06, 3, 'n', 'e', 'w', 0xa0, 0x06, 1, 0x10, 1};
    uint8_t reply[] = {0x08, 0, 0x10, 1, 0x18, s->is_network};
    uint64_t has_own = 0;
    struct pfl_span args;

    fake_accept(s);
    answer_bind(s);
    assert_int_equal(fake_get(s, &args), FAKE_INITIALIZE_CONNECTION);
    assert_int_equal(field_of(args, 3, NULL).len, 6);
    assert_memory_equal(field_of(args, 3, NULL).data, "tester", 6);
    (void)field_of(args, 6, &has_own);
    if (has_own != 0 && s->adopts_memory) {
        map_own(s, args);
        reply[1] = 1;
    }
    fake_reply(s, s->is_old   ? pfl_span_of(NULL, 0)
                  : s->is_new ? pfl_span_of(more, sizeof(more))
                              : pfl_span_of(reply, sizeof(reply)));
    assert_int_equal(fake_get(s, &args), FAKE_GET_ASYNC_COMMAND);
    s->command_id = s->request_id;
}

enum fake_method fake_get(struct fake_service *s, struct pfl_span *ret_args)
{
    struct pfl_span frame = read_frame(s);
    struct pfl_span call = field_of(frame, 5, NULL);
    uint64_t service = 0;
    uint64_t method = 0;

    (void)field_of(frame, 2, &s->request_id);
    (void)field_of(call, 1, &service);
    (void)field_of(call, 2, &method);
    assert_int_equal(service, 42);
    assert_true(method >= 5 && (method - 5) % 3 == 0 && (method - 5) / 3 < FAKE_METHODS);
    *ret_args = field_of(call, 3, NULL);
    return (enum fake_method)((method - 5) / 3);
}

/* Packets that begin in a chunk: fragments that are not empty and continue nothing. */
static uint32_t count_packets(struct pfl_span chunk)
{
    struct pfl_reader r = pfl_reader_of(chunk);
    uint32_t words;
    uint32_t count = 0;

    (void)pfl_reader_bytes(&r, 6);
    words = pfl_reader_u16(&r);
    for (uint32_t i = 0; i < (words & 1023u); i++) {
        uint64_t size = pfl_reader_varint(&r);

        if (size == PFL_FRAGMENT_DROP)
            break;
        count += size != 0 && (i > 0 || (words >> 10 & 1) == 0);
        (void)pfl_reader_bytes(&r, size);
    }
    assert_false(r.failed);
    return count;
}

static void take_data(struct fake_service *s, struct pfl_span data)
{
    assert_int_equal(data.len, 4088);
    s->packets += count_packets(data);
    s->chunks++;
}

static void take_move(struct fake_service *s, struct pfl_span move)
{
    uint64_t page = 0;
    uint64_t index = 0;
    uint64_t buffer = 0;
    uint32_t bitmap = 0;
    struct pfl_page_header *header;

    (void)field_of(move, 1, &page);
    (void)field_of(move, 2, &index);
    (void)field_of(move, 3, &buffer);
    s->last_buffer = (uint32_t)buffer;
    if (s->is_network) {
        take_data(s, field_of(move, 4, NULL));
        return;
    }
    header = pfl_smb_page(&s->smb, (uint32_t)page);
    assert_non_null(header);
    assert_int_equal(pfl_state_begin_read(header, (uint32_t)index, &bitmap), PFL_STATE_DONE);
    s->packets += count_packets(
        pfl_span_of(pfl_smb_chunk(&s->smb, (uint32_t)page, bitmap, (uint32_t)index), 4088));
    assert_int_equal(
        pfl_state_end_read(header, (uint32_t)index,
                           pfl_smb_chunk(&s->smb, (uint32_t)page, bitmap, (uint32_t)index)),
        PFL_STATE_DONE);
    s->chunks++;
}

static void take_commit(struct fake_service *s, struct pfl_span args)
{
    struct pfl_reader r = pfl_reader_of(args);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1)
            take_move(s, f.bytes);
        if (f.id == 3)
            s->acked_flush = f.value;
    }
    assert_false(r.failed);
}

enum fake_method fake_get_main(struct fake_service *s, struct pfl_span *ret_args)
{
    for (;;) {
        enum fake_method method = fake_get(s, ret_args);

        if (method == FAKE_COMMIT_DATA) {
            uint64_t before = s->acked_flush;

            take_commit(s, *ret_args);
            if (s->acked_flush != before)
                return method;
        } else if (method != FAKE_REGISTER_TRACE_WRITER && method != FAKE_UNREGISTER_TRACE_WRITER &&
                   (method != FAKE_UPDATE_DATA_SOURCE || s->has_updates)) {
            return method;
        }
    }
}

void fake_take_packets(struct fake_service *s, uint32_t packets)
{
    struct pfl_span args;

    while (s->packets < packets) {
        if (fake_get(s, &args) == FAKE_COMMIT_DATA)
            take_commit(s, args);
    }
    assert_int_equal(s->packets, packets);
}

struct pfl_span fake_expect(struct fake_service *s, enum fake_method method)
{
    struct pfl_span args;

    assert_int_equal(fake_get_main(s, &args), method);
    return args;
}

static void send_reply(struct fake_service *s, uint64_t id, bool has_more, struct pfl_span body)
{
    static uint8_t frame[131000];
    struct pfl_writer w = pfl_writer_of(frame, sizeof(frame));
    size_t inner = 4 + 1 + pfl_varint_size(body.len) + body.len;

    pfl_writer_field_varint(&w, 2, id);
    pfl_writer_field_header(&w, 6, inner);
    pfl_writer_field_varint(&w, 1, 1);
    pfl_writer_field_varint(&w, 2, has_more);
    pfl_writer_field_bytes(&w, 3, body.data, body.len);
    fake_send(s, pfl_span_of(frame, sizeof(frame) - w.left), -1);
}

void fake_reply(struct fake_service *s, struct pfl_span body)
{
    send_reply(s, s->request_id, false, body);
}

void fake_command(struct fake_service *s, uint32_t id, struct pfl_span body)
{
    static uint8_t bytes[130000];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_bytes(&w, id, body.data, body.len);
    send_reply(s, s->command_id, true, pfl_span_of(bytes, sizeof(bytes) - w.left));
}

static void setup_without_memory(struct fake_service *s)
{
    /* {4 KiB} for a network, nothing where memory was adopted */
    static const uint8_t setup[] = {0x08, 4};

    fake_command(s, 3, pfl_span_of(setup, s->is_network ? sizeof(setup) : 0));
}

static void setup_shared(struct fake_service *s, uint32_t pages)
{
    /* {request id, reply {success, has_more, {3: {1: 4}}}} */
    uint8_t frame[64];
    struct pfl_writer w = pfl_writer_of(frame, sizeof(frame));
    static const uint8_t reply[] = {0x08, 1, 0x10, 1, 0x1a, 4, 0x1a, 2, 0x08, 4};
    static const uint8_t terse[] = {0x08, 1, 0x10, 1, 0x1a, 2, 0x1a, 0};
    size_t bytes = (size_t)pages * 4096;
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    s->smb = (struct pfl_smb){.page_bytes = 4096, .pages = pages};
    s->smb.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(s->smb.base != MAP_FAILED);
    pfl_writer_field_varint(&w, 2, s->command_id);
    if (s->is_old)
        pfl_writer_field_bytes(&w, 6, terse, sizeof(terse));
    else
        pfl_writer_field_bytes(&w, 6, reply, sizeof(reply));
    fake_send(s, pfl_span_of(frame, sizeof(frame) - w.left), fd);
    close(fd);
}

void fake_setup_tracing(struct fake_service *s, uint32_t pages)
{
    if (s->is_network || s->own_fd >= 0) {
        setup_without_memory(s);
        return;
    }
    setup_shared(s, pages);
}

void fake_instance_command(struct fake_service *s, uint32_t cmd, uint64_t id,
                           struct pfl_span config)
{
    static uint8_t bytes[130000];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, 1, id);
    pfl_writer_field_bytes(&w, 2, config.data, config.len);
    fake_command(s, cmd, pfl_span_of(bytes, sizeof(bytes) - w.left));
}
