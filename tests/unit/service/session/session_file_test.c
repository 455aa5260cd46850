/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that the service writes itself, to real files and to some that misbehave. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/trace_packet.fields.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS     ((struct pfl_span){0})
#define FILE_CONFIG "buffers { size_kb: 64 } write_into_file: true file_write_period_ms: 1000 "

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;
static char folder[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pfl-session-file-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kit.is_disk_slow = false;
    pfl_kit_client_close(&consumer);
    pfl_port_kit_close(&kit);
    kit = (struct pfl_port_kit){0};
    (void)rmdir(folder);
    return 0;
}

static uint64_t call(unsigned method)
{
    return pfl_kit_client_invoke(&consumer, method, NO_ARGS);
}

static int make_file(void)
{
    char path[96];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/trace", folder);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static size_t read_file(int fd, uint8_t *dst, size_t max)
{
    ssize_t n = pread(fd, dst, max, 0);

    assert_true(n >= 0);
    return (size_t)n;
}

/* How many packets of the trace have that field; all bytes must be whole packets. */
static unsigned count_packets(struct pfl_span trace, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field packet;
    unsigned count = 0;

    while (pfl_reader_field(&r, &packet)) {
        struct pfl_reader fields = pfl_reader_of(packet.bytes);
        struct pfl_field f;

        assert_int_equal(packet.id, 1);
        while (pfl_reader_field(&fields, &f))
            count += f.id == id;
        assert_false(fields.failed);
    }
    assert_false(r.failed);
    return count;
}

static struct pfl_field find_field(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id)
            return f;
    }
    return (struct pfl_field){0};
}

/* Version 4 of RFC 4122. */
static void assert_random_uuid(struct pfl_span trace)
{
    struct pfl_reader r = pfl_reader_of(trace);
    struct pfl_field packet;

    while (pfl_reader_field(&r, &packet)) {
        struct pfl_field uuid = find_field(packet.bytes, TRACE_PACKET__TRACE_UUID);

        if (uuid.id == 0)
            continue;
        assert_int_equal(find_field(uuid.bytes, 1).value >> 12 & 15, 4);
        assert_int_equal(find_field(uuid.bytes, 2).value >> 62, 2);
    }
}

