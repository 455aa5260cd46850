/* SPDX-License-Identifier: Apache-2.0 */
/* Slices to packets: recorded read-outs, packets over many replies, and what must be refused. */
#include "proto/packet_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "perfetto/consumer_port.fields.h"
#include "proto/packet_run.h"
#include "tests/support/capture.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/trace_bytes.h"

#define SMALL_MAX 4096u

struct world {
    struct pfl_packet_scan scan;
    struct pfl_buf file; /* packets as a trace file */
    size_t packets;
    int answer;
};

static int on_packet(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct world *w = user;
    uint8_t preamble[12] = {0x0a};
    size_t len = 1 + pfl_varint_put(preamble + 1, bytes);
    size_t sum = 0;

    if (w->answer != 0)
        return w->answer;
    assert_int_equal(pfl_buf_append(&w->file, preamble, len), 0);
    for (int i = 0; i < slices_len; i++) {
        sum += slices[i].iov_len;
        assert_int_equal(pfl_buf_append(&w->file, slices[i].iov_base, slices[i].iov_len), 0);
    }
    assert_int_equal(sum, bytes);
    w->packets++;
    return 0;
}

static void init(struct world *w, size_t packet_max)
{
    *w = (struct world){0};
    pfl_packet_scan_init(&w->scan, packet_max);
    pfl_buf_init(&w->file, 8u << 20);
}

static void fini(struct world *w)
{
    pfl_packet_scan_fini(&w->scan);
    pfl_buf_fini(&w->file);
    pfl_sweep_assert_no_leak();
}

static int feed(struct world *w, struct pfl_span body)
{
    return pfl_packet_scan_feed(&w->scan, body, on_packet, w);
}

static void put_slice(struct pfl_writer *w, const void *data, size_t len, bool is_last)
{
    uint8_t slice[SMALL_MAX];
    struct pfl_writer s = pfl_writer_of(slice, sizeof(slice));

    pfl_writer_field_bytes(&s, 1, data, len);
    if (is_last)
        pfl_writer_field_varint(&s, 2, 1);
    pfl_writer_field_bytes(w, 2, slice, sizeof(slice) - s.left);
    assert_false(w->failed);
}

static void feed_capture(void *user, struct pfl_span body)
{
    assert_int_equal(feed(user, body), 0);
}

static void compare_with_file(const char *capture, const char *path)
{
    struct world w;
    struct pfl_span real = pfl_capture_read_file(path);
    struct pfl_span ours;

    init(&w, PFL_PACKET_MAX_BYTES);
    each_read_reply(capture, feed_capture, &w);
    ours = pfl_buf_get(&w.file);
    assert_false(pfl_packet_scan_is_open(&w.scan));
    assert_true(w.packets > 10);
    assert_int_equal(ours.len, real.len);
    assert_memory_equal(ours.data, real.data, ours.len);
    pfl_mem_free((void *)(uintptr_t)real.data);
    fini(&w);
}

static void recorded_readouts_give_the_real_trace_files(void **state)
{
    (void)state;
    compare_with_file("consumer-read-small.cap", "tests/fixtures/captures/small.pftrace");
    compare_with_file("consumer-read-fragmented.cap", "tests/fixtures/captures/fragmented.pftrace");
    compare_with_file("consumer-read-trackevent.cap", "tests/fixtures/captures/trackevent.pftrace");
}

/* Each at the very end of a reply, whole, and cut short by a byte. */
static void packets_of_every_length_come_out_as_they_went_in(void **state)
{
    uint8_t data[300];
    uint8_t bytes[sizeof(data) + 32];
    struct world w;

    (void)state;
    for (size_t len = 1; len <= sizeof(data); len++) {
        struct pfl_writer body = pfl_writer_of(bytes, sizeof(bytes));
        struct pfl_span file;
        uint8_t *exact;
        size_t body_len;

        memset(data, (int)len, sizeof(data));
        put_slice(&body, data, len, true);
        body_len = sizeof(bytes) - body.left;
        exact = pfl_mem_memdup(bytes, body_len);
        init(&w, SMALL_MAX);
        assert_int_equal(feed(&w, pfl_span_of(exact, body_len)), 0);
        file = pfl_buf_get(&w.file);
        assert_int_equal(w.packets, 1);
        assert_int_equal(file.len, 1 + pfl_varint_size(len) + len);
        assert_memory_equal(file.data + file.len - len, data, len);
        pfl_mem_free(exact);
        exact = pfl_mem_memdup(bytes, body_len - 1);
        assert_int_equal(feed(&w, pfl_span_of(exact, body_len - 1)), PFL_EPROTO);
        assert_int_equal(w.packets, 1);
        pfl_mem_free(exact);
        fini(&w);
    }
}

