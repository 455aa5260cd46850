/* SPDX-License-Identifier: Apache-2.0 */
/* A client's file_request for a file is taken out of its request, and nothing else is. */
#include "consumer/proxy/file_request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sweep.h"
#include "tests/unit/consumer/trace_bytes.h"

#define OUT_MAX 4096u

static const uint64_t dice[2] = {0x1111111111111111u, 0x2222222222222222u};

/* EnableTracingRequest { trace_config { duration, file fields }, attach_notification_only: 0 } */
static struct pfl_span request_of(uint8_t bytes[256], bool is_requested, bool has_path)
{
    uint8_t config[128];
    struct pfl_writer c = pfl_writer_of(config, sizeof(config));
    struct pfl_writer w = pfl_writer_of(bytes, 256);

    pfl_writer_field_varint(&c, 3, 1500);
    pfl_writer_field_varint(&c, 8, is_requested);
    pfl_writer_field_varint(&c, 9, 20);
    pfl_writer_field_varint(&c, 10, 70000);
    if (has_path)
        pfl_writer_field_bytes(&c, 29, "/x", 2);
    pfl_writer_field_varint(&c, 44, 1);
    pfl_writer_field_bytes(&c, 22, "name", 4);
    pfl_writer_field_bytes(&w, 1, config, sizeof(config) - c.left);
    pfl_writer_field_varint(&w, 2, 0);
    return pfl_span_of(bytes, 256 - w.left);
}

static void the_wish_is_taken_out_and_the_rest_stays(void **state)
{
    uint8_t bytes[256];
    struct pfl_span request = request_of(bytes, true, false);
    struct pfl_file_request file_request;
    struct pfl_span config;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(pfl_file_request_take(request, dice, &out, &file_request), 0);
    assert_true(file_request.is_requested);
    assert_int_equal(file_request.period_ms, PFL_FILE_REQUEST_MIN_PERIOD_MS);
    assert_int_equal(file_request.max_bytes, 70000);
    assert_true(pfl_buf_get(&out).len > 4);
    config = pfl_span_of(out.data + out.start + 2, out.data[out.start + 1]);
    assert_int_equal(field_value(config, 3), 1500);
    assert_int_equal(field_value(config, 8), 0);
    assert_int_equal(field_value(config, 9), 0);
    assert_int_equal(field_value(config, 10), 0);
    assert_int_equal(field_value(config, 44), 0);
    assert_memory_equal(field_bytes(config, 22).data, "name", 4);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

static void without_a_wish_the_request_goes_on_as_it_is(void **state)
{
    uint8_t bytes[256];
    struct pfl_file_request file_request;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(
        pfl_file_request_take(request_of(bytes, false, false), dice, &out, &file_request), 0);
    assert_false(file_request.is_requested);
    assert_int_equal(
        pfl_file_request_take(request_of(bytes, true, true), dice, &out, &file_request), 0);
    assert_false(file_request.is_requested);
    assert_int_equal(pfl_file_request_take(pfl_span_of("\x10\x01", 2), dice, &out, &file_request),
                     0);
    assert_false(file_request.is_requested);
    assert_int_equal(out.len, 0);
    pfl_buf_fini(&out);
}

static void a_cut_request_is_refused_or_wishes_for_no_more_than_it_says(void **state)
{
    uint8_t bytes[256];
    struct pfl_span request = request_of(bytes, true, false);
    struct pfl_file_request file_request;
    struct pfl_buf out;

    (void)state;
    for (size_t len = 1; len < request.len - 2; len++) {
        pfl_buf_init(&out, OUT_MAX);
        assert_int_equal(pfl_file_request_take(pfl_span_of(bytes, len), dice, &out, &file_request),
                         PFL_EPARSE);
        pfl_buf_fini(&out);
    }
    pfl_sweep_assert_no_leak();
}

/* What a clone would take out of a buffer is in the file then. */
static void clones_leave_the_buffers_of_a_file_alone(void **state)
{
    static const uint8_t request[] = {0x0a, 14,   0x0a, 6, 0x08, 0x40, 0x28, 1,
                                      0x30, 0x01, 0x40, 1, 0x0a, 2,    8,    5};
    static const uint8_t kept[] = {0x0a, 0x02, 0x08, 0x40, 0x0a, 2, 8, 5};
    struct pfl_file_request file_request;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(
        pfl_file_request_take(pfl_span_of(request, sizeof(request)), dice, &out, &file_request), 0);
    assert_true(file_request.is_requested);
    assert_memory_equal(out.data + out.start + 2, kept, sizeof(kept));
    pfl_buf_fini(&out);
}

static void a_trace_without_identity_gets_one_and_another_keeps_its_own(void **state)
{
    static const uint8_t none[] = {0x0a, 0x02, 0x40, 0x01};
    static const uint8_t own[] = {0x0a, 5, 0x40, 1, 0xd8, 1, 7};
    struct pfl_file_request file_request;
    struct pfl_span config;
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, OUT_MAX);
    assert_int_equal(
        pfl_file_request_take(pfl_span_of(none, sizeof(none)), dice, &out, &file_request), 0);
    config = field_bytes(pfl_buf_get(&out), 1);
    assert_int_equal(file_request.uuid_msb >> 12 & 0xf, 4);
    assert_int_equal(file_request.uuid_lsb >> 62, 2);
    assert_true(field_value(config, 27) == file_request.uuid_msb);
    assert_true(field_value(config, 28) == file_request.uuid_lsb);
    pfl_buf_clear(&out);
    assert_int_equal(
        pfl_file_request_take(pfl_span_of(own, sizeof(own)), dice, &out, &file_request), 0);
    assert_int_equal(file_request.uuid_msb, 7);
    assert_int_equal(file_request.uuid_lsb, 0);
    assert_int_equal(field_bytes(pfl_buf_get(&out), 1).len, 3);
    pfl_buf_fini(&out);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wish_is_taken_out_and_the_rest_stays),
        cmocka_unit_test(without_a_wish_the_request_goes_on_as_it_is),
        cmocka_unit_test(clones_leave_the_buffers_of_a_file_alone),
        cmocka_unit_test(a_trace_without_identity_gets_one_and_another_keeps_its_own),
        cmocka_unit_test(a_cut_request_is_refused_or_wishes_for_no_more_than_it_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
