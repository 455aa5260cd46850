/* SPDX-License-Identifier: Apache-2.0 */
/* A session's counters as text and JSON. */
#include "consumer/report/trace_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "consumer/text.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_stats.fields.h"
#include "tests/support/sweep.h"

struct fill {
    uint64_t size;
    uint64_t written;
    uint64_t overwritten;
    uint64_t read;
};

/* GetTraceStatsResponse with these buffers. */
static size_t make(const struct fill *fills, size_t len, uint8_t *out, size_t room)
{
    uint8_t stats[512];
    struct pfl_writer s = pfl_writer_of(stats, sizeof(stats));
    struct pfl_writer w = pfl_writer_of(out, room);

    for (size_t i = 0; i < len; i++) {
        uint8_t buffer[64];
        struct pfl_writer b = pfl_writer_of(buffer, sizeof(buffer));

        pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__BUFFER_SIZE, fills[i].size);
        pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__BYTES_WRITTEN, fills[i].written);
        pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__BYTES_OVERWRITTEN,
                                fills[i].overwritten);
        pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__BYTES_READ, fills[i].read);
        pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__CHUNKS_OVERWRITTEN, 1);
        pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__CHUNKS_DISCARDED, 2);
        pfl_writer_field_varint(&b, TRACE_STATS__BUFFER_STATS__TRACE_WRITER_PACKET_LOSS, 4);
        pfl_writer_field_bytes(&s, TRACE_STATS__BUFFER_STATS, buffer, sizeof(buffer) - b.left);
    }
    pfl_writer_field_bytes(&w, GET_TRACE_STATS_RESPONSE__TRACE_STATS, stats,
                           sizeof(stats) - s.left);
    assert_false(s.failed || w.failed);
    return room - w.left;
}

static const struct fill fills[] = {
    {8192, 4096, 1024, 1024}, {8192, 100000, 10, 10}, {8192, 5, 4, 3}, {0, 10, 0, 0}};

static void each_buffer_says_how_full_it_is_and_text_fits_whole_or_not_at_all(void **state)
{
    static const char text[] =
        "host a: losses 28 (4 chunks overwritten, 8 discarded, 16 packets dropped by producers)\n"
        "  buffer 0: 8 KiB, 25% full, 4096 bytes written, 1024 overwritten\n"
        "  buffer 1: 8 KiB, 100% full, 100000 bytes written, 10 overwritten\n"
        "  buffer 2: 8 KiB, 0% full, 5 bytes written, 4 overwritten\n"
        "  buffer 3: 0 KiB, 0% full, 10 bytes written, 0 overwritten\n";
    uint8_t bytes[512];
    struct pfl_trace_stats_host host = {
        .name = "a", .why = "", .response = {bytes, make(fills, 4, bytes, sizeof(bytes))}};
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, sizeof(text));
    assert_int_equal(pfl_trace_stats_text(&host, &out), 0);
    assert_int_equal(out.len, sizeof(text) - 1);
    assert_memory_equal(pfl_buf_get(&out).data, text, sizeof(text) - 1);
    pfl_buf_fini(&out);
    for (size_t max = 1; max < sizeof(text) - 1; max++) {
        pfl_buf_init(&out, max);
        assert_int_equal(pfl_trace_stats_text(&host, &out), PFL_ELIMIT);
        pfl_buf_fini(&out);
    }
    pfl_sweep_assert_no_leak();
}

static void expect_json(const struct pfl_trace_stats_host *host, const char *part, bool has_buffers)
{
    struct pfl_buf out;

    pfl_text_init_json();
    pfl_buf_init(&out, 65536);
    assert_int_equal(pfl_text_dump_json(pfl_trace_stats_json(host), &out), 0);
    assert_int_equal(pfl_buf_append(&out, "", 1), 0);
    if (strstr((const char *)pfl_buf_get(&out).data, part) == NULL)
        fail_msg("%s is not in %s", part, (const char *)pfl_buf_get(&out).data);
    assert_int_equal(strstr((const char *)pfl_buf_get(&out).data, "\"buffers\"") != NULL,
                     has_buffers);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void json_has_each_buffer_or_the_reason(void **state)
{
    uint8_t bytes[512];
    struct pfl_trace_stats_host host = {
        .name = "a", .why = "", .response = {bytes, make(fills, 1, bytes, sizeof(bytes))}};

    (void)state;
    expect_json(&host, "\"losses\": 7", true);
    expect_json(&host, "\"chunks_overwritten\": 1", true);
    expect_json(&host, "\"chunks_discarded\": 2", true);
    expect_json(&host, "\"writer_losses\": 4", true);
    expect_json(&host, "\"size_bytes\": 8192", true);
    expect_json(&host, "\"held_bytes\": 2048", true);
    expect_json(&host, "\"written_bytes\": 4096", true);
    expect_json(&host, "\"overwritten_bytes\": 1024", true);
    host.response.len--;
    expect_json(&host, "its counters are malformed", false);
    host.response.len = 0; /* a service that sends none */
    expect_json(&host, "\"losses\": 0", true);
    host.why = "gone";
    expect_json(&host, "gone", false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_buffer_says_how_full_it_is_and_text_fits_whole_or_not_at_all),
        cmocka_unit_test(json_has_each_buffer_or_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
