/* SPDX-License-Identifier: Apache-2.0 */
/* What of a segment may be left out of a window, and what not. */
#include "consumer/collector/segment_window.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "perfetto/ftrace_events.fields.h"
#include "perfetto/trace_packet.fields.h"

static uint8_t bytes[256];

struct made {
    uint64_t ns;
    uint64_t clock;
    uint64_t flags;
    uint32_t payload; /* id of a field */
    bool has_interned;
};

static struct pfl_span make(const struct made *m)
{
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    if (m->ns != 0)
        pfl_writer_field_varint(&w, TRACE_PACKET__TIMESTAMP, m->ns);
    if (m->clock != 0)
        pfl_writer_field_varint(&w, TRACE_PACKET__TIMESTAMP_CLOCK_ID, m->clock);
    if (m->flags != 0)
        pfl_writer_field_varint(&w, TRACE_PACKET__SEQUENCE_FLAGS, m->flags);
    if (m->has_interned)
        pfl_writer_field_bytes(&w, TRACE_PACKET__INTERNED_DATA, "", 0);
    pfl_writer_field_bytes(&w, m->payload, "", 0);
    return pfl_span_of(bytes, sizeof(bytes) - w.left);
}

static void only_records_outside_that_nothing_needs_are_left_out(void **state)
{
    static const struct {
        struct made packet;
        bool is_outside;
    } cases[] = {
        {{.ns = 99, .payload = TRACE_PACKET__TRACK_EVENT}, true},
        {{.ns = 100, .payload = TRACE_PACKET__TRACK_EVENT}, false},
        {{.ns = 199, .payload = TRACE_PACKET__SYS_STATS}, false},
        {{.ns = 200, .payload = TRACE_PACKET__SYS_STATS}, true},
        {{.ns = 99, .payload = TRACE_PACKET__PROCESS_STATS}, true},
        {{.ns = 99, .clock = 6, .flags = 2, .payload = TRACE_PACKET__TRACK_EVENT}, true},
        /* Its clock is the sequence's default, which is not known here. */
        {{.ns = 99, .flags = 2, .payload = TRACE_PACKET__TRACK_EVENT}, false},
        {{.ns = 99, .clock = 64, .payload = TRACE_PACKET__TRACK_EVENT}, false},
        {{.ns = 99, .clock = 6, .flags = 1, .payload = TRACE_PACKET__TRACK_EVENT}, false},
        {{.ns = 99, .payload = TRACE_PACKET__TRACK_EVENT, .has_interned = true}, false},
        {{.ns = 99, .payload = TRACE_PACKET__PROCESS_TREE}, false},
        {{.ns = 99, .payload = TRACE_PACKET__CLOCK_SNAPSHOT}, false},
        {{.payload = TRACE_PACKET__TRACK_EVENT}, false},
    };
    const struct pfl_segment_window window = {100, 200};
    const struct pfl_segment_window none = {0, 0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (pfl_segment_is_outside(make(&cases[i].packet), &window) != cases[i].is_outside)
            fail_msg("case %zu", i);
        assert_false(pfl_segment_is_outside(make(&cases[i].packet), &none));
    }
    assert_false(pfl_segment_is_outside(pfl_span_of("\x40\x01\x52", 3), &window));
}

static struct pfl_span make_bundle(uint64_t first, uint64_t last, uint32_t extra)
{
    uint8_t event[16];
    uint8_t bundle[64];
    struct pfl_writer b = pfl_writer_of(bundle, sizeof(bundle));
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&b, FTRACE_EVENT_BUNDLE__CPU, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct pfl_writer e = pfl_writer_of(event, sizeof(event));

        pfl_writer_field_varint(&e, FTRACE_EVENT__TIMESTAMP, i == 0 ? first : last);
        pfl_writer_field_bytes(&b, FTRACE_EVENT_BUNDLE__EVENT, event, sizeof(event) - e.left);
    }
    if (extra != 0)
        pfl_writer_field_bytes(&b, extra, "", 0);
    pfl_writer_field_bytes(&w, TRACE_PACKET__FTRACE_EVENTS, bundle, sizeof(bundle) - b.left);
    return pfl_span_of(bytes, sizeof(bytes) - w.left);
}

static void kernel_events_are_left_out_as_a_whole_bundle(void **state)
{
    const struct pfl_segment_window window = {100, 200};

    (void)state;
    assert_true(pfl_segment_is_outside(make_bundle(10, 99, 0), &window));
    assert_false(pfl_segment_is_outside(make_bundle(10, 100, 0), &window));
    assert_false(pfl_segment_is_outside(make_bundle(199, 300, 0), &window));
    assert_true(pfl_segment_is_outside(make_bundle(200, 300, 0), &window));
    assert_false(
        pfl_segment_is_outside(make_bundle(10, 99, FTRACE_EVENT_BUNDLE__COMPACT_SCHED), &window));
    assert_false(pfl_segment_is_outside(make_bundle(50, 10, 0), &window));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_records_outside_that_nothing_needs_are_left_out),
        cmocka_unit_test(kernel_events_are_left_out_as_a_whole_bundle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
