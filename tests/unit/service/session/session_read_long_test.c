/* SPDX-License-Identifier: Apache-2.0 */
/* A packet that is read in turns of the loop arrives whole: over the socket and in files, filtered,
 * compressed and in segments. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <zlib.h>

#include "abi/chunk.h"
#include "abi/fragment.h"
#include "base/mem.h"
#include "service/core/session.h"
#include "tests/unit/service/port/role_kit.h"

#define NO_ARGS     ((struct pfl_span){0})
#define CHUNKS      1200u
#define CHUNK_BYTES 4000u
#define BYTES       ((size_t)CHUNKS * CHUNK_BYTES)
#define HEAD_BYTES  6u
#define TRACE_MAX   (4 * BYTES)

#define BUFFER         "buffers { size_kb: 16384 } "
#define FILE_OF        BUFFER "write_into_file: true file_write_period_ms: 1000 "
#define DEFLATED       "compression_type: COMPRESSION_TYPE_DEFLATE "
#define FOR_TESTING_ID 900u

static struct pfl_port_kit kit;
static struct pfl_kit_client consumer;
static char folder[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pfl-long-packet-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    pfl_port_kit_open(&kit);
    pfl_kit_consumer_open(&consumer, &kit);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pfl_kit_client_close(&consumer);
    pfl_port_kit_close(&kit);
    kit = (struct pfl_port_kit){0};
    (void)rmdir(folder);
    return 0;
}

static uint8_t byte_at(size_t i)
{
    uint32_t mixed = (uint32_t)i * 2654435761u;

    return (uint8_t)((mixed >> 13 ^ mixed >> 22) + i / 7);
}

static size_t put_size(uint8_t *dst, size_t len)
{
    pfl_fragment_put_size4(dst, (uint32_t)len);
    return PFL_FRAGMENT_SIZE_BYTES;
}

/* Field 900 with BYTES of content, in chunks, into the session's only buffer. */
static void commit_long_of(uint16_t writer_id)
{
    struct pfl_session *session =
        PFL_CONTAINER_OF(kit.service.sessions.next, struct pfl_session, node);
    static uint8_t packet[HEAD_BYTES + BYTES] = {900 * 8 % 128 | 0x82, 900 * 8 / 128};
    static uint8_t payload[CHUNK_BYTES + HEAD_BYTES];
    size_t at = 0;

    assert_int_equal(kit.service.sessions_len, 1);
    (void)put_size(packet + 2, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        packet[HEAD_BYTES + i] = byte_at(i);
    for (uint32_t id = 0; at < sizeof(packet); id++) {
        size_t left = sizeof(packet) - at;
        size_t part = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        struct pfl_trace_buffer_chunk chunk = {
            .producer_id = 3,
            .writer_id = writer_id,
            .chunk_id = id,
            .fragments = 1,
            .flags = (uint8_t)((at != 0 ? PFL_CHUNK_CONTINUES_PREV : 0u) |
                               (part != left ? (unsigned)PFL_CHUNK_CONTINUES_NEXT : 0u)),
            .is_complete = true,
            .payload = payload,
            .producer_pid = -1,
        };

        chunk.payload_bytes = put_size(payload, part) + part;
        memcpy(payload + PFL_FRAGMENT_SIZE_BYTES, packet + at, part);
        pfl_trace_buffer_commit(session->buffers[0].ring, &chunk);
        at += part;
    }
}

static void commit_long(void)
{
    commit_long_of(1);
}

/* How often it is in there; all bytes must be whole packets. */
static unsigned count_long(struct pfl_span trace)
{
    static uint8_t content[TRACE_MAX];
    struct pfl_reader packets = pfl_reader_of(trace);
    struct pfl_field packet;
    unsigned count = 0;

    while (pfl_reader_field(&packets, &packet)) {
        struct pfl_reader r = pfl_reader_of(packet.bytes);
        bool has_trusted = false;
        bool is_long = false;
        struct pfl_field f;

        while (pfl_reader_field(&r, &f)) {
            uLongf len = sizeof(content);

            has_trusted = has_trusted || f.id == 10;
            if (f.id == FOR_TESTING_ID) {
                assert_int_equal(f.bytes.len, BYTES);
                for (size_t i = 0; i < BYTES; i++)
                    assert_int_equal(f.bytes.data[i], byte_at(i));
                is_long = true;
            }
            if (f.id == 50) {
                assert_int_equal(uncompress(content, &len, f.bytes.data, f.bytes.len), Z_OK);
                count += count_long(pfl_span_of(content, len));
            }
        }
        assert_false(r.failed);
        assert_true(!is_long || has_trusted);
        count += is_long;
    }
    assert_false(packets.failed);
    return count;
}

/* Of two writers, one behind the other. */
static void read_it(const char *config)
{
    struct pfl_buf trace;
    uint64_t read_id;

    (void)pfl_kit_consumer_enable(&consumer, config);
    commit_long_of(1);
    commit_long_of(2);
    read_id = pfl_kit_client_invoke(&consumer, KIT_READ, NO_ARGS);
    pfl_kit_client_read_trace(&consumer, read_id, &trace);
    assert_int_equal(count_long(pfl_buf_get(&trace)), 2);
    pfl_buf_fini(&trace);
}

static void it_is_read_over_the_socket(void **state)
{
    (void)state;
    read_it(BUFFER);
}

static void it_is_compressed(void **state)
{
    (void)state;
    read_it(BUFFER DEFLATED);
}

static struct pfl_span read_file(const char *name)
{
    static uint8_t bytes[TRACE_MAX];
    char path[160];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    n = read(fd, bytes, sizeof(bytes));
    assert_true(n >= 0 && (size_t)n < sizeof(bytes));
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    return pfl_span_of(bytes, (size_t)n);
}

static void end(uint64_t enable)
{
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_DISABLE, NO_ARGS),
                                true, false);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
}

