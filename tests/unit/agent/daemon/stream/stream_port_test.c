/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of an agent, from one process to the next: the test is the service manager, the tracing
 * service and the operator. A process that ends by leaving says nothing more to the stream's
 * memory, so that it is as good as dead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "agent/daemon/port_impl.h"
#include "agent/daemon/stream/stream_impl.h"
#include "base/io/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stored_fds.h"
#include "perfetto/ipc.fields.h"
#include "proto/ipc/frame.h"
#include "tests/unit/proto/h2/h2_kit.h"

#define ID       "0123456789abcdef0123456789abcdef"
#define OTHER_ID "00000000000000000000000000000001"
#define KEPT_MAX 8u

struct world {
    struct pfl_agent agent;
    uv_loop_t loop;
    struct pfl_agent_stream *stream; /* NULL once gone */
    int manager;
    int listener;
    int service;
    struct pfl_stored_fd kept[KEPT_MAX]; /* as the manager has them */
    size_t kept_len;
    unsigned removals;
    char consumer_socket[32];
    char manager_socket[32];
};

static struct world w;

/* ---- the service manager ---- */

/* In the abstract namespace, by the kernel's choice. */
static int bind_any(int type, char *ret_name, size_t size)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr, len), 0);
    len = sizeof(addr);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
    (void)snprintf(ret_name, size, "@%.*s", (int)(len - offsetof(struct sockaddr_un, sun_path) - 1),
                   addr.sun_path + 1);
    return fd;
}

static void take_notice(char *text, int fd)
{
    const char *name = strstr(text, "FDNAME=");

    if (strncmp(text, "FDSTOREREMOVE=1", 15) == 0)
        w.removals++;
    if (fd < 0)
        return;
    assert_non_null(name);
    assert_true(w.kept_len < KEPT_MAX);
    name += strlen("FDNAME=");
    (void)snprintf(w.kept[w.kept_len].name, sizeof(w.kept[0].name), "%.*s",
                   (int)strcspn(name, "\n"), name);
    w.kept[w.kept_len++].fd = fd;
}

static void hear_manager(void)
{
    for (;;) {
        union {
            struct cmsghdr header;
            char bytes[CMSG_SPACE(sizeof(int))];
        } control;
        char text[256] = "";
        struct iovec iov = {text, sizeof(text) - 1};
        struct msghdr message = {.msg_iov = &iov,
                                 .msg_iovlen = 1,
                                 .msg_control = control.bytes,
                                 .msg_controllen = sizeof(control.bytes)};
        struct cmsghdr *c;
        int fd = -1;

        if (recvmsg(w.manager, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
            return;
        c = CMSG_FIRSTHDR(&message);
        if (c != NULL)
            memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        take_notice(text, fd);
    }
}

static int get_kept(const char *prefix)
{
    for (size_t i = 0; i < w.kept_len; i++) {
        if (strncmp(w.kept[i].name, prefix, strlen(prefix)) == 0)
            return dup(w.kept[i].fd);
    }
    return -1;
}

/* What a process gets at its start, under these names. */
static void add_stored(struct pfl_stored_fds *to, const char *prefix, const char *id)
{
    struct pfl_stored_fd *it = &to->list[to->len++];

    it->fd = get_kept(prefix);
    assert_true(it->fd >= 0);
    (void)snprintf(it->name, sizeof(it->name), "%s%s", prefix, id);
}

static void add_stream(struct pfl_stored_fds *to, const char *id)
{
    add_stored(to, PFL_AGENT_KEPT_MEMORY, id);
    add_stored(to, PFL_AGENT_KEPT_SERVICE, id);
}

/* ---- the world ---- */

static int setup(void **state)
{
    memset(&w, 0, sizeof(w));
    w.service = -1;
    w.manager = bind_any(SOCK_DGRAM, w.manager_socket, sizeof(w.manager_socket));
    w.listener = bind_any(SOCK_STREAM, w.consumer_socket, sizeof(w.consumer_socket));
    assert_int_equal(listen(w.listener, 4), 0);
    assert_int_equal(setenv("NOTIFY_SOCKET", w.manager_socket, 1), 0);
    assert_int_equal(pfl_loop_init(&w.loop), 0);
    w.agent.conf.loop = &w.loop;
    w.agent.conf.consumer_socket = w.consumer_socket;
    w.agent.conf.keeps_streams = true;
    w.agent.conf.spool_bytes = PFL_AGENT_SPOOL_MIN_BYTES;
    w.agent.pool = (struct pfl_spool_pool){
        .max_bytes = 1u << 30, .disk_max_bytes = 1u << 30, .disk_max_stream_bytes = 1u << 30};
    pfl_list_init(&w.agent.streams);
    pfl_events_init(&w.agent.events);
    assert_int_equal(pfl_worker_open(&(struct pfl_worker_conf){.loop = &w.loop, .threads_max = 1},
                                     &w.agent.worker),
                     0);
    assert_int_equal(pfl_worker_open(&(struct pfl_worker_conf){.loop = &w.loop, .threads_max = 4},
                                     &w.agent.pool.worker),
                     0);
    return h2_kit_setup(state);
}

static int teardown(void **state)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &w.agent.streams)
        pfl_agent_stream_kill(pfl_agent_stream_of_node(it));
    pfl_worker_close(w.agent.worker);
    pfl_worker_close(w.agent.pool.worker);
    (void)uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    pfl_events_fini(&w.agent.events);
    for (size_t i = 0; i < w.kept_len; i++)
        assert_int_equal(close(w.kept[i].fd), 0);
    if (w.service >= 0)
        (void)close(w.service);
    (void)close(w.listener);
    (void)close(w.manager);
    (void)unsetenv("NOTIFY_SOCKET");
    return h2_kit_teardown(state);
}

