/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes every reader of protobuf reads alike, and the words for those that it may not. */
#include "proto/gate/strict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/consumer_port.pb-c.h"
#include "perfetto/data_source_config.pb-c.h"
#include "perfetto/test_event.pb-c.h"

#define NUMBERS (&perfetto__protos__test_config__dummy_fields__descriptor)
#define TEST    (&perfetto__protos__test_config__descriptor)
#define CLONE   (&perfetto__protos__clone_session_request__descriptor)
#define FREE    (&perfetto__protos__free_buffers_request__descriptor)
#define NESTED  (&perfetto__protos__debug_annotation__nested_value__descriptor)
#define B(text) text, sizeof(text) - 1

#define MINUS(low) low "\xff\xff\xff\xff\xff\xff\xff\xff\x01" /* a negative varint, ten bytes */

struct example {
    const ProtobufCMessageDescriptor *type;
    const char *bytes;
    size_t len;
    const char *why; /* NULL: accepted */
};

static char why[200];

static void check_examples(const struct example *examples, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct example *e = &examples[i];
        bool is_fine = pfl_strict_check(e->type, pfl_span_of(e->bytes, e->len), why, sizeof(why));

        if (is_fine != (e->why == NULL))
            fail_msg("%zu: %s", i, is_fine ? "accepted" : why);
        if (e->why != NULL && strstr(why, e->why) == NULL)
            fail_msg("%zu: %s, not %s", i, why, e->why);
    }
}

#define CHECK(examples) check_examples((examples), sizeof(examples) / sizeof((examples)[0]))

static void each_kind_of_number_has_its_wire_type(void **state)
{
    static const struct example examples[] = {
        {NUMBERS, B("\x08\x01\x10\x01\x18\x01\x20\x01\x58\x01\x60\x01"), NULL},
        {NUMBERS,
         B("\x29"
           "12345678"
           "\x31"
           "12345678"
           "\x49"
           "12345678"),
         NULL},
        {NUMBERS,
         B("\x3d"
           "1234"
           "\x45"
           "1234"
           "\x55"
           "1234"),
         NULL},
        {NUMBERS, B("\x6a\x01x\x72\x01x"), NULL},
        {NUMBERS, B(""), NULL},
        {NUMBERS,
         B("\x0d"
           "1234"),
         "field_uint32 of DummyFields has another type"},
        {NUMBERS, B("\x28\x01"), "field_fixed64 of DummyFields has another type"},
        {NUMBERS, B("\x38\x01"), "field_fixed32 of DummyFields has another type"},
        {NUMBERS,
         B("\x4d"
           "1234"),
         "field_double of DummyFields has another type"},
        {NUMBERS,
         B("\x51"
           "12345678"),
         "field_float of DummyFields has another type"},
        {NUMBERS, B("\x68\x01"), "field_string of DummyFields has another type"},
        {NUMBERS, B("\x0a\x01\x01"), "field_uint32 of DummyFields has another type"},
        {TEST, B("\x30\x01"), "dummy_fields of TestConfig has another type"},
    };

    (void)state;
    CHECK(examples);
}

static void a_number_fits_the_bits_of_its_type(void **state)
{
    static const struct example examples[] = {
        {NUMBERS, B("\x08\xff\xff\xff\xff\x0f"), NULL},
        {NUMBERS, B("\x08\x80\x80\x80\x80\x10"), "field_uint32 of DummyFields is a number out of"},
        {NUMBERS, B("\x60\xff\xff\xff\xff\x0f"), NULL},
        {NUMBERS, B("\x60\x80\x80\x80\x80\x10"), "field_sint32 of DummyFields is a number out of"},
        {NUMBERS, B("\x10\xff\xff\xff\xff\x07"), NULL},
        {NUMBERS, B("\x10\x80\x80\x80\x80\x08"), "field_int32 of DummyFields is a number out of"},
        {NUMBERS, B("\x10\x80\x80\x80\x80\xf8\xff\xff\xff\xff\x01"), NULL}, /* INT32_MIN */
        {NUMBERS, B("\x10\xff\xff\xff\xff\xf7\xff\xff\xff\xff\x01"),
         "field_int32 of DummyFields is a number out of"},
        {NUMBERS, B("\x18" MINUS("\xff") "\x20" MINUS("\xfe")), NULL},
        {TEST, B("\x28\x00"), NULL},
        {TEST, B("\x28\x01"), NULL},
        {TEST, B("\x28\x02"), "send_batch_on_register of TestConfig is a number out of range"},
    };

    (void)state;
    CHECK(examples);
}

