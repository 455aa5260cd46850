/* SPDX-License-Identifier: Apache-2.0 */
/* Typed fields: packed arrays, and messages as deep as may be, over many chunks. */
#include "producer/shared_memory/writer.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "tests/unit/producer/smb_reader.h"

enum { VALUES = 3000, PAGE = 4096 };

static _Atomic(uint32_t) clears;

struct subject {
    struct smb_reader reader;
    struct pfl_trace_writer *writer;
    struct perfleet_writer *w;
};

static void open_subject(struct subject *s, uint32_t pages)
{
    struct pfl_trace_writer_conf conf = {.buffer = 5, .clears = &clears};

    smb_reader_init(&s->reader, PAGE, pages);
    conf.arbiter = s->reader.arbiter;
    assert_int_equal(pfl_trace_writer_new(&conf, &s->writer), 0);
    s->w = pfl_trace_writer_get_public(s->writer);
}

/* The only packet's first field of this number. */
static struct pfl_span close_and_find(struct subject *s, uint32_t id)
{
    struct pfl_reader r;
    struct pfl_field f;

    pfl_trace_writer_free(s->writer);
    smb_reader_assemble(&s->reader);
    assert_int_equal(s->reader.packets_len, 1);
    r = pfl_reader_of(pfl_span_of(s->reader.packets[0].data, s->reader.packets[0].len));
    while (pfl_reader_field(&r, &f)) {
        if (f.id == id)
            return f.bytes;
    }
    assert_true(false);
    return pfl_span_of(NULL, 0);
}

static uint64_t value_of(uint32_t n)
{
    return n % 3 == 0 ? n : (uint64_t)n * 0x123456789abcdu << n % 13;
}

static void expect_varints(struct pfl_span packed)
{
    struct pfl_reader r = pfl_reader_of(packed);

    for (uint32_t n = 0; n < VALUES; n++)
        assert_true(pfl_reader_varint(&r) == value_of(n));
    assert_false(r.failed);
    assert_int_equal(r.left, 0);
}

static void packed_arrays_hold_their_values(void **state)
{
    static uint64_t values[VALUES];
    struct subject s;

    (void)state;
    for (uint32_t n = 0; n < VALUES; n++)
        values[n] = value_of(n);
    open_subject(&s, 16);
    perfleet_packet_begin(s.w);
    perfleet_packed_uint(s.w, 6, values, VALUES);
    perfleet_packet_end(s.w);
    expect_varints(close_and_find(&s, 6));
    smb_reader_fini(&s.reader);
}

static void packed_values_come_one_by_one_too(void **state)
{
    struct subject s;

    (void)state;
    open_subject(&s, 16);
    perfleet_packet_begin(s.w);
    perfleet_begin(s.w, 6);
    for (uint32_t n = 0; n < VALUES; n++)
        perfleet_item_uint(s.w, value_of(n));
    perfleet_end(s.w);
    perfleet_packet_end(s.w);
    expect_varints(close_and_find(&s, 6));
    smb_reader_fini(&s.reader);
}

static void signed_and_fixed_values_are_encoded_as_protobuf_does(void **state)
{
    static const int64_t numbers[] = {0, -1, 1, INT64_MIN, 300};
    static const uint8_t zigzag[] = {0,    1,    2,    0xff, 0xff, 0xff, 0xff, 0xff,
                                     0xff, 0xff, 0xff, 0xff, 0x01, 0xd8, 0x04};
    static const uint8_t minus_one[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    static const float floats[] = {1.5f, -2.0f};
    struct pfl_span found;
    struct subject s;

    (void)state;
    open_subject(&s, 4);
    perfleet_packet_begin(s.w);
    perfleet_packed_sint(s.w, 6, numbers, 5);
    perfleet_packed_int(s.w, 7, numbers + 1, 1);
    perfleet_packed_float(s.w, 8, floats, 2);
    perfleet_begin(s.w, 9);
    perfleet_item_double(s.w, 0.25);
    perfleet_item_fixed32(s.w, 0x01020304);
    perfleet_item_fixed64(s.w, 5);
    perfleet_item_float(s.w, floats[0]);
    perfleet_item_sint(s.w, -1);
    perfleet_item_int(s.w, -1);
    perfleet_end(s.w);
    perfleet_packed_uint(s.w, 10, NULL, 0);
    perfleet_packet_end(s.w);
    found = close_and_find(&s, 6);
    assert_int_equal(found.len, sizeof(zigzag));
    assert_memory_equal(found.data, zigzag, sizeof(zigzag));
    {
        struct pfl_reader r =
            pfl_reader_of(pfl_span_of(s.reader.packets[0].data, s.reader.packets[0].len));
        struct pfl_field f;
        double d;

        while (pfl_reader_field(&r, &f)) {
            if (f.id == 7)
                assert_memory_equal(f.bytes.data, minus_one, sizeof(minus_one));
            if (f.id == 8)
                assert_memory_equal(f.bytes.data, floats, sizeof(floats));
            if (f.id == 10)
                assert_int_equal(f.bytes.len, 0);
            if (f.id != 9)
                continue;
            memcpy(&d, f.bytes.data, sizeof(d));
            assert_true(d == 0.25);
            assert_int_equal(f.bytes.len, 8 + 4 + 8 + 4 + 1 + sizeof(minus_one));
            assert_memory_equal(f.bytes.data + 25, minus_one, sizeof(minus_one));
        }
        assert_false(r.failed);
    }
    smb_reader_fini(&s.reader);
}

/* {1: number of the level, 2: {...}, 3: bytes} as deep as allowed, each with its own padding. */
static void messages_may_be_as_deep_as_the_limit_over_many_chunks(void **state)
{
    static const uint8_t padding[200];
    struct pfl_span at;
    struct subject s;

    (void)state;
    for (uint32_t bytes = 0; bytes <= sizeof(padding); bytes += 67) {
        open_subject(&s, 32);
        perfleet_packet_begin(s.w);
        for (uint32_t i = 0; i < PERFLEET_MAX_NESTING; i++) {
            perfleet_begin(s.w, 2);
            perfleet_uint(s.w, 1, i);
            perfleet_bytes(s.w, 3, padding, bytes);
        }
        for (uint32_t i = PERFLEET_MAX_NESTING; i-- > 0;) {
            perfleet_uint(s.w, 4, i);
            perfleet_bytes(s.w, 3, padding, bytes);
            perfleet_end(s.w);
        }
        perfleet_packet_end(s.w);
        at = close_and_find(&s, 2);
        for (uint32_t i = 0; i < PERFLEET_MAX_NESTING; i++) {
            struct pfl_reader r = pfl_reader_of(at);
            struct pfl_field f;
            uint32_t seen = 0;

            while (pfl_reader_field(&r, &f)) {
                if (f.id == 2)
                    at = f.bytes;
                else if (f.id == 3)
                    assert_int_equal(f.bytes.len, bytes);
                else
                    seen += f.value == i;
            }
            assert_false(r.failed);
            assert_int_equal(seen, 2);
        }
        smb_reader_fini(&s.reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_arrays_hold_their_values),
        cmocka_unit_test(packed_values_come_one_by_one_too),
        cmocka_unit_test(signed_and_fixed_values_are_encoded_as_protobuf_does),
        cmocka_unit_test(messages_may_be_as_deep_as_the_limit_over_many_chunks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
