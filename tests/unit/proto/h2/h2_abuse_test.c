/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 peers that behave badly: the connection or the stream ends, nothing else happens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/emulator.h"
#include "tests/unit/proto/h2/h2_kit.h"

static void garbage_ends_the_connection(void **state)
{
    (void)state;
    assert_int_equal(h2_kit_open(), 0);
    assert_int_equal(pfl_h2_feed(kit.server_h2, pfl_span_of("GET / HTTP/1.1\r\n\r\n0123456", 25)),
                     PFL_EPROTO);
    assert_int_equal(pfl_h2_feed(kit.server_h2, pfl_span_of("x", 1)), PFL_EPROTO);
}

/* A frame by hand, from the requesting side. */
static int send_frame(uint8_t type, uint8_t flags, uint32_t id, struct pfl_span payload)
{
    uint8_t head[9] = {(uint8_t)(payload.len >> 16),
                       (uint8_t)(payload.len >> 8),
                       (uint8_t)payload.len,
                       type,
                       flags,
                       (uint8_t)(id >> 24),
                       (uint8_t)(id >> 16),
                       (uint8_t)(id >> 8),
                       (uint8_t)id};
    int rc = pfl_h2_feed(kit.server_h2, pfl_span_of(head, sizeof(head)));

    return rc == 0 ? pfl_h2_feed(kit.server_h2, payload) : rc;
}

static void padding_on_a_stream_resets_it(void **state)
{
    (void)state;
    h2_kit_open_and_connect();
    assert_int_equal(send_frame(0, 0x8, 1, pfl_span_of("\x02xyzab", 6)), 0);
    h2_kit_pump();
    assert_int_equal(kit.client.code, PFL_H2_PROTOCOL_ERROR);
}

static void a_flood_of_empty_frames_ends_the_connection(void **state)
{
    int rc = 0;
    unsigned sent = 0;

    (void)state;
    h2_kit_open_and_connect();
    while (rc == 0 && sent++ < 1000)
        rc = send_frame(0, 0, 1, pfl_span_of(NULL, 0));
    assert_int_equal(rc, PFL_ELIMIT);
    assert_int_equal(sent, PFL_H2_MAX_EMPTY_DATA + 1);
}

static void a_flood_of_pings_ends_the_connection(void **state)
{
    int rc = 0;
    unsigned sent = 0;

    (void)state;
    h2_kit_open_and_connect();
    while (rc == 0 && sent++ < 5000)
        rc = send_frame(6, 0, 0, pfl_span_of("01234567", 8));
    assert_true(rc == PFL_ELIMIT || rc == PFL_EPROTO);
}

static void rapid_reset_ends_the_connection(void **state)
{
    unsigned sent = 0;

    (void)state;
    if (pfl_is_emulated())
        skip(); /* so slow that the rate is not too high */
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    while (sent++ < 3 * PFL_H2_RESET_BURST && h2_kit_connect() == 0) {
        pfl_h2_stream_reset(kit.client.stream, PFL_H2_CANCEL);
        if (h2_kit_try_pump(SIZE_MAX) != 0)
            break;
        /* Cancelled before it was sent: nothing to count. Send it first from now on. */
        if (h2_kit_connect() != 0 || h2_kit_try_pump(SIZE_MAX) != 0)
            break;
        pfl_h2_stream_reset(kit.client.stream, PFL_H2_CANCEL);
        if (h2_kit_try_pump(SIZE_MAX) != 0 || pfl_h2_is_going(kit.client_h2))
            break;
    }
    assert_true(sent <= PFL_H2_RESET_BURST + PFL_H2_RESET_PER_SEC + 2);
}

