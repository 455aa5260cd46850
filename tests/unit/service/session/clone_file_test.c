/* SPDX-License-Identifier: Apache-2.0 */
/* Clones of sessions that write into a file: slow disks, and those who leave meanwhile. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/fragment.h"
#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"
#include "service/session/session_due.h"
#include "service/session/session_timers.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS     ((struct pfl_span){0})
#define FILE_CONFIG "buffers { size_kb: 64 } write_into_file: true file_write_period_ms: 1000 "

static struct pfl_port_kit kit;
static struct pfl_kit_client source;
static struct pfl_kit_client cloner;
static int pipe_fds[2]; /* whose writing end takes nothing more */

static int set_up(void **state)
{
    static const uint8_t junk[4096];

    (void)state;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&source, &kit);
    pfl_kit_consumer_open(&cloner, &kit);
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    while (write(pipe_fds[1], junk, sizeof(junk)) > 0)
        ;
    return fcntl(pipe_fds[1], F_SETFL, 0);
}

static void drain(void)
{
    static uint8_t bytes[1 << 20];

    while (read(pipe_fds[0], bytes, sizeof(bytes)) > 0)
        ;
}

static int tear_down(void **state)
{
    (void)state;
    drain();
    kit.is_disk_slow = false;
    pfl_port_kit_run(&kit);
    pfl_kit_client_close(&source);
    pfl_kit_client_close(&cloner);
    pfl_port_kit_close(&kit);
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    return 0;
}

static int make_file(void)
{
    char path[] = "/tmp/pfl-clone-file-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static unsigned count_configs(int fd)
{
    static uint8_t bytes[1 << 20];
    ssize_t len = pread(fd, bytes, sizeof(bytes), 0);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(bytes, len > 0 ? (size_t)len : 0));
    struct pfl_field packet;
    unsigned count = 0;

    while (pfl_reader_field(&r, &packet)) {
        struct pfl_reader fields = pfl_reader_of(packet.bytes);
        struct pfl_field f;

        while (pfl_reader_field(&fields, &f))
            count += f.id == TRACE_PACKET__TRACE_CONFIG;
    }
    assert_false(r.failed);
    return count;
}

static uint64_t clone_into(int fd)
{
    static const uint8_t session_1[] = {0x08, 0x01};

    return pfl_kit_client_invoke_fd(&cloner, KIT_CLONE, pfl_span_of(session_1, sizeof(session_1)),
                                    fd);
}

/* Field 1 is success, 5 was_write_into_file. */
static void expect_cloned(uint64_t request, bool is_ok)
{
    struct pfl_kit_reply reply = pfl_kit_client_expect(&cloner, request, true, false);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(reply.body, reply.body_len));
    struct pfl_field f;
    uint64_t values[6] = {0};

    while (pfl_reader_field(&r, &f)) {
        if (f.id < 6)
            values[f.id] = f.value;
    }
    assert_int_equal(values[1], is_ok);
    assert_int_equal(values[5], is_ok);
    pfl_kit_reply_free(&reply);
}

static void a_clone_has_the_file_and_what_comes_behind_it(void **state)
{
    int from = make_file();
    int to = make_file();
    uint64_t enable = pfl_kit_consumer_enable_fd(&source, FILE_CONFIG, from);
    uint64_t clone;

    (void)state;
    pfl_port_kit_pass_ms(&kit, 1000);
    clone = clone_into(to);
    pfl_port_kit_run(&kit);
    expect_cloned(clone, true);
    assert_int_equal(count_configs(from), 1);
    assert_int_equal(count_configs(to), 2); /* the source's and its own */
    pfl_kit_client_expect_empty(&source, pfl_kit_client_invoke(&source, KIT_DISABLE, NO_ARGS), true,
                                false);
    pfl_kit_consumer_expect_disabled(&source, enable, NULL);
    assert_int_equal(count_configs(from), 1);
    (void)close(from);
    (void)close(to);
}

static void a_clone_waits_for_a_write_of_its_source_and_fails_with_it(void **state)
{
    int to = make_file();
    uint64_t clone;

    (void)state;
    kit.is_disk_slow = true;
    (void)pfl_kit_consumer_enable_fd(&source, FILE_CONFIG, pipe_fds[1]);
    pfl_port_kit_pass_ms(&kit, 1000);
    clone = clone_into(to);
    pfl_kit_client_expect_nothing(&cloner);
    pfl_kit_client_expect_empty(&source, pfl_kit_client_invoke(&source, KIT_FREE, NO_ARGS), true,
                                false);
    expect_cloned(clone, false);
    (void)close(to);
}

static void a_file_that_is_none_is_not_cloned(void **state)
{
    int to = make_file();
    uint64_t clone;

    (void)state;
    (void)pfl_kit_consumer_enable_fd(&source, FILE_CONFIG, pipe_fds[1]);
    clone = clone_into(to);
    expect_cloned(clone, false);
    assert_int_equal(kit.service.sessions_len, 1);
    (void)close(to);
}