static void packet_over_many_replies_is_put_together(void **state)
{
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    for (int i = 0; i < 10; i++) {
        uint8_t body[64];
        struct pfl_writer b = pfl_writer_of(body, sizeof(body));

        put_slice(&b, &"abcdefghij"[i], 1, i == 9);
        assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), 0);
        assert_int_equal(pfl_packet_scan_is_open(&w.scan), i != 9);
    }
    assert_int_equal(w.packets, 1);
    assert_memory_equal(pfl_buf_get(&w.file).data,
                        "\x0a\x0a"
                        "abcdefghij",
                        12);
    fini(&w);
}

static void more_slices_than_the_array_holds_are_spilled(void **state)
{
    uint8_t body[SMALL_MAX];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    for (int i = 0; i < 3 * PFL_PACKET_SCAN_SLICES; i++)
        put_slice(&b, "x", 1, i == 3 * PFL_PACKET_SCAN_SLICES - 1);
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), 0);
    assert_int_equal(w.packets, 1);
    assert_int_equal(pfl_buf_get(&w.file).len, 3 + 3 * PFL_PACKET_SCAN_SLICES);
    fini(&w);
}

/* Behind the data: last_slice_for_packet with this value, or a field of another number. */
static void only_a_slice_that_says_so_is_the_last_one(void **state)
{
    static const struct {
        uint32_t field;
        uint64_t value;
        bool is_last;
    } cases[] = {{2, 1, true}, {2, 0, false}, {3, 1, false}, {3, 0, false}};
    static const size_t lengths[] = {1, 100, 200, 2000};
    uint8_t data[2000] = {0};

    (void)state;
    for (size_t i = 0; i < 4 * sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t slice[SMALL_MAX];
        uint8_t body[SMALL_MAX];
        struct pfl_writer s = pfl_writer_of(slice, sizeof(slice));
        struct pfl_writer b = pfl_writer_of(body, sizeof(body));
        struct world w;

        pfl_writer_field_bytes(&s, 1, data, lengths[i % 4]);
        pfl_writer_field_varint(&s, cases[i / 4].field, cases[i / 4].value);
        pfl_writer_field_bytes(&b, 2, slice, sizeof(slice) - s.left);
        init(&w, SMALL_MAX);
        assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), 0);
        assert_int_equal(w.packets, cases[i / 4].is_last);
        assert_int_equal(pfl_packet_scan_is_open(&w.scan), !cases[i / 4].is_last);
        fini(&w);
    }
}

/* The 0 says that more slices follow; what does follow is no field. */
static void a_packet_is_not_handed_out_early_before_malformed_bytes(void **state)
{
    static const uint8_t body[] = {0x12, 5, 0x0a, 1, 'x', 0x10, 0, 1};
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body))), PFL_EPROTO);
    assert_int_equal(w.packets, 0);
    fini(&w);
}

/* Whatever its slices: the packet is counted, and those around it come out. */
static void packet_past_the_maximum_is_skipped(void **state)
{
    uint8_t data[100] = {1};
    uint8_t body[SMALL_MAX];
    struct world w;

    (void)state;
    init(&w, 250);
    for (int i = 0; i < 5; i++) { /* it begins, continues, ends, and another one is between two */
        struct pfl_writer b = pfl_writer_of(body, sizeof(body));

        if (i == 0)
            put_slice(&b, "a", 1, true);
        put_slice(&b, data, sizeof(data), i == 4);
        if (i == 4)
            put_slice(&b, "b", 1, true);
        assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), 0);
        assert_int_equal(pfl_packet_scan_is_open(&w.scan), i != 4);
        assert_int_equal(w.scan.skipped, i >= 2);
    }
    assert_int_equal(w.packets, 2);
    assert_int_equal(w.scan.skipped_bytes, 500);
    {
        uint8_t large[300] = {0};
        struct pfl_writer b = pfl_writer_of(body, sizeof(body));

        put_slice(&b, large, sizeof(large), true); /* in one */
        put_slice(&b, "c", 1, true);
        assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), 0);
    }
    assert_int_equal(w.packets, 3);
    assert_int_equal(w.scan.skipped, 2);
    assert_int_equal(w.scan.skipped_bytes, 800);
    assert_memory_equal(pfl_buf_get(&w.file).data,
                        "\x0a\x01"
                        "a\x0a\x01"
                        "b\x0a\x01"
                        "c",
                        9);
    fini(&w);
}

