/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of TraceStats that mean lost data. */
#include "consumer/host/losses.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static size_t make_response(uint8_t *out, size_t room)
{
    uint8_t buffer[64];
    uint8_t stats[256];
    struct pfl_writer b = pfl_writer_of(buffer, sizeof(buffer));
    struct pfl_writer s = pfl_writer_of(stats, sizeof(stats));
    struct pfl_writer r = pfl_writer_of(out, room);

    pfl_writer_field_varint(&b, 1, 1000);
    pfl_writer_field_varint(&b, 3, 2);
    pfl_writer_field_varint(&b, 6, 3);
    pfl_writer_field_varint(&b, 9, 4);
    pfl_writer_field_varint(&b, 12, 4096);
    pfl_writer_field_varint(&b, 13, 300);
    pfl_writer_field_varint(&b, 14, 200);
    pfl_writer_field_varint(&b, 18, 5);
    pfl_writer_field_varint(&b, 19, 6);
    for (int i = 0; i < 2; i++)
        pfl_writer_field_bytes(&s, 1, buffer, sizeof(buffer) - b.left);
    pfl_writer_field_varint(&s, 8, 100);
    pfl_writer_field_varint(&s, 9, 50);
    pfl_writer_field_varint(&s, 10, 7);
    pfl_writer_field_varint(&s, 14, 1);
    pfl_writer_field_bytes(&r, 1, stats, sizeof(stats) - s.left);
    return room - r.left;
}

static void counters_of_all_buffers_are_added(void **state)
{
    uint8_t response[512];
    size_t len = make_response(response, sizeof(response));
    struct pfl_losses l;
    struct pfl_losses before = {.service_chunks_discarded = 98, .service_patches_discarded = 60};

    (void)state;
    assert_int_equal(pfl_losses_parse(pfl_span_of(response, len), &l), 0);
    assert_int_equal(l.chunks_overwritten, 4);
    assert_int_equal(l.patches_failed, 6);
    assert_int_equal(l.abi_violations, 8);
    assert_int_equal(l.chunks_discarded, 10);
    assert_int_equal(l.writer_losses, 12);
    assert_int_equal(l.invalid_packets, 7);
    assert_int_equal(l.flushes_failed, 1);
    assert_int_equal(l.bytes_unread, 1000);
    assert_int_equal(l.buffer_bytes, 8192);
    pfl_losses_subtract_baseline(&l, &before);
    assert_int_equal(l.service_chunks_discarded, 2);
    assert_int_equal(l.service_patches_discarded, 0);
    assert_int_equal(pfl_losses_sum(&l), 4 + 6 + 8 + 10 + 12 + 7 + 1);
}

static void empty_answer_has_no_losses(void **state)
{
    struct pfl_losses l;

    (void)state;
    assert_int_equal(pfl_losses_parse(pfl_span_of(NULL, 0), &l), 0);
    assert_int_equal(pfl_losses_sum(&l), 0);
}

static void answer_cut_anywhere_is_refused(void **state)
{
    uint8_t response[512];
    size_t len = make_response(response, sizeof(response));
    struct pfl_losses l;

    (void)state;
    for (size_t cut = 1; cut < len; cut++)
        assert_int_equal(pfl_losses_parse(pfl_span_of(response, cut), &l), PFL_EPARSE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_of_all_buffers_are_added),
        cmocka_unit_test(empty_answer_has_no_losses),
        cmocka_unit_test(answer_cut_anywhere_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
