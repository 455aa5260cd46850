/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ports, the worker pool and the threads of files while memory runs out.
 *
 * A producer and a consumer send a conversation with most methods in it; of each run one
 * allocation of the service fails, the first, the second and so on. Whatever that does to the two,
 * the service serves the next client as if nothing had been and leaves nothing behind. The requests
 * are bytes made beforehand: only the service allocates while one may fail.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/fdsock.h"
#include "base/io/loop.h"
#include "base/mem.h"
#include "base/message.h"
#include "service/port/disk_port.h"
#include "tests/support/sweep.h"
#include "tests/unit/service/port/role_kit.h"

#define STEPS_MAX    32u
#define SCRIPT_BYTES 8192u
#define RUNS_MAX     5000u

enum { BIND = 0 }; /* instead of a method */

struct step {
    bool is_producer;
    bool has_fd; /* a file comes with it */
    size_t begin, len;
};

static struct {
    uint8_t bytes[SCRIPT_BYTES];
    size_t used;
    struct step steps[STEPS_MAX];
    size_t len;
} script;

/* ---- the conversation ---- */

static void add_step(bool is_producer, unsigned method, struct pfl_span args)
{
    struct step *step = &script.steps[script.len++];
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_writer w;
    size_t mark;

    pfl_buf_init(&buf, SCRIPT_BYTES);
    pfl_message_varint(&m, 2, script.len);
    mark = pfl_message_begin(&m, method == BIND ? 3 : 5);
    if (method == BIND) {
        pfl_message_str(&m, 1, is_producer ? "ProducerPort" : "ConsumerPort");
    } else {
        pfl_message_varint(&m, 1, 1);
        pfl_message_varint(&m, 2, method);
        pfl_message_bytes(&m, 3, args);
    }
    pfl_message_end(&m, mark);
    assert_int_equal(m.rc, 0);
    assert_true(script.len <= STEPS_MAX && script.used + 4 + buf.len <= SCRIPT_BYTES);
    *step = (struct step){.is_producer = is_producer, .begin = script.used, .len = 4 + buf.len};
    w = pfl_writer_of(script.bytes + script.used, SCRIPT_BYTES - script.used);
    pfl_writer_u32(&w, (uint32_t)buf.len);
    pfl_writer_bytes(&w, pfl_buf_get(&buf).data, buf.len);
    script.used += step->len;
    pfl_buf_fini(&buf);
}

static void add_call(bool is_producer, unsigned method, uint64_t number, const char *text)
{
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    if (text != NULL)
        pfl_writer_field_bytes(&w, 1, text, strlen(text));
    else if (number != 0)
        pfl_writer_field_varint(&w, 1, number);
    add_step(is_producer, method, pfl_span_of(bytes, sizeof(bytes) - w.left));
}

/* TraceConfig: a buffer, the data source, and with `is_file` a file to write. */
static void add_enable(bool is_file)
{
    static const char source[] = "kit.source";
    uint8_t bytes[256], config[128], name[32];
    struct pfl_writer n = pfl_writer_of(name, sizeof(name));
    struct pfl_writer c = pfl_writer_of(config, sizeof(config));
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_bytes(&c, 1, "\x08\x40", 2); /* buffers {size_kb: 64} */
    pfl_writer_field_bytes(&n, 1, source, sizeof(source) - 1);
    pfl_writer_field_header(&c, 2, 2 + sizeof(name) - n.left);
    pfl_writer_field_bytes(&c, 1, name, sizeof(name) - n.left);
    if (is_file)
        pfl_writer_field_varint(&c, 8, 1);
    pfl_writer_field_bytes(&w, 1, config, sizeof(config) - c.left);
    assert_false(w.failed || c.failed);
    add_step(false, KIT_ENABLE, pfl_span_of(bytes, sizeof(bytes) - w.left));
    script.steps[script.len - 1].has_fd = is_file;
}

static void add_register(void)
{
    static const char name[] = "kit.source";
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_header(&w, 1, 2 + sizeof(name) - 1 + 2);
    pfl_writer_field_bytes(&w, 1, name, sizeof(name) - 1);
    pfl_writer_field_varint(&w, 2, 1);
    add_step(true, KIT_REGISTER, pfl_span_of(bytes, sizeof(bytes) - w.left));
}

static void write_script(bool is_file)
{
    memset(&script, 0, sizeof(script));
    add_call(true, BIND, 0, NULL);
    add_call(true, KIT_INITIALIZE, 0, NULL);
    add_call(true, KIT_COMMANDS, 0, NULL);
    add_register();
    add_call(false, BIND, 0, NULL);
    add_call(false, KIT_CAPABILITIES, 0, NULL);
    add_enable(is_file);
    add_call(false, KIT_OBSERVE, 1, NULL);
    add_call(true, KIT_REGISTER_WRITER, 1, NULL);
    add_call(true, KIT_STARTED, 1, NULL);
    add_call(true, KIT_TRIGGERS, 0, "a trigger");
    add_call(false, KIT_FLUSH, 1000, NULL);
    add_call(true, KIT_COMMIT, 0, NULL);
    add_call(false, KIT_QUERY, 0, NULL);
    add_call(false, KIT_STATS, 0, NULL);
    add_call(true, KIT_SYNC, 0, NULL);
    add_call(false, KIT_DISABLE, 0, NULL);
    add_call(true, KIT_STOPPED, 1, NULL);
    if (!is_file)
        add_call(false, KIT_READ, 0, NULL);
    add_call(false, KIT_FREE, 0, NULL);
    add_call(true, KIT_UNREGISTER, 0, "kit.source");
}

