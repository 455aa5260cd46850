/* SPDX-License-Identifier: Apache-2.0 */
/* Replies to ReadBuffers become a trace, and the earliest time in it is that of its packets. */
#include "agent/daemon/order/copy_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <zlib.h>

#include "base/message.h"
#include "perfetto/clocks.fields.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/ftrace_events.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "tests/support/sweep.h"

#define RING_NS 1000u
#define NOW_NS  9000u

static struct pfl_copy_reader copy;
static struct pfl_buf reply;

static int setup(void **state)
{
    struct pfl_copy_reader_conf conf = {.max_bytes = 4096, .ring_ns = RING_NS, .now_ns = NOW_NS};

    (void)state;
    pfl_copy_reader_init(&copy, &conf);
    pfl_buf_init(&reply, 1u << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_copy_reader_fini(&copy);
    pfl_buf_fini(&reply);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void add_slice(const void *data, size_t len, bool is_last)
{
    struct pfl_message m = pfl_message_of(&reply);
    size_t slice = pfl_message_begin(&m, READ_BUFFERS_RESPONSE__SLICES);

    pfl_message_bytes(&m, READ_BUFFERS_RESPONSE__SLICE__DATA, pfl_span_of(data, len));
    if (is_last)
        pfl_message_varint(&m, READ_BUFFERS_RESPONSE__SLICE__LAST_SLICE_FOR_PACKET, 1);
    pfl_message_end(&m, slice);
    assert_int_equal(m.rc, 0);
}

static int feed(void)
{
    int rc = pfl_copy_reader_feed(&copy, pfl_buf_get(&reply));

    pfl_buf_clear(&reply);
    return rc;
}

/* A packet of a sequence with a time stamp, of a clock if that is not 0. */
static void feed_time(uint64_t sequence, uint64_t ns, uint64_t clock)
{
    struct pfl_buf packet;
    struct pfl_message m = pfl_message_of(&packet);

    pfl_buf_init(&packet, 128);
    pfl_message_varint(&m, TRACE_PACKET__TIMESTAMP, ns);
    if (clock != 0)
        pfl_message_varint(&m, TRACE_PACKET__TIMESTAMP_CLOCK_ID, clock);
    pfl_message_varint(&m, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, sequence);
    assert_int_equal(m.rc, 0);
    add_slice(packet.data, packet.len, true);
    assert_int_equal(feed(), 0);
    pfl_buf_fini(&packet);
}

static void packets_become_fields_of_a_trace(void **state)
{
    static const uint8_t trace[] = {0x0a, 2, 0x08, 1, 0x0a, 4, 0x08, 2, 0x08, 3};

    (void)state;
    add_slice("\x08\x01", 2, true);
    add_slice("\x08\x02", 2, false);
    assert_int_equal(feed(), 0);
    assert_int_equal(copy.out.len, 4); /* the second one is not whole yet */
    add_slice("\x08\x03", 2, true);
    assert_int_equal(feed(), 0);
    assert_int_equal(copy.bytes, sizeof(trace));
    assert_int_equal(copy.out.len, sizeof(trace));
    assert_memory_equal(pfl_buf_get(&copy.out).data, trace, sizeof(trace));
}

static void a_copy_has_a_maximum(void **state)
{
    static const char large[5000];

    (void)state;
    add_slice(large, 4000, true);
    assert_int_equal(feed(), 0);
    add_slice(large, 100, true);
    assert_int_equal(feed(), PFL_ELIMIT);
}

/* Any local program may have written it. */
static void a_packet_that_is_too_long_is_left_out_of_the_copy(void **state)
{
    static const char large[1u << 19];

    (void)state;
    for (unsigned i = 0; i <= PFL_COPY_PACKET_BYTES / sizeof(large); i++) {
        add_slice(large, sizeof(large), false);
        assert_int_equal(feed(), 0);
    }
    add_slice(large, 1, true);
    add_slice("\x08\x01", 2, true);
    assert_int_equal(feed(), 0);
    assert_int_equal(pfl_copy_reader_get_skipped(&copy), 1);
    assert_int_equal(copy.bytes, 4);
    assert_memory_equal(pfl_buf_get(&copy.out).data, "\x0a\x02\x08\x01", 4);
}

static void what_is_no_reply_is_refused(void **state)
{
    (void)state;
    assert_int_equal(pfl_copy_reader_feed(&copy, pfl_span_of((const uint8_t *)"\x12\x7f", 2)),
                     PFL_EPROTO);
}

static void it_begins_with_the_earliest_packet_of_a_producer(void **state)
{
    (void)state;
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), RING_NS);
    feed_time(7, 5000, 0);
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), 5000);
    feed_time(8, 4000, BUILTIN_CLOCK_BOOTTIME);
    feed_time(8, 6000, 0);
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), 4000);
    feed_time(1, 2000, 0);                           /* the service's own */
    feed_time(7, 2000, BUILTIN_CLOCK_BOOTTIME + 58); /* another clock */
    feed_time(7, RING_NS - 1, 0);                    /* before the ring */
    feed_time(7, NOW_NS + 1, 0);
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), 4000);
}