static void on_gone(void *user)
{
    (void)user;
    w.stream = NULL;
}

static void open_stream_as(struct pfl_span role)
{
    struct pfl_agent_stream_conf conf;

    pfl_agent_fill_stream_conf(&w.agent, &conf);
    conf.on_gone = on_gone;
    conf.id = ID;
    conf.operator_name = "alice";
    conf.ttl_ms = 60000;
    conf.role = role;
    assert_int_equal(pfl_agent_stream_open(&conf, &w.stream), 0);
    pfl_list_append(&w.agent.streams, pfl_agent_stream_get_node(w.stream));
    w.service = accept4(w.listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(w.service >= 0);
    hear_manager();
}

static void open_stream(void)
{
    open_stream_as(pfl_span_of(NULL, 0));
}

static struct pfl_agent_stream_info get_info(void)
{
    struct pfl_agent_stream_info info;

    assert_non_null(w.stream);
    pfl_agent_stream_get_info(w.stream, &info);
    return info;
}

/* The loop's turns: until nothing is ready, threads apart. */
static void turn(void)
{
    for (unsigned i = 0; i < 20; i++) {
        (void)uv_run(&w.loop, UV_RUN_NOWAIT);
        if (kit.client_h2 != NULL)
            h2_kit_pump();
    }
}

static void run_until_gone(void)
{
    while (w.stream != NULL)
        (void)uv_run(&w.loop, UV_RUN_ONCE);
}

static void leave(void)
{
    pfl_agent_stream_leave(w.stream);
    run_until_gone();
    hear_manager();
    assert_int_equal(w.removals, 0);
}

/* The streams that an agent takes back, which are then killed. */
static unsigned take_back(struct pfl_stored_fds *stored)
{
    unsigned count;

    w.agent.streams_len = 0;
    pfl_agent_take_streams_back(&w.agent, stored);
    turn();
    hear_manager();
    count = w.agent.streams_len;
    return count;
}

static struct pfl_agent_stream *get_first(void)
{
    assert_false(pfl_list_is_empty(&w.agent.streams));
    return pfl_agent_stream_of_node(w.agent.streams.next);
}

static void kill_all(void)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, &w.agent.streams)
        pfl_agent_stream_kill(pfl_agent_stream_of_node(it));
    while (w.agent.streams_len != 0)
        (void)uv_run(&w.loop, UV_RUN_ONCE);
    hear_manager();
}

