/* SPDX-License-Identifier: Apache-2.0 */
/* The session that waits for another's triggers, as a service would read it. */
#include "consumer/host/trigger_wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "perfetto/service_state.fields.h"
#include "tests/support/sweep.h"

#define MARGIN_MS 1000u

/* What a service tells of a session "flight"; numbers below 0: nothing. */
struct report {
    unsigned triggers;
    int duration_ms;
    int ends_in_ms;
};

static struct pfl_span encode_state(const struct report *report, uint8_t *dst, size_t room)
{
    uint8_t session[1024];
    struct pfl_writer s = pfl_writer_of(session, sizeof(session));
    struct pfl_writer w = pfl_writer_of(dst, room);

    pfl_writer_field_bytes(&s, 3, "STARTED", 7);
    pfl_writer_field_bytes(&s, 4, "flight", 6);
    for (unsigned i = 0; i < report->triggers; i++) {
        uint8_t trigger[8];
        struct pfl_writer t = pfl_writer_of(trigger, sizeof(trigger));

        pfl_writer_field_bytes(&t, 1, i % 2 == 0 ? "boom" : "bang", 4);
        pfl_writer_field_varint(&t, 3, i);
        pfl_writer_field_bytes(&s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_TRIGGERS,
                               trigger, sizeof(trigger) - t.left);
    }
    if (report->duration_ms >= 0)
        pfl_writer_field_varint(&s, 6, (uint64_t)report->duration_ms);
    if (report->ends_in_ms >= 0)
        pfl_writer_field_varint(&s, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_ENDS_IN_MS,
                                (uint64_t)report->ends_in_ms);
    pfl_writer_field_bytes(&w, 6, session, sizeof(session) - s.left);
    return pfl_span_of(dst, room - w.left);
}

static struct pfl_span get(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_BYTES)
            return f.bytes;
    return (struct pfl_span){0};
}

static uint64_t get_number(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_VARINT)
            return f.value;
    return 0;
}

static uint64_t timeout_of(int duration_ms, int ends_in_ms)
{
    const struct report report = {1, duration_ms, ends_in_ms};
    uint8_t bytes[1100];
    struct pfl_buf out;
    uint64_t ms;

    pfl_buf_init(&out, PFL_TRIGGER_WAIT_MAX_BYTES);
    assert_int_equal(pfl_trigger_wait_encode(encode_state(&report, bytes, sizeof(bytes)), "flight",
                                             MARGIN_MS, &out),
                     0);
    ms = get_number(get(get(pfl_buf_get(&out), 1), 17), 3);
    pfl_buf_fini(&out);
    return ms;
}

static void a_wait_has_the_triggers_as_they_are_reported_and_records_nothing(void **state)
{
    const struct report report = {3, 60000, 60000};
    uint8_t bytes[1100];
    struct pfl_reader r;
    struct pfl_span config;
    struct pfl_buf out;
    struct pfl_field f;
    uint64_t delays = 0;
    unsigned count = 0;

    (void)state;
    pfl_buf_init(&out, PFL_TRIGGER_WAIT_MAX_BYTES);
    assert_int_equal(pfl_trigger_wait_encode(encode_state(&report, bytes, sizeof(bytes)), "flight",
                                             MARGIN_MS, &out),
                     0);
    config = get(pfl_buf_get(&out), 1);
    assert_int_equal(get_number(get(config, 1), 1), 4); /* KiB */
    assert_int_equal(get(config, 2).len, 0);            /* no data source */
    assert_int_equal(get_number(get(config, 17), 1), 4);
    r = pfl_reader_of(get(config, 17));
    while (pfl_reader_field(&r, &f)) {
        if (f.id != 2)
            continue;
        assert_memory_equal(get(f.bytes, 1).data, count % 2 == 0 ? "boom" : "bang", 4);
        delays += get_number(f.bytes, 3);
        count++;
    }
    assert_int_equal(count, 3);
    assert_int_equal(delays, 0 + 1 + 2);
    pfl_buf_fini(&out);
}

static void a_wait_ends_before_the_session_does(void **state)
{
    (void)state;
    assert_int_equal(timeout_of(60000, 5000), 4000);
    assert_int_equal(timeout_of(60000, -1), 59000);
    assert_int_equal(timeout_of(0, -1), 86399000);
    assert_int_equal(timeout_of(60000, 1000), 1);
    assert_int_equal(timeout_of(60000, 0), 1);
}

static void who_does_not_tell_the_triggers_is_not_waited_for_so(void **state)
{
    const struct report none = {0, 60000, 60000};
    const struct report one = {1, 60000, 60000};
    uint8_t bytes[1100];
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, PFL_TRIGGER_WAIT_MAX_BYTES);
    assert_int_equal(pfl_trigger_wait_encode(encode_state(&none, bytes, sizeof(bytes)), "flight",
                                             MARGIN_MS, &out),
                     PFL_ENOENT);
    assert_int_equal(
        pfl_trigger_wait_encode(encode_state(&one, bytes, sizeof(bytes)), "other", MARGIN_MS, &out),
        PFL_ENOENT);
    assert_int_equal(out.len, 0);
    pfl_buf_fini(&out);
}

static void a_cut_state_makes_no_request_that_is_cut(void **state)
{
    const struct report report = {3, 60000, 60000};
    uint8_t bytes[1100];
    struct pfl_span whole = encode_state(&report, bytes, sizeof(bytes));

    (void)state;
    for (size_t len = 0; len < whole.len; len++) {
        struct pfl_buf out;

        pfl_buf_init(&out, PFL_TRIGGER_WAIT_MAX_BYTES);
        assert_int_equal(
            pfl_trigger_wait_encode(pfl_span_of(whole.data, len), "flight", MARGIN_MS, &out),
            PFL_ENOENT);
        pfl_buf_fini(&out);
    }
}

static void more_triggers_than_there_is_room_for_are_an_error(void **state)
{
    const struct report report = {40, 60000, 60000};
    uint8_t bytes[1100];
    struct pfl_buf out;

    (void)state;
    pfl_buf_init(&out, 100);
    assert_int_equal(pfl_trigger_wait_encode(encode_state(&report, bytes, sizeof(bytes)), "flight",
                                             MARGIN_MS, &out),
                     PFL_ELIMIT);
    pfl_buf_fini(&out);
}

static int encode_once(void *arg)
{
    const struct report report = {3, 60000, 60000};
    uint8_t bytes[1100];
    struct pfl_buf out;
    int rc;

    (void)arg;
    pfl_buf_init(&out, PFL_TRIGGER_WAIT_MAX_BYTES);
    rc = pfl_trigger_wait_encode(encode_state(&report, bytes, sizeof(bytes)), "flight", MARGIN_MS,
                                 &out);
    pfl_buf_fini(&out);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(encode_once, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_has_the_triggers_as_they_are_reported_and_records_nothing),
        cmocka_unit_test(a_wait_ends_before_the_session_does),
        cmocka_unit_test(who_does_not_tell_the_triggers_is_not_waited_for_so),
        cmocka_unit_test(a_cut_state_makes_no_request_that_is_cut),
        cmocka_unit_test(more_triggers_than_there_is_room_for_are_an_error),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
