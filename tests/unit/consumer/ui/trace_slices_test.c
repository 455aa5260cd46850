/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a trace file as a client's slices: what it puts together is the file again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/ui/trace_slices.h"

#define ROOM 8192u

/* As the page does it: slices together, a packet's head in front. */
struct client {
    uint8_t packet[ROOM];
    size_t packet_len;
    uint8_t trace[ROOM];
    size_t trace_len;
    unsigned packets;
};

static void take_slice(struct client *c, struct pfl_span slice)
{
    struct pfl_reader r = pfl_reader_of(slice);
    struct pfl_writer w;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1) {
            memcpy(c->packet + c->packet_len, f.bytes.data, f.bytes.len);
            c->packet_len += f.bytes.len;
        } else if (f.id == 2 && f.value != 0) {
            w = pfl_writer_of(c->trace + c->trace_len, ROOM - c->trace_len);
            pfl_writer_field_bytes(&w, 1, c->packet, c->packet_len);
            c->trace_len = ROOM - w.left;
            c->packet_len = 0;
            c->packets++;
        }
    }
    assert_false(r.failed);
}

static void take_body(struct client *c, struct pfl_span body)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        assert_int_equal(f.id, 2);
        take_slice(c, f.bytes);
    }
    assert_false(r.failed);
}

/* In pieces of `step`, into bodies of `max`. */
static int cut(struct pfl_span file, size_t step, size_t max, struct client *c)
{
    struct pfl_trace_slices slices = {.left = 0};
    struct pfl_buf body;
    int rc = 0;

    pfl_buf_init(&body, max);
    for (size_t at = 0; rc == 0 && at < file.len;) {
        size_t len = file.len - at < step ? file.len - at : step;
        size_t taken = 0;

        rc = pfl_trace_slices_take(&slices, pfl_span_of(file.data + at, len), &body, &taken);
        at += taken;
        if (rc == 0) {
            assert_true(body.len <= max);
            take_body(c, pfl_buf_get(&body));
        }
        pfl_buf_clear(&body);
    }
    pfl_buf_fini(&body);
    return rc;
}

static struct pfl_span make_trace(uint8_t room[ROOM])
{
    static const size_t sizes[] = {1, 0, 127, 128, 0, 1000, 3, 300};
    struct pfl_writer w = pfl_writer_of(room, ROOM);
    uint8_t packet[1000];

    for (size_t i = 0; i < sizeof(packet); i++)
        packet[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        pfl_writer_field_bytes(&w, 1, packet, sizes[i]);
    assert_false(w.failed);
    return pfl_span_of(room, ROOM - w.left);
}

static void packets_come_out_whole_however_they_are_cut(void **state)
{
    static const size_t maxima[] = {PFL_TRACE_SLICES_OVERHEAD + 1, 64, 500, 4096};
    static struct client c;
    uint8_t room[ROOM];
    struct pfl_span file = make_trace(room);

    (void)state;
    for (size_t m = 0; m < sizeof(maxima) / sizeof(maxima[0]); m++) {
        for (size_t step = 1; step < file.len + 7; step += 7) {
            memset(&c, 0, sizeof(c));
            assert_int_equal(cut(file, step, maxima[m], &c), 0);
            assert_int_equal(c.packets, 8);
            assert_int_equal(c.trace_len, file.len);
            assert_memory_equal(c.trace, file.data, file.len);
        }
    }
}

static void what_is_no_packet_is_refused(void **state)
{
    static const uint8_t other_field[] = {0x12, 1, 0};
    static const uint8_t endless_length[] = {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff,
                                             0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static struct client c;

    (void)state;
    assert_int_equal(cut(pfl_span_of(other_field, 3), 3, 100, &c), PFL_EPARSE);
    assert_int_equal(cut(pfl_span_of(endless_length, sizeof(endless_length)), 1, 100, &c),
                     PFL_EPARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_come_out_whole_however_they_are_cut),
        cmocka_unit_test(what_is_no_packet_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