static void empty_packets_and_empty_slices_are_harmless(void **state)
{
    uint8_t body[64];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    put_slice(&b, "", 0, true);
    put_slice(&b, "", 0, false);
    put_slice(&b, "a", 1, true);
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), 0);
    assert_int_equal(feed(&w, pfl_span_of(NULL, 0)), 0);
    assert_int_equal(w.packets, 2);
    assert_memory_equal(pfl_buf_get(&w.file).data,
                        "\x0a\x00\x0a\x01"
                        "a",
                        5);
    fini(&w);
}

static void reply_cut_anywhere_is_refused_or_gives_whole_packets(void **state)
{
    uint8_t body[128];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    size_t ends[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        put_slice(&b, "0123456789", 10, true);
        ends[i] = sizeof(body) - b.left;
    }
    for (size_t cut = 0; cut <= ends[2]; cut++) {
        struct world w;
        bool is_clean = cut == 0 || cut == ends[0] || cut == ends[1] || cut == ends[2];
        uint8_t *copy = pfl_mem_memdup(body, cut);

        init(&w, SMALL_MAX);
        assert_non_null(copy);
        assert_int_equal(feed(&w, pfl_span_of(copy, cut)), is_clean ? 0 : PFL_EPROTO);
        assert_int_equal(w.packets, cut >= ends[2]   ? 3
                                    : cut >= ends[1] ? 2
                                    : cut >= ends[0] ? 1
                                                     : 0);
        pfl_mem_free(copy);
        fini(&w);
    }
}

static void a_negative_answer_stops_and_is_passed_on(void **state)
{
    uint8_t body[64];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    put_slice(&b, "a", 1, true);
    w.answer = PFL_EIO;
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), PFL_EIO);
    fini(&w);
}

/* What on_run is given, in the order of the packets: "tail:rest,times,lengths;" */
static int on_run(void *user, const struct pfl_packet_run *run)
{
    struct world *w = user;

    const struct pfl_span parts[] = {run->tail,           pfl_span_of(":", 1), run->rest,
                                     pfl_span_of(",", 1), run->times,          pfl_span_of(",", 1),
                                     run->lengths,        pfl_span_of(";", 1)};

    assert_true(run->lengths.data + run->lengths.len <= run->readable_end);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (parts[i].len != 0)
            assert_int_equal(pfl_buf_append(&w->file, parts[i].data, parts[i].len), 0);
    }
    return w->answer;
}

static void put_run(struct pfl_writer *w, const char *tail, const char *lengths)
{
    uint8_t run[SMALL_MAX];
    struct pfl_writer r = pfl_writer_of(run, sizeof(run));

    pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TAIL, tail, strlen(tail));
    pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__REST, "r", 1);
    pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TIMES, "", 0);
    pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__LENGTHS, lengths,
                           strlen(lengths));
    pfl_writer_field_bytes(w, READ_BUFFERS_RESPONSE__PERFLEET_RUNS, run, sizeof(run) - r.left);
    assert_false(w->failed);
}

static void runs_are_handed_out_between_packets(void **state)
{
    uint8_t body[256];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    w.scan.on_run = on_run;
    put_run(&b, "t", "12");
    put_slice(&b, "a", 1, true);
    put_run(&b, "", "3");
    put_run(&b, "u", "4");
    put_slice(&b, "b", 1, true);
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), 0);
    assert_memory_equal(pfl_buf_get(&w.file).data,
                        "t:r,,12;\x0a\x01"
                        "a:r,,3;u:r,,4;\x0a\x01"
                        "b",
                        27);
    assert_int_equal(w.file.len, 27);
    w.answer = PFL_EIO;
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), PFL_EIO);
    fini(&w);
}

