/* SPDX-License-Identifier: Apache-2.0 */
/* Readers and writers: values, ends, and every cut of a message. */
#include "base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"

static const uint64_t values[] = {
    0,
    1,
    127,
    128,
    129,
    16383,
    16384,
    2097151,
    2097152,
    UINT32_MAX,
    (uint64_t)UINT32_MAX + 1,
    INT64_MAX,
    UINT64_MAX,
};

static void varints_come_back_and_have_their_size(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        uint8_t bytes[PFL_VARINT_MAX_BYTES];
        struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
        struct pfl_reader r;

        pfl_writer_varint(&w, values[i]);
        assert_false(w.failed);
        assert_int_equal(w.pos - bytes, pfl_varint_size(values[i]));
        assert_int_equal(pfl_varint_put(bytes, values[i]), pfl_varint_size(values[i]));
        r = pfl_reader_of(pfl_span_of(bytes, pfl_varint_size(values[i])));
        assert_true(pfl_reader_varint(&r) == values[i]);
        assert_false(r.failed);
        assert_int_equal(r.left, 0);
    }
}

static void endless_varint_fails(void **state)
{
    uint8_t bytes[11];
    struct pfl_reader r;

    (void)state;
    memset(bytes, 0x80, sizeof(bytes));
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        r = pfl_reader_of(pfl_span_of(bytes, len));
        assert_int_equal(pfl_reader_varint(&r), 0);
        assert_true(r.failed);
    }
    memset(bytes, 0xff, sizeof(bytes));
    bytes[9] = 0x7f; /* ten bytes: the bits past 64 are dropped */
    r = pfl_reader_of(pfl_span_of(bytes, 10));
    assert_true(pfl_reader_varint(&r) == UINT64_MAX);
    assert_false(r.failed);
}

static void integers_are_little_endian(void **state)
{
    static const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    struct pfl_reader r = pfl_reader_of(pfl_span_of(bytes, sizeof(bytes)));
    uint8_t out[15];
    struct pfl_writer w = pfl_writer_of(out, sizeof(out));

    (void)state;
    assert_int_equal(pfl_reader_u8(&r), 1);
    assert_int_equal(pfl_reader_u16(&r), 0x0302);
    assert_int_equal(pfl_reader_u32(&r), 0x07060504);
    assert_true(pfl_reader_u64(&r) == 0x0f0e0d0c0b0a0908u);
    assert_false(r.failed);
    pfl_writer_u8(&w, 1);
    pfl_writer_u16(&w, 0x0302);
    pfl_writer_u32(&w, 0x07060504);
    pfl_writer_u64(&w, 0x0f0e0d0c0b0a0908u);
    assert_false(w.failed);
    assert_memory_equal(out, bytes, sizeof(bytes));
}

static void failed_reader_stays_failed_and_yields_nothing(void **state)
{
    static const uint8_t bytes[] = {1, 2, 3};
    struct pfl_reader r = pfl_reader_of(pfl_span_of(bytes, sizeof(bytes)));
    struct pfl_field f;

    (void)state;
    assert_int_equal(pfl_reader_u32(&r), 0);
    assert_true(r.failed);
    assert_int_equal(pfl_reader_u8(&r), 0);
    assert_int_equal(pfl_reader_bytes(&r, 1).len, 0);
    assert_false(pfl_reader_field(&r, &f));
}

static void empty_input_may_be_null(void **state)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(NULL, 0));
    struct pfl_writer w = pfl_writer_of(NULL, 0);
    struct pfl_field f;

    (void)state;
    assert_int_equal(pfl_reader_bytes(&r, 0).len, 0);
    assert_false(pfl_reader_field(&r, &f));
    assert_false(r.failed);
    pfl_writer_bytes(&w, NULL, 0);
    assert_false(w.failed);
    pfl_writer_u8(&w, 1);
    assert_true(w.failed);
}

static size_t make_message(uint8_t *bytes, size_t room)
{
    struct pfl_writer w = pfl_writer_of(bytes, room);

    pfl_writer_field_varint(&w, 1, 300);
    pfl_writer_field_fixed32(&w, 2, 0xdeadbeef);
    pfl_writer_field_fixed64(&w, 1000, 0x1122334455667788u);
    pfl_writer_field_bytes(&w, 536870911, "hello", 5);
    pfl_writer_field_bytes(&w, 5, "", 0);
    assert_false(w.failed);
    return (size_t)(w.pos - bytes);
}