static void snapshots_of_clocks_and_events_of_ftrace_have_times(void **state)
{
    struct pfl_message m = pfl_message_of(&reply);
    struct pfl_buf packet;
    size_t outer;
    size_t inner;

    (void)state;
    pfl_buf_init(&packet, 256);
    m = pfl_message_of(&packet);
    outer = pfl_message_begin(&m, TRACE_PACKET__CLOCK_SNAPSHOT);
    inner = pfl_message_begin(&m, CLOCK_SNAPSHOT__CLOCKS);
    pfl_message_varint(&m, CLOCK_SNAPSHOT__CLOCK__CLOCK_ID, BUILTIN_CLOCK_BOOTTIME);
    pfl_message_varint(&m, CLOCK_SNAPSHOT__CLOCK__TIMESTAMP, 3000);
    pfl_message_end(&m, inner);
    pfl_message_end(&m, outer);
    assert_int_equal(m.rc, 0);
    add_slice(packet.data, packet.len, true);
    assert_int_equal(feed(), 0);
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), 3000);
    pfl_buf_clear(&packet);
    outer = pfl_message_begin(&m, TRACE_PACKET__FTRACE_EVENTS);
    inner = pfl_message_begin(&m, FTRACE_EVENT_BUNDLE__EVENT);
    pfl_message_varint(&m, FTRACE_EVENT__TIMESTAMP, 2500);
    pfl_message_end(&m, inner);
    pfl_message_end(&m, outer);
    assert_int_equal(m.rc, 0);
    add_slice(packet.data + packet.start, packet.len, true);
    assert_int_equal(feed(), 0);
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), 2500);
    pfl_buf_fini(&packet);
}

/* A packet with that one, compressed; `cut`: so many bytes are missing. */
static size_t feed_compressed(struct pfl_span packet, size_t cut)
{
    uint8_t trace[256] = {0x0a, (uint8_t)packet.len};
    uint8_t packed[256];
    uLongf len = sizeof(packed);
    struct pfl_buf outer;
    struct pfl_message m = pfl_message_of(&outer);
    size_t outer_len;

    memcpy(trace + 2, packet.data, packet.len);
    assert_int_equal(compress(packed, &len, trace, 2 + packet.len), Z_OK);
    pfl_buf_init(&outer, 512);
    pfl_message_bytes(&m, TRACE_PACKET__COMPRESSED_PACKETS, pfl_span_of(packed, len - cut));
    assert_int_equal(m.rc, 0);
    outer_len = outer.len;
    add_slice(outer.data, outer.len, true);
    pfl_buf_fini(&outer);
    return outer_len;
}

static void packets_that_the_service_compressed_have_times_and_stay_so(void **state)
{
    static const uint8_t packet[] = {0x40, 0xa0, 0x1f, 0x50, 7}; /* 4000, sequence 7 */
    struct pfl_span span = pfl_span_of(packet, sizeof(packet));
    size_t len;

    (void)state;
    feed_time(7, 5000, 0);
    pfl_buf_clear(&copy.out);
    len = feed_compressed(span, 0);
    assert_int_equal(feed(), 0);
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), 4000);
    assert_int_equal(copy.out.len, 2 + len);
    (void)feed_compressed(span, 3); /* it is kept, but nobody knows how old it is */
    assert_int_equal(feed(), 0);
    assert_int_equal(pfl_copy_reader_get_begin_ns(&copy), RING_NS);
}

static int feed_all(void *arg)
{
    struct pfl_copy_reader_conf conf = {.max_bytes = 4096};
    struct pfl_copy_reader one;
    int rc;

    (void)arg;
    pfl_copy_reader_init(&one, &conf);
    rc = pfl_copy_reader_feed(&one, pfl_buf_get(&reply));
    pfl_copy_reader_fini(&one);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    add_slice("\x08\x01", 2, true);
    (void)feed_compressed(pfl_span_of("\x08\x01", 2), 0);
    add_slice("\x08\x02", 2, false);
    pfl_sweep(feed_all, NULL, false);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(packets_become_fields_of_a_trace),
        TEST(a_copy_has_a_maximum),
        TEST(a_packet_that_is_too_long_is_left_out_of_the_copy),
        TEST(what_is_no_reply_is_refused),
        TEST(it_begins_with_the_earliest_packet_of_a_producer),
        TEST(snapshots_of_clocks_and_events_of_ftrace_have_times),
        TEST(packets_that_the_service_compressed_have_times_and_stay_so),
        TEST(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
