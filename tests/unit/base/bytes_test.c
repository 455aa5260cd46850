/* SPDX-License-Identifier: Apache-2.0 */
/* Readers and writers: every cut of every form, and what the format forbids. */
#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void fixed_integers_are_little_endian(void **state)
{
    static const uint8_t in[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
                                 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08};
    struct pfl_reader r = pfl_reader_of(pfl_span_of(in, sizeof(in)));

    (void)state;
    assert_int_equal(pfl_reader_u8(&r), 0x01);
    assert_int_equal(pfl_reader_u16(&r), 0x0203);
    assert_int_equal(pfl_reader_u32(&r), 0x04050607);
    assert_true(pfl_reader_u64(&r) == 0x08090a0b0c0d0e0full);
    assert_int_equal(r.left, 0);
    assert_false(r.failed);
}

static void a_read_past_the_end_fails_for_good_and_yields_zero(void **state)
{
    static const uint8_t in[] = {1, 2, 3};
    struct pfl_reader r = pfl_reader_of(pfl_span_of(in, sizeof(in)));

    (void)state;
    assert_int_equal(pfl_reader_u32(&r), 0);
    assert_true(r.failed);
    assert_int_equal(pfl_reader_u8(&r), 0);
    assert_int_equal(pfl_reader_bytes(&r, 0).len, 0);
    assert_true(r.failed);
}

static void an_empty_reader_of_no_memory_is_legal(void **state)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(NULL, 0));
    struct pfl_field f;

    (void)state;
    assert_int_equal(pfl_reader_bytes(&r, 0).len, 0);
    assert_false(pfl_reader_field(&r, &f));
    assert_false(r.failed);
}

static const uint64_t varints[] = {0,     1,          127,        128,        16383,
                                   16384, UINT32_MAX, 1ull << 56, 1ull << 63, UINT64_MAX};

static void varints_survive_the_round_trip_at_every_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(varints) / sizeof(varints[0]); i++) {
        uint8_t room[PFL_VARINT_MAX_BYTES];
        size_t len = pfl_varint_put(room, varints[i]);
        struct pfl_reader r = pfl_reader_of(pfl_span_of(room, len));

        assert_int_equal(len, pfl_varint_size(varints[i]));
        assert_true(pfl_reader_varint(&r) == varints[i]);
        assert_int_equal(r.left, 0);
        assert_false(r.failed);
    }
}

static void a_varint_cut_anywhere_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(varints) / sizeof(varints[0]); i++) {
        uint8_t room[PFL_VARINT_MAX_BYTES];
        size_t len = pfl_varint_put(room, varints[i]);

        for (size_t cut = 0; cut < len; cut++) {
            struct pfl_reader r = pfl_reader_of(pfl_span_of(room, cut));

            assert_int_equal(pfl_reader_varint(&r), 0);
            assert_true(r.failed);
        }
    }
}

static void a_varint_of_eleven_bytes_fails(void **state)
{
    uint8_t in[11];
    struct pfl_reader r = pfl_reader_of(pfl_span_of(in, sizeof(in)));

    (void)state;
    memset(in, 0x80, sizeof(in));
    in[10] = 1;
    assert_int_equal(pfl_reader_varint(&r), 0);
    assert_true(r.failed);
}

static size_t write_message(uint8_t *room, size_t len)
{
    struct pfl_writer w = pfl_writer_of(room, len);

    pfl_writer_field_varint(&w, 1, 300);
    pfl_writer_field_fixed32(&w, 2, 0xdeadbeef);
    pfl_writer_field_fixed64(&w, 3, 0x0123456789abcdefull);
    pfl_writer_field_bytes(&w, 1000, "hello", 5);
    pfl_writer_field_header(&w, 4, 0);
    return w.failed ? 0 : len - w.left;
}

static void fields_come_back_as_written_with_their_raw_bytes(void **state)
{
    uint8_t room[64];
    size_t len = write_message(room, sizeof(room));
    struct pfl_reader r = pfl_reader_of(pfl_span_of(room, len));
    struct pfl_field f;
    const uint8_t *at = room;

    (void)state;
    assert_true(pfl_reader_field(&r, &f));
    assert_true(f.id == 1 && f.type == PFL_WIRE_VARINT && f.value == 300);
    assert_ptr_equal(f.raw.data, at);
    at += f.raw.len;
    assert_true(pfl_reader_field(&r, &f));
    assert_true(f.id == 2 && f.type == PFL_WIRE_FIXED32 && f.value == 0xdeadbeef);
    assert_ptr_equal(f.raw.data, at);
    assert_true(pfl_reader_field(&r, &f));
    assert_true(f.id == 3 && f.type == PFL_WIRE_FIXED64 && f.value == 0x0123456789abcdefull);
    assert_true(pfl_reader_field(&r, &f));
    assert_true(f.id == 1000 && f.type == PFL_WIRE_BYTES && f.bytes.len == 5);
    assert_memory_equal(f.bytes.data, "hello", 5);
    assert_true(pfl_reader_field(&r, &f));
    assert_true(f.id == 4 && f.bytes.len == 0);
    assert_false(pfl_reader_field(&r, &f));
    assert_false(r.failed);
}

static void a_message_cut_inside_a_field_fails_and_between_fields_ends(void **state)
{
    uint8_t room[64];
    size_t len = write_message(room, sizeof(room));

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        struct pfl_reader r = pfl_reader_of(pfl_span_of(room, cut));
        struct pfl_field f;
        size_t whole = 0;

        while (pfl_reader_field(&r, &f))
            whole += f.raw.len;
        assert_int_equal(r.failed, whole != cut);
    }
}

static void a_message_that_does_not_fit_is_marked_at_every_size(void **state)
{
    uint8_t room[64];
    size_t len = write_message(room, sizeof(room));

    (void)state;
    for (size_t size = 0; size < len; size++)
        assert_int_equal(write_message(room, size), 0);
    assert_int_equal(write_message(room, len), len);
}

static void forbidden_tags_and_lengths_fail(void **state)
{
    static const uint8_t bad[][7] = {
        {0x00, 1}, /* field id 0 */
        {0x0b},
        {0x0c},
        {0x0e, 1},
        {0x0f, 1},                                  /* wire types 3, 4, 6, 7 */
        {0x0a, 6, 1, 2, 3, 4, 5},                   /* a length one past the end */
        {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, /* a length far past it */
        {0x88, 0x80, 0x80, 0x80, 0x80, 0x01, 1},    /* a tag of more than 32 bits */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct pfl_reader r = pfl_reader_of(pfl_span_of(bad[i], sizeof(bad[i])));
        struct pfl_field f = {.id = 77};

        assert_false(pfl_reader_field(&r, &f));
        assert_true(r.failed);
        assert_int_equal(f.id, 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_integers_are_little_endian),
        cmocka_unit_test(a_read_past_the_end_fails_for_good_and_yields_zero),
        cmocka_unit_test(an_empty_reader_of_no_memory_is_legal),
        cmocka_unit_test(varints_survive_the_round_trip_at_every_size),
        cmocka_unit_test(a_varint_cut_anywhere_fails),
        cmocka_unit_test(a_varint_of_eleven_bytes_fails),
        cmocka_unit_test(fields_come_back_as_written_with_their_raw_bytes),
        cmocka_unit_test(a_message_cut_inside_a_field_fails_and_between_fields_ends),
        cmocka_unit_test(a_message_that_does_not_fit_is_marked_at_every_size),
        cmocka_unit_test(forbidden_tags_and_lengths_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