static void spans_are_equal_by_their_bytes(void **state)
{
    static const char text[] = "ab\0c";
    const struct pfl_span none = pfl_span_of(NULL, 0);

    (void)state;
    assert_true(pfl_span_eq(none, none));
    assert_true(pfl_span_eq(none, pfl_span_of(text, 0)));
    assert_true(pfl_span_is(none, ""));
    assert_false(pfl_span_is(none, "a"));
    assert_true(pfl_span_is(pfl_span_of(text, 2), "ab"));
    assert_false(pfl_span_is(pfl_span_of(text, 3), "ab"));
    assert_false(pfl_span_is(pfl_span_of(text, 1), "ab"));
    assert_true(pfl_span_eq(pfl_span_of(text, 4), pfl_span_of("ab\0c", 4)));
    assert_false(pfl_span_eq(pfl_span_of(text, 4), pfl_span_of("ab\0d", 4)));
}

static void fields_come_back_whole(void **state)
{
    uint8_t bytes[64];
    size_t len = make_message(bytes, sizeof(bytes));
    struct pfl_reader r = pfl_reader_of(pfl_span_of(bytes, len));
    struct pfl_field f;
    size_t raw = 0;

    (void)state;
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 1);
    assert_int_equal(f.value, 300);
    raw += f.raw.len;
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 2);
    assert_int_equal(f.value, 0xdeadbeef);
    raw += f.raw.len;
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 1000);
    assert_true(f.value == 0x1122334455667788u);
    raw += f.raw.len;
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.id, 536870911);
    assert_int_equal(f.bytes.len, 5);
    assert_memory_equal(f.bytes.data, "hello", 5);
    raw += f.raw.len;
    assert_true(pfl_reader_field(&r, &f));
    assert_int_equal(f.bytes.len, 0);
    raw += f.raw.len;
    assert_false(pfl_reader_field(&r, &f));
    assert_false(r.failed);
    assert_int_equal(raw, len);
}

/* Reads all fields of an exact heap copy, so that a sanitizer sees an overrun. */
static bool is_well_formed(const uint8_t *bytes, size_t len, unsigned *ret_fields)
{
    uint8_t *copy = test_malloc(len != 0 ? len : 1);
    struct pfl_reader r;
    struct pfl_field f;
    bool failed;

    if (len != 0)
        memcpy(copy, bytes, len);
    r = pfl_reader_of(pfl_span_of(copy, len));
    *ret_fields = 0;
    while (pfl_reader_field(&r, &f))
        (*ret_fields)++;
    failed = r.failed;
    test_free(copy);
    return !failed;
}

static void message_cut_inside_a_field_fails(void **state)
{
    uint8_t bytes[64];
    size_t len = make_message(bytes, sizeof(bytes));
    unsigned fields;
    unsigned well_formed = 0;

    (void)state;
    for (size_t cut = 0; cut <= len; cut++) {
        if (is_well_formed(bytes, cut, &fields))
            assert_int_equal(fields, well_formed++);
    }
    assert_int_equal(well_formed, 6); /* at the ends of fields, and empty */
}

/* One field of both kinds; false at the end. Both must say the same. */
static bool is_same_field(struct pfl_reader *plain, struct pfl_reader *hot)
{
    struct pfl_field a = {0};
    struct pfl_field b = {0};
    bool is_there = pfl_reader_field(plain, &a);

    assert_int_equal(pfl_reader_field_hot(hot, &b), is_there);
    assert_int_equal(hot->failed, plain->failed);
    assert_int_equal(hot->left, plain->left);
    if (!is_there)
        return false;
    assert_ptr_equal(hot->pos, plain->pos);
    assert_int_equal(b.id, a.id);
    assert_int_equal(b.type, a.type);
    assert_int_equal(b.value, a.value);
    assert_ptr_equal(b.bytes.data, a.bytes.data);
    assert_int_equal(b.bytes.len, a.bytes.len);
    assert_ptr_equal(b.raw.data, a.raw.data);
    assert_int_equal(b.raw.len, a.raw.len);
    return true;
}

