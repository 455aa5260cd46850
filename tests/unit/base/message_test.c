/* SPDX-License-Identifier: Apache-2.0 */
/* Fields at the end of a buffer: bytes, nested lengths, the first failure. */
#include "base/message.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MAX_BYTES 4096u

static void assert_bytes(const struct pfl_buf *buf, const char *bytes, size_t len)
{
    assert_int_equal(buf->len, len);
    assert_memory_equal(pfl_buf_get(buf).data, bytes, len);
}

static void fields_are_appended_as_the_wire_has_them(void **state)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    (void)state;
    pfl_buf_init(&buf, MAX_BYTES);
    pfl_message_varint(&m, 1, 300);
    pfl_message_str(&m, 2, "ab");
    pfl_message_bytes(&m, 16, pfl_span_of(NULL, 0));
    pfl_message_raw(&m, pfl_span_of("\x08\x01", 2));
    assert_int_equal(m.rc, 0);
    assert_bytes(&buf,
                 "\x08\xac\x02\x12\x02"
                 "ab\x82\x01\x00\x08\x01",
                 12);
    pfl_buf_fini(&buf);
}

static void one_field_is_whole_or_not_there(void **state)
{
    struct pfl_buf buf;

    (void)state;
    pfl_buf_init(&buf, 12);
    assert_int_equal(pfl_message_append_fixed64(&buf, 3, 1), 0);
    assert_int_equal(pfl_message_append_varint(&buf, 1, UINT64_MAX), PFL_ELIMIT);
    assert_int_equal(pfl_message_append_header(&buf, 2, 300), 0);
    assert_bytes(&buf, "\x19\x01\0\0\0\0\0\0\0\x12\xac\x02", 12);
    pfl_buf_fini(&buf);
}

static void each_length_of_a_nested_message_is_the_shortest(void **state)
{
    static const size_t lengths[] = {0, 1, 127, 128, 2000};

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct pfl_buf buf;
        struct pfl_message m = pfl_message_of(&buf);
        uint8_t head[PFL_VARINT_MAX_BYTES];
        size_t head_len = pfl_varint_put(head, lengths[i]);
        uint8_t content[2000];
        size_t outer;
        size_t inner;

        memset(content, 'x', sizeof(content));
        pfl_buf_init(&buf, MAX_BYTES);
        outer = pfl_message_begin(&m, 1);
        inner = pfl_message_begin(&m, 2);
        pfl_message_raw(&m, pfl_span_of(content, lengths[i]));
        pfl_message_end(&m, inner);
        pfl_message_end(&m, outer);
        assert_int_equal(m.rc, 0);
        assert_int_equal(buf.len, 1 + pfl_varint_size(1 + head_len + lengths[i]) + 1 + head_len +
                                      lengths[i]);
        assert_memory_equal(pfl_buf_get(&buf).data + buf.len - lengths[i] - head_len, head,
                            head_len);
        pfl_buf_fini(&buf);
    }
}

static void nothing_is_appended_after_the_first_failure(void **state)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t mark;

    (void)state;
    pfl_buf_init(&buf, 4);
    mark = pfl_message_begin(&m, 1);
    pfl_message_str(&m, 2, "too long");
    assert_int_equal(m.rc, PFL_ELIMIT);
    pfl_message_varint(&m, 3, 1);
    pfl_message_end(&m, mark);
    assert_int_equal(m.rc, PFL_ELIMIT);
    assert_bytes(&buf, "\x0a\x12\x08", 3);
    pfl_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_appended_as_the_wire_has_them),
        cmocka_unit_test(one_field_is_whole_or_not_there),
        cmocka_unit_test(each_length_of_a_nested_message_is_the_shortest),
        cmocka_unit_test(nothing_is_appended_after_the_first_failure),
    };

    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