/* ---- tests ---- */

/* An encoder gives up to PFL_ENCODE_OUTPUT_BYTES at once. */
static void more_than_is_left_of_the_ring_goes_into_the_spool(void **state)
{
    static const uint8_t bytes[PFL_ENCODE_OUTPUT_BYTES];
    struct pfl_agent_stream *s;
    size_t kept;

    (void)state;
    w.agent.pool.dir = "/tmp";
    open_stream();
    s = w.stream;
    kept = (size_t)s->facts.out_max_bytes - PFL_AGENT_READ_BYTES - 1000;
    for (unsigned i = 0; i < 16; i++)
        assert_int_equal(pfl_agent_stream_out_on_encoded(s, pfl_span_of(bytes, kept / 16)), 0);
    kept = pfl_replay_kept(&s->resume.out);
    assert_true(sizeof(bytes) > s->facts.out_max_bytes - kept);
    assert_int_equal(pfl_agent_stream_out_on_encoded(s, pfl_span_of(bytes, sizeof(bytes))), 0);
    assert_int_equal(pfl_replay_kept(&s->resume.out), kept);
    assert_int_equal(pfl_spool_memory_bytes(s->spool), sizeof(bytes));
    pfl_agent_stream_publish(s);
    pfl_agent_stream_kill(s);
    run_until_gone();
}

/* Without files: what the ring takes until the service is held back. */
static void one_operator_has_half_of_the_memory_of_all_spools(void **state)
{
    static const uint8_t bytes[256u << 10];
    const uint64_t max = 16u << 20;
    struct pfl_agent_stream *s;
    uint64_t kept;

    (void)state;
    w.agent.conf.spool_bytes = 2 * max;
    w.agent.pool.max_bytes = max;
    open_stream();
    s = w.stream;
    while (!s->is_service_held && w.agent.pool.used_bytes <= max) {
        assert_int_equal(pfl_agent_stream_out_on_encoded(s, pfl_span_of(bytes, sizeof(bytes))), 0);
        pfl_agent_stream_out_pace(s);
    }
    kept = pfl_replay_kept(&s->resume.out);
    assert_in_range(kept, max / 2, max / 2 + sizeof(bytes));
    assert_int_equal(w.agent.pool.used_bytes, kept);
    assert_false(pfl_spool_pool_has_memory(&w.agent.pool, s->who));
    assert_true(pfl_spool_pool_has_memory(&w.agent.pool, pfl_shares_hash("bob", 3)));
    pfl_agent_stream_kill(s);
    run_until_gone();
    assert_int_equal(w.agent.pool.used_bytes, 0);
}

static void serve_stream(struct pfl_h2_stream *h2_stream)
{
    assert_int_equal(pfl_agent_stream_attach(w.stream, h2_stream, NULL), 0);
}

/* Both have said all. */
static void talk_to_the_end(bool is_used_up)
{
    char byte;

    kit.serve = serve_stream;
    open_stream();
    h2_kit_open_and_connect();
    assert_int_equal(write(w.service, "hello", 5), 5);
    kit.client.is_ending = true;
    pfl_h2_stream_wake(kit.client.stream);
    turn();
    assert_int_equal(kit.client.got.len, 5);
    if (is_used_up)
        pfl_h2_stream_credit(kit.client.stream, 5);
    assert_int_equal(read(w.service, &byte, 1), 0);
    assert_int_equal(shutdown(w.service, SHUT_RDWR), 0);
    turn();
    assert_int_equal(kit.client.ends, 1);
}