static void the_inline_reader_finds_the_same_fields_in_any_bytes(void **state)
{
    uint64_t random = 88172645463325252u;
    uint8_t bytes[48];

    (void)state;
    for (unsigned round = 0; round < 200000; round++) {
        size_t len = round % (sizeof(bytes) + 1);
        uint8_t *exact = pfl_mem_alloc(len + 1);
        struct pfl_reader plain;
        struct pfl_reader hot;

        for (size_t i = 0; i < sizeof(bytes); i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            /* Small tags and lengths often, so that there are fields at all. */
            bytes[i] = (uint8_t)(random >> 32 & ((random & 3) != 0 ? 0x1a : 0xff));
        }
        memcpy(exact, bytes, len);
        plain = hot = pfl_reader_of(pfl_span_of(exact, len));
        while (is_same_field(&plain, &hot))
            continue;
        pfl_mem_free(exact);
    }
}

static void varints_of_up_to_eight_bytes_load_at_once(void **state)
{
    uint8_t bytes[PFL_VARINT_MAX_BYTES + 8] = {0};
    uint64_t value;

    (void)state;
    for (unsigned shift = 0; shift < 56; shift++) {
        for (uint64_t v = ((uint64_t)1 << shift) - 1; v <= (uint64_t)1 << shift; v++) {
            memset(bytes, 0xff, sizeof(bytes));
            assert_int_equal(pfl_varint_load(bytes, &value), 0);
            assert_int_equal(pfl_varint_load(bytes, &value), 0);
            (void)pfl_varint_put(bytes, v);
            assert_int_equal(pfl_varint_load(bytes, &value), pfl_varint_size(v));
            assert_int_equal(value, v);
        }
    }
}

static void malformed_fields_fail(void **state)
{
    static const struct {
        uint8_t bytes[12];
        size_t len;
    } cases[] = {
        {{0x00, 0x01}, 2},                         /* id 0 */
        {{0x0b}, 1},                               /* group start */
        {{0x0c}, 1},                               /* group end */
        {{0x0e, 0x00}, 2},                         /* wire type 6 */
        {{0x0f, 0x00}, 2},                         /* wire type 7 */
        {{0x0a, 0x05, 'a'}, 3},                    /* length past the end */
        {{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, 6}, /* length of 4 GiB */
        {{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 11}, /* 2^64 - 1 */
        {{0x88, 0x80, 0x80, 0x80, 0x10, 0x00}, 6}, /* tag past 32 bits */
    };
    unsigned fields;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (is_well_formed(cases[i].bytes, cases[i].len, &fields))
            fail_msg("case %zu was accepted", i);
        assert_int_equal(fields, 0);
    }
}

static void writer_that_is_full_writes_nothing_more(void **state)
{
    uint8_t bytes[4] = {9, 9, 9, 9};
    struct pfl_writer w = pfl_writer_of(bytes, 3);

    (void)state;
    pfl_writer_u16(&w, 0x0101);
    pfl_writer_u16(&w, 0x0202);
    assert_true(w.failed);
    pfl_writer_u8(&w, 3);
    assert_int_equal(w.pos - bytes, 2);
    assert_int_equal(bytes[2], 9);
    assert_int_equal(bytes[3], 9);
}

static void a_copy_has_all_bytes_and_none_beside_them(void **state)
{
    uint8_t from[200];
    uint8_t to[202];

    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i + 1);
    for (size_t len = 0; len < sizeof(from); len++) {
        uint8_t *exact = pfl_mem_memdup(from, len + 1);

        memset(to, 0, sizeof(to));
        pfl_bytes_copy(to + 1, exact + 1, len);
        assert_memory_equal(to + 1, from + 1, len);
        assert_int_equal(to[0], 0);
        assert_int_equal(to[len + 1], 0);
        pfl_mem_free(exact);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints_come_back_and_have_their_size),
        cmocka_unit_test(endless_varint_fails),
        cmocka_unit_test(integers_are_little_endian),
        cmocka_unit_test(failed_reader_stays_failed_and_yields_nothing),
        cmocka_unit_test(empty_input_may_be_null),
        cmocka_unit_test(spans_are_equal_by_their_bytes),
        cmocka_unit_test(fields_come_back_whole),
        cmocka_unit_test(message_cut_inside_a_field_fails),
        cmocka_unit_test(malformed_fields_fail),
        cmocka_unit_test(the_inline_reader_finds_the_same_fields_in_any_bytes),
        cmocka_unit_test(varints_of_up_to_eight_bytes_load_at_once),
        cmocka_unit_test(a_copy_has_all_bytes_and_none_beside_them),
        cmocka_unit_test(writer_that_is_full_writes_nothing_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