static void write_it(const char *more, bool is_at_the_end)
{
    char config[512];
    uint64_t enable;

    (void)snprintf(config, sizeof(config), FILE_OF "output_path: \"%s/x\" %s", folder, more);
    enable = pfl_kit_consumer_enable(&consumer, config);
    commit_long();
    if (!is_at_the_end)
        pfl_port_kit_pass_ms(&kit, 1000);
    end(enable);
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_FREE, NO_ARGS),
                                true, false);
    assert_int_equal(count_long(read_file("x")), 1);
}

static void it_is_written_into_a_file(void **state)
{
    (void)state;
    write_it("", false);
    write_it("", true);
}

static void it_is_written_into_a_file_that_is_compressed(void **state)
{
    (void)state;
    write_it(DEFLATED, false);
    write_it(DEFLATED, true);
}

/* What a failed allocation leaves of a file are whole packets. */
static void it_is_written_whole_or_not_at_all_without_memory(void **state)
{
    struct pfl_mem_stats stats;
    char config[256];
    uint64_t n = 0;

    (void)snprintf(config, sizeof(config), FILE_OF "output_path: \"%s/x\"", folder);
    do {
        (void)pfl_kit_consumer_enable(&consumer, config);
        commit_long();
        pfl_mem_fail_at(++n);
        pfl_port_kit_pass_ms(&kit, 1000);
        pfl_mem_stats_get(&stats);
        pfl_mem_fail_at(0);
        pfl_kit_client_close(&consumer);
        pfl_port_kit_run(&kit);
        assert_int_equal(kit.service.sessions_len, 0);
        (void)count_long(read_file("x"));
        pfl_kit_consumer_open(&consumer, &kit);
    } while (stats.allocations >= n);
    (void)state;
}

static void one_that_does_not_fit_into_the_file_is_not_begun(void **state)
{
    char config[512];
    uint64_t enable;

    (void)state;
    (void)snprintf(config, sizeof(config), FILE_OF "output_path: \"%s/x\" max_file_size_bytes: %u",
                   folder, (unsigned)BYTES);
    enable = pfl_kit_consumer_enable(&consumer, config);
    commit_long();
    pfl_port_kit_pass_ms(&kit, 1000);
    pfl_kit_consumer_expect_disabled(&consumer, enable, NULL);
    assert_int_equal(count_long(read_file("x")), 0);
}

static void write_segments(const char *more)
{
    char config[512];
    unsigned count = 0;
    uint64_t enable;

    (void)snprintf(config, sizeof(config),
                   FILE_OF "output_path: \"%s/x\" perfleet_rotation { segment_period_ms: 2000 } %s",
                   folder, more);
    enable = pfl_kit_consumer_enable(&consumer, config);
    pfl_port_kit_pass_ms(&kit, 1000);
    commit_long();
    for (int i = 0; i < 3; i++)
        pfl_port_kit_pass_ms(&kit, 1000);
    end(enable);
    for (int i = 1; i <= 3; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "x.%06d", i);
        count += count_long(read_file(name));
    }
    assert_int_equal(count, 1);
    (void)read_file("x.index");
    pfl_kit_client_expect_empty(&consumer, pfl_kit_client_invoke(&consumer, KIT_FREE, NO_ARGS),
                                true, false);
}

static void it_is_written_into_a_segment(void **state)
{
    (void)state;
    write_segments("");
    write_segments(DEFLATED);
}

static void a_reader_that_leaves_in_the_middle_leaves_no_part_of_it(void **state)
{
    static const char *const configs[] = {BUFFER, BUFFER DEFLATED};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        (void)pfl_kit_consumer_enable(&consumer, configs[i]);
        commit_long();
        (void)pfl_kit_client_invoke(&consumer, KIT_READ, NO_ARGS);
        for (int turn = 0; turn < 8; turn++)
            (void)uv_run(&kit.loop, UV_RUN_NOWAIT);
        pfl_kit_client_close(&consumer);
        pfl_port_kit_run(&kit);
        assert_int_equal(kit.service.sessions_len, 0);
        pfl_kit_consumer_open(&consumer, &kit);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(it_is_read_over_the_socket),
        CASE(it_is_compressed),
        CASE(it_is_written_into_a_file),
        CASE(it_is_written_into_a_file_that_is_compressed),
        CASE(it_is_written_whole_or_not_at_all_without_memory),
        CASE(one_that_does_not_fit_into_the_file_is_not_begun),
        CASE(it_is_written_into_a_segment),
        CASE(a_reader_that_leaves_in_the_middle_leaves_no_part_of_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