static void a_clone_that_is_freed_before_it_is_written_says_so_and_leaves_nothing(void **state)
{
    int from = make_file();
    uint64_t clone;

    (void)state;
    (void)pfl_kit_consumer_enable_fd(&source, FILE_CONFIG, from);
    pfl_port_kit_pass_ms(&kit, 1000);
    kit.is_disk_slow = true;
    clone = clone_into(pipe_fds[1]);
    pfl_kit_client_expect_nothing(&cloner);
    pfl_kit_client_expect_empty(&cloner, pfl_kit_client_invoke(&cloner, KIT_FREE, NO_ARGS), true,
                                false);
    expect_cloned(clone, false);
    assert_int_equal(kit.service.closing_len, 1);
    drain();
    kit.is_disk_slow = false;
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.closing_len, 0);
    (void)close(from);
}

static void a_consumer_that_leaves_gets_its_clone_all_the_same(void **state)
{
    int from = make_file();
    int to = make_file();

    (void)state;
    (void)pfl_kit_consumer_enable_fd(&source, FILE_CONFIG, from);
    pfl_port_kit_pass_ms(&kit, 1000);
    kit.is_disk_slow = true;
    (void)clone_into(to);
    pfl_kit_client_close(&cloner);
    kit.is_disk_slow = false;
    pfl_port_kit_run(&kit);
    assert_int_equal(count_configs(to), 2);
    assert_int_equal(kit.service.sessions_len, 1);
    pfl_kit_consumer_open(&cloner, &kit);
    (void)close(from);
    (void)close(to);
}

#define LARGE_CONFIG "buffers { size_kb: 16384 } write_into_file: true file_write_period_ms: 1000 "
#define CHUNK_BYTES  32000u
#define CHUNKS       200u /* 6 MB: more than a turn copies */

static void fill_source(void)
{
    static uint8_t payload[CHUNK_BYTES];
    struct pfl_session *session = pfl_service_find_session(&kit.service, 1);
    struct pfl_trace_buffer_chunk chunk = {.producer_id = 1,
                                           .writer_id = 1,
                                           .fragments = 1,
                                           .is_complete = true,
                                           .payload = payload,
                                           .payload_bytes = CHUNK_BYTES};

    /* A size of four bytes, then a packet that has one field. */
    pfl_fragment_put_size4(payload, CHUNK_BYTES - PFL_FRAGMENT_SIZE_BYTES);
    payload[4] = 0xa2;
    payload[5] = 0x38; /* for_testing */
    assert_int_equal(pfl_varint_put(payload + 6, CHUNK_BYTES - 9), 3);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        chunk.chunk_id = i;
        pfl_trace_buffer_commit(session->buffers[0].ring, &chunk);
    }
}

static unsigned count_test_packets(int fd)
{
    off_t len = lseek(fd, 0, SEEK_END);
    uint8_t *bytes = pfl_mem_alloc((size_t)len + 1);
    struct pfl_reader r = pfl_reader_of(pfl_span_of(bytes, (size_t)len));
    struct pfl_field packet;
    unsigned count = 0;

    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)len, 0), len);
    while (pfl_reader_field(&r, &packet)) {
        struct pfl_reader fields = pfl_reader_of(packet.bytes);
        struct pfl_field f;

        while (pfl_reader_field(&fields, &f))
            count += f.id == 900;
    }
    assert_false(r.failed);
    pfl_mem_free(bytes);
    return count;
}

/* What is in the file when the copying begins is not in the buffer; what comes after is neither. */
static void a_file_has_each_packet_once_though_its_buffers_are_copied_in_turns(void **state)
{
    int from = make_file();
    int to = make_file();
    uint64_t clone;

    (void)state;
    (void)pfl_kit_consumer_enable_fd(&source, LARGE_CONFIG, from);
    fill_source();
    clone = clone_into(to);
    pfl_kit_client_expect_nothing(&cloner);
    pfl_port_kit_pass_ms(&kit, 1000); /* the source writes all of it */
    assert_int_equal(count_test_packets(from), CHUNKS);
    pfl_kit_client_expect_nothing(&cloner);
    while (kit.service.is_copying)
        pfl_session_due_run(&kit.service);
    pfl_port_kit_run(&kit);
    expect_cloned(clone, true);
    assert_int_equal(count_test_packets(to), CHUNKS);
    (void)close(from);
    (void)close(to);
}

static void who_leaves_or_reads_before_the_buffers_are_copied_gets_nothing(void **state)
{
    int from = make_file();
    int to = make_file();

    (void)state;
    (void)pfl_kit_consumer_enable_fd(&source, LARGE_CONFIG, from);
    fill_source();
    (void)clone_into(to);
    pfl_port_kit_run(&kit);
    pfl_kit_client_expect_empty(&cloner, pfl_kit_client_invoke(&cloner, KIT_READ, NO_ARGS), true,
                                false);
    pfl_kit_client_close(&cloner);
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.sessions_len, 1);
    assert_int_equal(kit.service.closing_len, 0);
    assert_int_equal(count_test_packets(to), 0);
    pfl_kit_consumer_open(&cloner, &kit);
    (void)close(from);
    (void)close(to);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_clone_has_the_file_and_what_comes_behind_it),
        TEST(a_clone_waits_for_a_write_of_its_source_and_fails_with_it),
        TEST(a_file_that_is_none_is_not_cloned),
        TEST(a_clone_that_is_freed_before_it_is_written_says_so_and_leaves_nothing),
        TEST(a_consumer_that_leaves_gets_its_clone_all_the_same),
        TEST(a_file_has_each_packet_once_though_its_buffers_are_copied_in_turns),
        TEST(who_leaves_or_reads_before_the_buffers_are_copied_gets_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