/* ---- one run ---- */

static void send_step(int sock, const struct step *step)
{
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec iov = {.iov_base = script.bytes + step->begin, .iov_len = step->len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    int fd = -1;

    if (step->has_fd) {
        struct cmsghdr *cmsg;

        fd = memfd_create("trace", MFD_CLOEXEC);
        assert_true(fd >= 0);
        msg.msg_control = control;
        msg.msg_controllen = sizeof(control);
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
    }
    (void)sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT); /* it may be closed already */
    if (fd >= 0)
        (void)close(fd);
}

/* What the service says is of no interest; descriptors that come with it are closed with us. */
static void drain(int sock)
{
    uint8_t bytes[65536];

    while (recv(sock, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        continue;
}

/* Allocations of the service in the conversation of which the nth failed. */
static uint64_t play(struct pfl_port_kit *kit, uint64_t nth)
{
    struct pfl_mem_stats stats;
    int socks[2];

    pfl_mem_fail_at(nth);
    assert_int_equal(pfl_fdsock_connect_unix(kit->consumer_address, &socks[0]), 0);
    assert_int_equal(pfl_fdsock_connect_unix(kit->producer_address, &socks[1]), 0);
    pfl_port_kit_run(kit);
    for (size_t i = 0; i < script.len; i++) {
        send_step(socks[script.steps[i].is_producer], &script.steps[i]);
        pfl_port_kit_run(kit);
        drain(socks[0]);
        drain(socks[1]);
    }
    (void)close(socks[0]);
    (void)close(socks[1]);
    pfl_port_kit_run(kit);
    pfl_mem_stats_get(&stats);
    pfl_mem_fail_at(0);
    return stats.allocations;
}

static void expect_service(struct pfl_port_kit *kit)
{
    struct pfl_kit_client consumer;
    uint64_t enable;

    pfl_kit_consumer_open(&consumer, kit);
    enable = pfl_kit_consumer_enable(&consumer, "buffers { size_kb: 64 }");
    pfl_kit_client_expect_empty(
        &consumer, pfl_kit_client_call(&consumer, KIT_FREE, (struct pfl_kit_args){0}), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_close(&consumer);
    assert_int_equal(kit->service.sessions_len, 0);
}

static void sweep_conversation(bool is_file)
{
    uint64_t allocations = UINT64_MAX;
    uint64_t nth = 0;

    write_script(is_file);
    while (allocations >= nth) { /* until the nth is one more than a whole conversation needs */
        nth++;
        assert_true(nth < RUNS_MAX);
        struct pfl_port_kit kit;

        pfl_port_kit_open(&kit);
        allocations = play(&kit, nth);
        if (allocations < nth) { /* nothing failed: the conversation is what it is meant to be */
            assert_int_equal(kit.service.last_session_id, 1);
            assert_int_equal(kit.service.last_instance_id, 1);
        }
        expect_service(&kit);
        pfl_port_kit_close(&kit);
    }
    assert_in_range(nth, 40, RUNS_MAX);
}

static void a_service_short_of_memory_serves_the_next_client(void **state)
{
    (void)state;
    sweep_conversation(false);
}

static void so_does_one_that_writes_a_file(void **state)
{
    (void)state;
    sweep_conversation(true);
}

/* ---- threads ---- */

struct threads {
    uv_loop_t loop;
    struct pfl_wakeup wakeup;
};

static void open_threads(struct threads *self)
{
    assert_int_equal(pfl_loop_init(&self->loop), 0);
    assert_int_equal(pfl_wakeup_open(&self->wakeup, &self->loop), 0);
}

static void close_threads(struct threads *self)
{
    pfl_wakeup_close(&self->wakeup);
    (void)uv_run(&self->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&self->loop), 0);
}

static void on_written(void *user, const struct pfl_disk_result *result)
{
    uint64_t *written = user;

    assert_int_equal(result->error, 0);
    *written = result->written[0];
}

static int write_file(void *arg)
{
    static const char text[] = "a trace";
    int fds[PFL_DISK_SLOTS] = {memfd_create("trace", MFD_CLOEXEC), -1, -1, -1};
    struct pfl_disk_job job = {0};
    struct pfl_disk_file *file;
    uint64_t written = 0;
    struct threads *threads = arg;
    int rc = pfl_disk_port_ops.open(&threads->wakeup, fds, on_written, &written, &file);

    if (rc != 0) { /* then the descriptors are still ours */
        assert_int_equal(close(fds[0]), 0);
        return rc;
    }
    pfl_disk_job_add(&job, (struct pfl_disk_step){.kind = PFL_DISK_WRITE,
                                                  .bytes = pfl_span_of(text, sizeof(text))});
    pfl_disk_port_ops.submit(file, &job);
    while (written == 0)
        (void)uv_run(&threads->loop, UV_RUN_ONCE);
    assert_int_equal(written, sizeof(text));
    pfl_disk_port_ops.close(file);
    (void)uv_run(&threads->loop, UV_RUN_DEFAULT);
    assert_int_equal(fcntl(fds[0], F_GETFD), -1);
    return 0;
}

static void a_file_whose_thread_cannot_be_made_stays_its_owner_s(void **state)
{
    struct threads threads;

    (void)state;
    open_threads(&threads);
    pfl_sweep(write_file, &threads, false);
    close_threads(&threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_service_short_of_memory_serves_the_next_client),
        cmocka_unit_test(so_does_one_that_writes_a_file),
        cmocka_unit_test(a_file_whose_thread_cannot_be_made_stays_its_owner_s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