static void tags_and_numbers_have_their_shortest_form_and_lengths_need_not(void **state)
{
    static const struct example examples[] = {
        {NUMBERS, B("\x08\x81\x00"), "field_uint32 of DummyFields is not written in its shortest"},
        {NUMBERS, B("\x88\x00\x01"), "field_uint32 of DummyFields is not written in its shortest"},
        {NUMBERS,
         B("\xbd\x00"
           "1234"),
         "field_fixed32 of DummyFields is not written in its short"},
        {NUMBERS,
         B("\xa9\x00"
           "12345678"),
         "field_fixed64 of DummyFields is not written in its"},
        {NUMBERS, B("\xea\x00\x01x"), "field_string of DummyFields is not written in its shortest"},
        {NUMBERS, B("\x6a\x81\x00x"), NULL},
        {NUMBERS, B("\x6a\x81\x80\x80\x80\x00x"), NULL}, /* five bytes */
        {TEST, B("\x32\x82\x80\x80\x00\x08\x01"), NULL},
    };

    (void)state;
    CHECK(examples);
}

static void a_field_comes_once_and_one_of_a_oneof(void **state)
{
    static const struct example examples[] = {
        {NUMBERS, B("\x08\x01\x08\x01"), "field_uint32 of DummyFields is there twice"},
        {NUMBERS, B("\x72\x00\x08\x01\x72\x00"), "field_bytes of DummyFields is there twice"},
        {TEST, B("\x32\x00\x32\x00"), "dummy_fields of TestConfig is there twice"},
        {CLONE, B("\x08\x01\x10\x01\x18\x01"), NULL},
        {CLONE, B("\x22\x01n\x10\x01\x18\x01"), NULL},
        {CLONE, B("\x08\x01\x22\x01n"), "unique_session_name of CloneSessionRequest is there twic"},
        {CLONE, B("\x22\x01n\x08\x01"), "session_id of CloneSessionRequest is there twice"},
        {FREE, B("\x08\x01\x08\x02"), NULL},
        {FREE, B("\x0a\x02\x01\x02\x08\x01"), NULL}, /* packed */
    };

    (void)state;
    CHECK(examples);
}

static void what_is_unknown_damaged_or_has_a_nul_is_refused(void **state)
{
    static const struct example examples[] = {
        {NUMBERS, B("\x78\x01"), "field 15 of DummyFields is not known here"},
        {TEST, B("\x32\x02\x78\x01"), "field 15 of DummyFields is not known here"},
        {NUMBERS, B("\x08"), "the fields of DummyFields are malformed"},
        {NUMBERS, B("\x08\x01\x6a\x02x"), "the fields of DummyFields are malformed"},
        {TEST, B("\x32\x01\x08"), "the fields of DummyFields are malformed"},
        {NUMBERS, B("\x6a\x03x\0y"), "field_string of DummyFields has a NUL in it"},
        {NUMBERS, B("\x6a\x01\0"), "field_string of DummyFields has a NUL in it"},
        {NUMBERS, B("\x6a\x00\x72\x03x\0y"), NULL},
    };

    (void)state;
    CHECK(examples);
}

static void messages_are_read_to_a_depth(void **state)
{
    uint8_t bytes[2 * PFL_STRICT_MAX_DEPTH];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i += 2) {
        bytes[i] = 0x22; /* array_values */
        bytes[i + 1] = (uint8_t)(sizeof(bytes) - i - 2);
    }
    assert_true(
        pfl_strict_check(NESTED, pfl_span_of(bytes + 2, sizeof(bytes) - 2), why, sizeof(why)));
    assert_false(pfl_strict_check(NESTED, pfl_span_of(bytes, sizeof(bytes)), why, sizeof(why)));
    assert_string_equal(why, "a field of NestedValue is nested too deep");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_number_has_its_wire_type),
        cmocka_unit_test(a_number_fits_the_bits_of_its_type),
        cmocka_unit_test(tags_and_numbers_have_their_shortest_form_and_lengths_need_not),
        cmocka_unit_test(a_field_comes_once_and_one_of_a_oneof),
        cmocka_unit_test(what_is_unknown_damaged_or_has_a_nul_is_refused),
        cmocka_unit_test(messages_are_read_to_a_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