static void runs_that_nobody_asked_for_are_refused(void **state)
{
    uint8_t body[64];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    put_run(&b, "t", "12");
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), PFL_EPROTO);
    fini(&w);
}

static void runs_inside_a_packet_are_refused(void **state)
{
    uint8_t body[64];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    struct world w;

    (void)state;
    init(&w, SMALL_MAX);
    w.scan.on_run = on_run;
    put_slice(&b, "a", 1, false);
    put_run(&b, "t", "12");
    assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), PFL_EPROTO);
    assert_int_equal(w.file.len, 0);
    fini(&w);
}

static void malformed_runs_are_refused(void **state)
{
    static const char *const runs[] = {
        "",                                              /* no field */
        "\x0a\x01t\x12\x01r\x1a\x01t",                   /* a column too few */
        "\x12\x01r\x1a\x01t\x22\x01l",                   /* no tail */
        "\x0a\x01t\x1a\x01t\x12\x01r\x22\x01l",          /* in another order */
        "\x0a\x01t\x12\x01r\x12\x01r\x1a\x01t\x22\x01l", /* twice */
        "\x0a\x01t\x12\x01r\x1a\x01t\x22\x01l\x22\x01l", /* twice */
        "\x0a\x01t\x12\x01r\x18\x01\x22\x01l",           /* a number */
        "\x0a\x01t\x12\x01r\x1a\x01t\x22\x05l",          /* past the end */
    };
    static const uint8_t long_tail[PFL_RUN_TAIL_MAX_BYTES + 1];
    uint8_t run[128];
    uint8_t body[256];

    (void)state;
    for (size_t i = 0; i <= sizeof(runs) / sizeof(runs[0]); i++) {
        struct pfl_writer r = pfl_writer_of(run, sizeof(run));
        struct pfl_writer b = pfl_writer_of(body, sizeof(body));
        struct world w;

        if (i < sizeof(runs) / sizeof(runs[0])) {
            pfl_writer_bytes(&r, runs[i], strlen(runs[i]));
        } else {
            pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TAIL, long_tail,
                                   sizeof(long_tail));
            pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__REST, "x", 1);
            pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TIMES, "", 0);
            pfl_writer_field_bytes(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__LENGTHS, "\x02", 1);
        }
        pfl_writer_field_bytes(&b, READ_BUFFERS_RESPONSE__PERFLEET_RUNS, run, sizeof(run) - r.left);
        init(&w, SMALL_MAX);
        w.scan.on_run = on_run;
        assert_int_equal(feed(&w, pfl_span_of(body, sizeof(body) - b.left)), PFL_EPROTO);
        assert_int_equal(w.file.len, 0);
        fini(&w);
    }
}

static int discard(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    (void)user;
    (void)slices;
    (void)slices_len;
    (void)bytes;
    return 0;
}

static int scan_once(void *arg)
{
    struct pfl_packet_scan scan;
    uint8_t body[64];
    struct pfl_writer b = pfl_writer_of(body, sizeof(body));
    int rc;

    (void)arg;
    put_slice(&b, "a", 1, false);
    pfl_packet_scan_init(&scan, SMALL_MAX);
    rc = pfl_packet_scan_feed(&scan, pfl_span_of(body, sizeof(body) - b.left), discard, NULL);
    pfl_packet_scan_fini(&scan);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(scan_once, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_readouts_give_the_real_trace_files),
        cmocka_unit_test(packets_of_every_length_come_out_as_they_went_in),
        cmocka_unit_test(packet_over_many_replies_is_put_together),
        cmocka_unit_test(more_slices_than_the_array_holds_are_spilled),
        cmocka_unit_test(only_a_slice_that_says_so_is_the_last_one),
        cmocka_unit_test(a_packet_is_not_handed_out_early_before_malformed_bytes),
        cmocka_unit_test(packet_past_the_maximum_is_skipped),
        cmocka_unit_test(empty_packets_and_empty_slices_are_harmless),
        cmocka_unit_test(reply_cut_anywhere_is_refused_or_gives_whole_packets),
        cmocka_unit_test(a_negative_answer_stops_and_is_passed_on),
        cmocka_unit_test(runs_are_handed_out_between_packets),
        cmocka_unit_test(runs_that_nobody_asked_for_are_refused),
        cmocka_unit_test(runs_inside_a_packet_are_refused),
        cmocka_unit_test(malformed_runs_are_refused),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