/* Else it counts as one that runs, and an operator with many of them begins no more. */
static void a_stream_that_was_over_is_over_in_the_next_process(void **state)
{
    struct pfl_stored_fd list[2];
    struct pfl_stored_fds stored = {.list = list};
    struct pfl_agent_stream_info info;
    uint64_t sent_bytes;

    (void)state;
    talk_to_the_end(true);
    assert_true(get_info().is_over);
    assert_true(get_info().is_done);
    sent_bytes = get_info().sent_bytes;
    leave();
    add_stream(&stored, ID);
    assert_int_equal(take_back(&stored), 1);
    pfl_agent_stream_get_info(get_first(), &info);
    assert_true(info.is_over);
    assert_true(info.is_done);
    assert_true(info.sent_bytes == sent_bytes);
    assert_true(w.agent.pool.gone_sent_bytes == 0); /* counted by the process before */
    assert_string_equal(info.id, ID);
    assert_string_equal(info.operator_name, "alice");
    kill_all();
    assert_true(w.agent.pool.gone_sent_bytes == sent_bytes);
    assert_true(w.agent.pool.gone_resumes == 0);
}

static void what_is_not_used_up_is_not_done_in_the_next_process(void **state)
{
    struct pfl_stored_fd list[2];
    struct pfl_stored_fds stored = {.list = list};
    struct pfl_agent_stream_info info;

    (void)state;
    talk_to_the_end(false);
    leave();
    add_stream(&stored, ID);
    assert_int_equal(take_back(&stored), 1);
    pfl_agent_stream_get_info(get_first(), &info);
    assert_true(info.is_over);
    assert_false(info.is_done);
    assert_int_equal(info.kept_bytes, 5);
    kill_all();
}

/* Whatever names a manager has for it. */
static void the_memory_of_another_stream_is_not_taken(void **state)
{
    struct pfl_stored_fd list[2];
    struct pfl_stored_fds stored = {.list = list};

    (void)state;
    open_stream();
    leave();
    add_stream(&stored, OTHER_ID);
    assert_int_equal(take_back(&stored), 0);
    assert_int_equal(list[0].fd, -1);
    assert_int_equal(list[1].fd, -1);
    assert_int_equal(w.removals, 3);
}

/* Descriptors of one name are given up together: so they are not. */
static void a_stream_that_is_there_twice_is_taken_once_and_stays_kept(void **state)
{
    struct pfl_stored_fd list[4];
    struct pfl_stored_fds stored = {.list = list};

    (void)state;
    open_stream();
    leave();
    for (unsigned i = 0; i < 2; i++)
        add_stream(&stored, ID);
    assert_int_equal(take_back(&stored), 1);
    assert_int_equal(w.removals, 0);
    for (size_t i = 0; i < stored.len; i++)
        assert_int_equal(list[i].fd, -1);
    kill_all();
    assert_int_equal(w.removals, 3);
}

static void what_belongs_to_no_stream_is_given_up(void **state)
{
    struct pfl_stored_fd list[1];
    struct pfl_stored_fds stored = {.list = list};

    (void)state;
    open_stream();
    leave();
    add_stored(&stored, PFL_AGENT_KEPT_SERVICE, ID);
    assert_int_equal(take_back(&stored), 0);
    assert_int_equal(w.removals, 1);
    assert_int_equal(list[0].fd, -1);
}

/* ---- what the gate let through ---- */

/* BindService of ConsumerPort, which passes under any role. */
static size_t write_bind(uint8_t *dst, size_t size)
{
    static const char name[] = "ConsumerPort";
    uint8_t bind[32];
    struct pfl_writer inner = pfl_writer_of(bind, sizeof(bind));
    struct pfl_writer w_frame =
        pfl_writer_of(dst + PFL_FRAME_PREFIX_BYTES, size - PFL_FRAME_PREFIX_BYTES);
    struct pfl_writer prefix = pfl_writer_of(dst, PFL_FRAME_PREFIX_BYTES);
    size_t len;

    pfl_writer_field_bytes(&inner, IPC_FRAME__BIND_SERVICE__SERVICE_NAME, name, sizeof(name) - 1);
    pfl_writer_field_varint(&w_frame, IPC_FRAME__REQUEST_ID, 1);
    pfl_writer_field_bytes(&w_frame, IPC_FRAME__MSG_BIND_SERVICE, bind, sizeof(bind) - inner.left);
    len = size - PFL_FRAME_PREFIX_BYTES - w_frame.left;
    pfl_writer_u32(&prefix, (uint32_t)len);
    return PFL_FRAME_PREFIX_BYTES + len;
}