static void the_file_is_a_whole_trace_when_the_session_is_reported_to_be_over(void **state)
{
    static uint8_t bytes[1 << 20];
    int fd = make_file();
    uint64_t enable = pfl_kit_consumer_enable_fd(&consumer, FILE_CONFIG, fd);
    struct pfl_span trace;

    (void)state;
    pfl_kit_client_expect_nothing(&consumer);
    pfl_port_kit_pass_ms(&kit, 1000);
    assert_true(read_file(fd, bytes, sizeof(bytes)) > 0);
    pfl_kit_client_expect_empty(&consumer, call(KIT_DISABLE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    trace = pfl_span_of(bytes, read_file(fd, bytes, sizeof(bytes)));
    assert_int_equal(count_packets(trace, TRACE_PACKET__TRACE_CONFIG), 1);
    assert_int_equal(count_packets(trace, TRACE_PACKET__TRACE_UUID), 1);
    assert_random_uuid(trace);
    /* once in the first pass, once at the end */
    assert_int_equal(count_packets(trace, TRACE_PACKET__TRACE_STATS), 2);
    (void)close(fd);
}

static void the_descriptor_is_written_from_where_it_stands(void **state)
{
    static uint8_t bytes[1 << 20];
    int fd = make_file();
    uint64_t enable;

    (void)state;
    assert_int_equal(write(fd, "head", 4), 4);
    enable = pfl_kit_consumer_enable_fd(&consumer, FILE_CONFIG, fd);
    (void)call(KIT_DISABLE);
    pfl_kit_client_expect_empty(&consumer, enable + 1, true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    assert_true(read_file(fd, bytes, sizeof(bytes)) > 4);
    assert_memory_equal(bytes, "head\n", 5);
    (void)close(fd);
}

/* Packets of a file whose session had that filter. */
static unsigned count_filtered(const char *config, unsigned *ret_empty)
{
    static uint8_t bytes[1 << 20];
    int fd = make_file();
    uint64_t enable = pfl_kit_consumer_enable_fd(&consumer, config, fd);
    struct pfl_reader r;
    struct pfl_field packet;
    unsigned count = 0;

    pfl_kit_client_expect_empty(&consumer, call(KIT_DISABLE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    r = pfl_reader_of(pfl_span_of(bytes, read_file(fd, bytes, sizeof(bytes))));
    *ret_empty = 0;
    while (pfl_reader_field(&r, &packet)) {
        *ret_empty += packet.bytes.len == 0;
        count++;
    }
    assert_false(r.failed);
    (void)close(fd);
    return count;
}

static void of_a_packet_that_is_malformed_for_the_filter_an_empty_one_is_written(void **state)
{
    unsigned empty;
    unsigned empty_and_malformed;
    unsigned count;

    (void)state;
    /* Trace.packet -> {synchronization_marker}, as a string and as a message, which it is not. */
    count = count_filtered(
        FILE_CONFIG
        "trace_filter { bytecode_v2: \"\\013\\001\\000\\241\\002\\000\\351\\312\\272\\332\\011\" }",
        &empty);
    assert_int_equal(
        count_filtered(FILE_CONFIG
                       "trace_filter { bytecode_v2: "
                       "\"\\013\\001\\000\\243\\002\\002\\000\\000\\245\\225\\320\\341\\006\" }",
                       &empty_and_malformed),
        count);
    assert_true(empty_and_malformed > empty);
}

static void reading_is_empty_while_the_file_is_written(void **state)
{
    int fd = make_file();

    (void)state;
    (void)pfl_kit_consumer_enable_fd(&consumer, FILE_CONFIG, fd);
    pfl_kit_client_expect_empty(&consumer, call(KIT_READ), true, false);
    (void)close(fd);
}

static void a_full_file_ends_the_session_below_its_limit(void **state)
{
    static uint8_t bytes[1 << 20];
    int fd = make_file();
    uint64_t enable =
        pfl_kit_consumer_enable_fd(&consumer, FILE_CONFIG "max_file_size_bytes: 200", fd);
    struct pfl_span trace;
    struct pfl_buf rest;

    (void)state;
    pfl_port_kit_pass_ms(&kit, 1000);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    trace = pfl_span_of(bytes, read_file(fd, bytes, sizeof(bytes)));
    assert_true(trace.len > 0 && trace.len < 200);
    (void)count_packets(trace, 0);
    /* what is left can be read again */
    pfl_kit_client_read_trace(&consumer, call(KIT_READ), &rest);
    assert_int_equal(count_packets(pfl_buf_get(&rest), TRACE_PACKET__TRACE_CONFIG), 0);
    assert_true(rest.len > 0);
    pfl_buf_fini(&rest);
    (void)close(fd);
}

static void a_full_disk_ends_its_session_and_no_other(void **state)
{
    struct pfl_kit_client other;
    uint64_t enable;
    uint64_t others;
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    pfl_kit_consumer_open(&other, &kit);
    others = pfl_kit_consumer_enable(&other, "buffers { size_kb: 64 }");
    enable = pfl_kit_consumer_enable_fd(&consumer, FILE_CONFIG, fd);
    (void)close(fd);
    pfl_port_kit_pass_ms(&kit, 1000);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_kit_client_expect_nothing(&other);
    assert_int_equal(kit.service.sessions_len, 2);
    (void)pfl_kit_client_invoke(&other, KIT_DISABLE, NO_ARGS);
    pfl_kit_client_expect_empty(&other, others + 1, true, false);
    pfl_kit_consumer_expect_disabled(&other, others, NULL);
    pfl_kit_client_close(&other);
}

/* A pipe that nobody empties, filled up to the brim. */
static void make_stuck_pipe(int fds[2])
{
    static const uint8_t junk[4096];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    while (write(fds[1], junk, sizeof(junk)) > 0)
        ;
    assert_int_equal(fcntl(fds[1], F_SETFL, 0), 0);
}

static void drain(int fd)
{
    uint8_t bytes[65536];

    assert_true(read(fd, bytes, sizeof(bytes)) > 0);
}

static void a_disk_that_hangs_holds_up_its_session_alone(void **state)
{
    struct pfl_kit_client other;
    uint64_t enable;
    uint64_t others;
    int fds[2];

    (void)state;
    kit.is_disk_slow = true;
    make_stuck_pipe(fds);
    enable = pfl_kit_consumer_enable_fd(&consumer, FILE_CONFIG, fds[1]);
    (void)close(fds[1]);
    pfl_port_kit_pass_ms(&kit, 1000);
    pfl_kit_client_expect_empty(&consumer, call(KIT_DISABLE), true, false);
    pfl_kit_client_expect_nothing(&consumer); /* the file is not complete yet */
    pfl_kit_consumer_open(&other, &kit);
    others = pfl_kit_consumer_enable(&other, "buffers { size_kb: 64 } duration_ms: 500");
    pfl_port_kit_pass_ms(&kit, 500);
    pfl_kit_consumer_expect_disabled(&other, others, NULL);
    pfl_kit_client_close(&other);

    drain(fds[0]);
    kit.is_disk_slow = false;
    pfl_port_kit_run(&kit);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    (void)close(fds[0]);
}

static void a_consumer_that_leaves_gets_its_whole_file_all_the_same(void **state)
{
    struct pfl_kit_client other;
    int fds[2];

    (void)state;
    kit.is_disk_slow = true;
    make_stuck_pipe(fds);
    pfl_kit_consumer_open(&other, &kit);
    (void)pfl_kit_consumer_enable_fd(&other, FILE_CONFIG, fds[1]);
    (void)close(fds[1]);
    pfl_kit_client_close(&other);
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.sessions_len, 0);
    assert_int_equal(kit.service.closing_len, 1);
    drain(fds[0]);
    kit.is_disk_slow = false;
    pfl_port_kit_run(&kit);
    assert_int_equal(kit.service.closing_len, 0);
    drain(fds[0]); /* its trace */
    (void)close(fds[0]);
}

static void of_a_path_and_a_descriptor_the_path_is_written(void **state)
{
    char config[256];
    int fd = make_file();
    uint64_t enable;

    (void)state;
    (void)snprintf(config, sizeof(config), FILE_CONFIG "output_path: \"%s/x\"", folder);
    enable = pfl_kit_consumer_enable_fd(&consumer, config, fd);
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_port_kit_run(&kit);
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    (void)close(fd);
    (void)snprintf(config, sizeof(config), "%s/x", folder);
    assert_int_equal(unlink(config), 0);
}

static void a_descriptor_that_no_method_took_is_the_next_sessions(void **state)
{
    int first = make_file();
    int second = make_file();
    struct pfl_kit_reply reply;
    uint64_t enable;

    (void)state;
    reply = pfl_kit_client_expect(
        &consumer, pfl_kit_client_invoke_fd(&consumer, KIT_QUERY, NO_ARGS, first), true, false);
    pfl_kit_reply_free(&reply);
    reply = pfl_kit_client_expect(
        &consumer, pfl_kit_client_invoke_fd(&consumer, KIT_QUERY, NO_ARGS, second), true, false);
    pfl_kit_reply_free(&reply);
    enable = pfl_kit_consumer_enable(&consumer, FILE_CONFIG);
    pfl_kit_client_expect_empty(&consumer, call(KIT_DISABLE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    assert_int_equal(lseek(first, 0, SEEK_END), 0); /* the slot holds one, the last */
    assert_true(lseek(second, 0, SEEK_END) > 0);
    (void)close(first);
    (void)close(second);
}

static void the_descriptor_of_a_refused_session_is_no_later_ones(void **state)
{
    int fd = make_file();
    uint64_t enable =
        pfl_kit_consumer_enable_fd(&consumer, "duration_ms: 4294967295 " FILE_CONFIG, fd);

    (void)state;
    pfl_kit_consumer_expect_disabled(&consumer, enable, "duration_ms");
    enable = pfl_kit_consumer_enable(&consumer, FILE_CONFIG);
    pfl_kit_consumer_expect_disabled(&consumer, enable, "pass a descriptor");
    (void)close(fd);
}

static void a_path_that_exists_is_refused_and_stays(void **state)
{
    char config[256];
    char path[96];
    uint64_t enable;
    struct stat st;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/x", folder);
    (void)snprintf(config, sizeof(config), FILE_CONFIG "output_path: \"%s\"", path);
    enable = pfl_kit_consumer_enable(&consumer, config);
    pfl_kit_client_expect_empty(&consumer, call(KIT_FREE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    pfl_port_kit_run(&kit);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    enable = pfl_kit_consumer_enable(&consumer, config);
    pfl_kit_consumer_expect_disabled(&consumer, enable, "File exists");
    assert_int_equal(unlink(path), 0);
}

static void every_segment_begins_like_a_trace_and_is_in_the_index(void **state)
{
    static uint8_t bytes[1 << 20];
    char config[512];
    char path[96];
    uint64_t enable;
    int fd;

    (void)state;
    (void)snprintf(config, sizeof(config),
                   FILE_CONFIG "output_path: \"%s/x\" perfleet_rotation { segment_period_ms: 2000 "
                               "max_segments: 2 }",
                   folder);
    enable = pfl_kit_consumer_enable(&consumer, config);
    for (int i = 0; i < 5; i++)
        pfl_port_kit_pass_ms(&kit, 1000);
    pfl_kit_client_expect_empty(&consumer, call(KIT_DISABLE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    (void)snprintf(path, sizeof(path), "%s/x.000001", folder);
    assert_int_not_equal(access(path, F_OK), 0); /* the oldest is gone */
    for (int i = 2; i <= 3; i++) {
        struct pfl_span trace;

        (void)snprintf(path, sizeof(path), "%s/x.%06d", folder, i);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        trace = pfl_span_of(bytes, read_file(fd, bytes, sizeof(bytes)));
        assert_int_equal(count_packets(trace, TRACE_PACKET__TRACE_CONFIG), 1);
        assert_int_equal(count_packets(trace, TRACE_PACKET__TRACE_UUID), 1);
        assert_true(count_packets(trace, TRACE_PACKET__CLOCK_SNAPSHOT) > 0);
        assert_true(count_packets(trace, TRACE_PACKET__TRACE_STATS) > 0);
        (void)close(fd);
        assert_int_equal(unlink(path), 0);
    }
    (void)snprintf(path, sizeof(path), "%s/x.index", folder);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    bytes[read_file(fd, bytes, sizeof(bytes) - 1)] = '\0';
    assert_non_null(strstr((const char *)bytes, "{\"segment\":3,\"file\":\"x.000003\","));
    assert_non_null(strstr((const char *)bytes, "\"reason\":\"end\""));
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
}

static bool has_segment(unsigned number)
{
    char path[96];

    (void)snprintf(path, sizeof(path), "%s/x.%06u", folder, number);
    return access(path, F_OK) == 0;
}

/* The config alone is larger than a segment may be. */
static void a_full_segment_ends_with_the_pass_that_filled_it_and_one_of_a_cut_does_not(void **state)
{
    static char filling[70000];
    static char config[sizeof(filling) + 512];
    char path[96];
    uint64_t enable;

    (void)state;
    memset(filling, 'a', sizeof(filling) - 1);
    (void)snprintf(config, sizeof(config),
                   FILE_CONFIG
                   "output_path: \"%s/x\" perfleet_rotation { max_segment_bytes: 65536 }"
                   "data_sources { config { name: \"a\" legacy_config: \"%s\" } }",
                   folder, filling);
    enable = pfl_kit_consumer_enable(&consumer, config);
    pfl_port_kit_pass_ms(&kit, 1000);
    assert_true(has_segment(2));
    assert_false(has_segment(3));
    pfl_port_kit_pass_ms(&kit, 1000);
    assert_true(has_segment(3));
    assert_false(has_segment(4));
    pfl_kit_client_expect_empty(&consumer, call(KIT_DISABLE), true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    for (unsigned i = 1; i <= 3; i++) {
        (void)snprintf(path, sizeof(path), "%s/x.%06u", folder, i);
        assert_int_equal(unlink(path), 0);
    }
    (void)snprintf(path, sizeof(path), "%s/x.index", folder);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            the_file_is_a_whole_trace_when_the_session_is_reported_to_be_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_descriptor_is_written_from_where_it_stands, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            of_a_packet_that_is_malformed_for_the_filter_an_empty_one_is_written, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(reading_is_empty_while_the_file_is_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_file_ends_the_session_below_its_limit, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_ends_its_session_and_no_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_disk_that_hangs_holds_up_its_session_alone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_consumer_that_leaves_gets_its_whole_file_all_the_same,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_a_path_and_a_descriptor_the_path_is_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_descriptor_that_no_method_took_is_the_next_sessions,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_descriptor_of_a_refused_session_is_no_later_ones,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_path_that_exists_is_refused_and_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_segment_begins_like_a_trace_and_is_in_the_index,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_full_segment_ends_with_the_pass_that_filled_it_and_one_of_a_cut_does_not, set_up,
            tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