/* A peer that never acknowledges our settings gets a refusal of each stream. */
static void a_flood_of_refused_streams_ends_the_connection(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    uint32_t sent = 0;
    int rc;

    (void)state;
    assert_int_equal(h2_kit_open(), 0);
    rc = pfl_h2_feed(kit.server_h2, pfl_span_of(preface, sizeof(preface) - 1));
    if (rc == 0)
        rc = send_frame(4, 0, 0, pfl_span_of(NULL, 0));
    /* GET https://x/ */
    while (rc == 0 && sent < 4 * PFL_H2_MAX_QUEUED_FRAMES)
        rc = send_frame(1, 0x5, 2 * sent++ + 1, pfl_span_of("\x82\x87\x84\x41\x01x", 6));
    assert_int_equal(rc, PFL_ELIMIT);
    assert_true(sent > PFL_H2_MAX_STREAMS);
}

/* There may be any number of them, each of some bytes that stand for kilobytes. */
static void a_head_before_the_answer_ends_the_connection(void **state)
{
    static uint8_t sent[65536];
    struct pfl_writer w = pfl_writer_of(sent, sizeof(sent));

    (void)state;
    assert_int_equal(h2_kit_open(), 0);
    h2_kit_pump();
    assert_int_equal(h2_kit_connect(), 0);
    assert_int_equal(pfl_h2_drain(kit.client_h2, &w), 0);
    /* HEADERS of stream 1: status 103 */
    assert_int_equal(pfl_h2_feed(kit.client_h2, pfl_span_of("\0\0\5\1\4\0\0\0\1\x08\x03"
                                                            "103",
                                                            14)),
                     PFL_EPROTO);
    assert_int_equal(kit.client.status, 0);
}

/* A field of 4000 bytes, then so many that name it again by one byte. */
static size_t make_references(uint8_t *block, size_t count)
{
    static const char start[] = "\x82\x87\x84\x41\x01x\x40\x01x\x7f\xa1\x1e"; /* GET https://x/ */
    size_t len = sizeof(start) - 1;

    memcpy(block, start, len);
    memset(block + len, 'y', 4000);
    len += 4000;
    memset(block + len, 0xbe, count);
    return len + count;
}

static void references_to_a_large_field_are_not_read_for_long(void **state)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    static uint8_t block[16384];
    static uint8_t sent[65536];
    struct pfl_writer w = pfl_writer_of(sent, sizeof(sent));
    struct pfl_span out;

    (void)state;
    assert_int_equal(h2_kit_open(), 0);
    assert_int_equal(pfl_h2_feed(kit.server_h2, pfl_span_of(preface, sizeof(preface) - 1)), 0);
    assert_int_equal(send_frame(4, 0, 0, pfl_span_of(NULL, 0)), 0);
    assert_int_equal(send_frame(1, 0x5, 1, pfl_span_of(block, make_references(block, 12000))), 0);
    assert_int_equal(pfl_h2_drain(kit.server_h2, &w), 0);
    out = pfl_span_of(sent, (size_t)(w.pos - sent));
    /* RST_STREAM of stream 1 is the last: nobody was asked, and there is no answer. */
    assert_true(out.len >= 13);
    assert_memory_equal(out.data + out.len - 13, "\0\0\4\3\0\0\0\0\1\0\0\0\2", 13);
    assert_int_equal(pfl_h2_count_streams(kit.server_h2), 0);
    /* The table is right: what the same connection asks next is read by it, and answered. */
    assert_int_equal(send_frame(1, 0x5, 3, pfl_span_of("\x82\x87\x84\xbf", 4)), 0);
    assert_int_equal(pfl_h2_drain(kit.server_h2, &w), 0);
    out = pfl_span_of(out.data + out.len, (size_t)(w.pos - out.data) - out.len);
    assert_true(out.len > 9);
    assert_int_equal(out.data[3], 1);
}

#define T(name) cmocka_unit_test_setup_teardown(name, h2_kit_setup, h2_kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(garbage_ends_the_connection),
        T(padding_on_a_stream_resets_it),
        T(a_flood_of_empty_frames_ends_the_connection),
        T(a_flood_of_pings_ends_the_connection),
        T(rapid_reset_ends_the_connection),
        T(a_flood_of_refused_streams_ends_the_connection),
        T(a_head_before_the_answer_ends_the_connection),
        T(references_to_a_large_field_are_not_read_for_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