/* So that the service takes nothing more; how much it has to read first. */
static size_t fill_service(void)
{
    static const uint8_t bytes[4096];
    int fd = pfl_service_socket_get_fd(w.stream->service);
    size_t len = 0;
    ssize_t n;

    while ((n = send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        len += (size_t)n;
    while ((n = send(fd, bytes, 1, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        len += (size_t)n;
    return len;
}

static void read_service(uint8_t *dst, size_t len)
{
    for (unsigned turns = 0; len != 0; turns++) {
        ssize_t n = recv(w.service, dst, len, MSG_DONTWAIT);

        assert_true(turns < 10000);
        if (n > 0) {
            dst += n;
            len -= (size_t)n;
        }
        turn();
    }
}

/* The operator has no say in it any more: a resend might be something else. */
static void what_was_let_through_is_given_on_by_the_next_process(void **state)
{
    static const uint8_t role[] = {0x0a, 1, 'r'};
    static uint8_t got[4u << 20];
    struct pfl_stored_fd list[2];
    struct pfl_stored_fds stored = {.list = list};
    struct pfl_resume_offer offer;
    uint8_t frame[64];
    size_t len = write_bind(frame, sizeof(frame));
    size_t before;

    (void)state;
    open_stream_as(pfl_span_of(role, sizeof(role)));
    before = fill_service();
    assert_true(before + len <= sizeof(got));
    assert_int_equal(pfl_resume_feed(&w.stream->resume, pfl_span_of(frame, len)), 0);
    pfl_agent_stream_service_deliver(w.stream);
    assert_int_equal(w.stream->passing_bytes, len);
    leave();
    add_stream(&stored, ID);
    assert_int_equal(take_back(&stored), 1);
    pfl_resume_get_offer(&get_first()->resume, &offer);
    assert_true(offer.received == len);
    assert_true(offer.credited == len);
    read_service(got, before);
    read_service(got, len);
    assert_memory_equal(got, frame, len);
    assert_int_equal(recv(w.service, got, 1, MSG_DONTWAIT), -1);
    kill_all();
}

/* ---- turns ---- */

/* Others at this host wait for a turn: a window of them takes 0.05 s. */
static void requests_under_a_role_are_judged_in_turns(void **state)
{
    static const uint8_t role[] = {0x0a, 1, 'r'};
    static const uint8_t refused[] = {10, 0, 0, 0, 0x10, 9, 0x2a, 6, 8, 1, 0x10, 1, 0x20, 1};
    size_t sent = 0;
    size_t held;

    (void)state;
    pfl_log_set_level(PFL_LOG_ERROR);
    json_set_alloc_funcs(pfl_mem_alloc, pfl_mem_free);
    open_stream_as(pfl_span_of(role, sizeof(role)));
    for (; sent + sizeof(refused) <= PFL_TUNNEL_CONTROL_WINDOW_BYTES; sent += sizeof(refused))
        assert_int_equal(pfl_resume_feed(&w.stream->resume, pfl_span_of(refused, sizeof(refused))),
                         0);
    pfl_agent_stream_service_deliver(w.stream);
    held = pfl_resume_held(&w.stream->resume);
    assert_in_range(held, sent / 2, sent - sizeof(refused));
    /* More that comes in the same turn waits with it. */
    pfl_agent_stream_service_deliver(w.stream);
    assert_int_equal(pfl_resume_held(&w.stream->resume), held);
    while (pfl_resume_held(&w.stream->resume) != 0)
        turn();
    assert_non_null(w.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(more_than_is_left_of_the_ring_goes_into_the_spool, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_operator_has_half_of_the_memory_of_all_spools, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_stream_that_was_over_is_over_in_the_next_process, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_is_not_used_up_is_not_done_in_the_next_process, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_memory_of_another_stream_is_not_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stream_that_is_there_twice_is_taken_once_and_stays_kept,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(what_belongs_to_no_stream_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_let_through_is_given_on_by_the_next_process, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(requests_under_a_role_are_judged_in_turns, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
