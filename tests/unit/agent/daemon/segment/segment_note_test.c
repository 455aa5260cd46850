/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the service's index, and the notes beside segments. */
#include "agent/daemon/segment/segment_note.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define RUN "01J00000000000000000000000"

static int parse(const char *number, const char *begin, const char *end, const char *unresolved,
                 struct pfl_segment_line *ret_line)
{
    char text[300];

    (void)snprintf(text, sizeof(text),
                   "{\"segment\": %s, \"begin_ns\": %s, \"end_ns\": %s, \"reason\": \"x\", "
                   "\"unresolved\": %s}",
                   number, begin, end, unresolved);
    return pfl_segment_line_parse(pfl_span_of(text, strlen(text)), ret_line);
}

static int parse_losses(const char *losses, struct pfl_segment_line *ret_line)
{
    char text[200];

    (void)snprintf(text, sizeof(text),
                   "{\"segment\": 1, \"begin_ns\": 0, \"end_ns\": 0, \"reason\": \"x\", "
                   "\"unresolved\": 0, \"losses\": %s}",
                   losses);
    return pfl_segment_line_parse(pfl_span_of(text, strlen(text)), ret_line);
}

static void a_line_may_say_what_was_lost(void **state)
{
    struct pfl_segment_line line;

    (void)state;
    assert_int_equal(parse("1", "0", "0", "0", &line), 0);
    assert_true(line.losses == 0);
    assert_int_equal(parse_losses("7", &line), 0);
    assert_true(line.losses == 7);
    assert_int_equal(parse_losses("-1", &line), PFL_EPARSE);
    assert_int_equal(parse_losses("\"7\"", &line), PFL_EPARSE);
}

static void a_line_has_numbers_within_their_bounds(void **state)
{
    struct pfl_segment_line line;
    char most[24];
    char more[24];

    (void)state;
    (void)snprintf(most, sizeof(most), "%llu", (unsigned long long)PFL_SEGMENT_NUMBER_MAX);
    (void)snprintf(more, sizeof(more), "%llu", (unsigned long long)PFL_SEGMENT_NUMBER_MAX + 1);
    assert_int_equal(parse("1", "0", "0", "0", &line), 0);
    assert_int_equal(line.number, 1);
    assert_true(line.begin_ns == 0 && line.end_ns == 0);
    assert_int_equal(line.reason, PERFLEET__SEGMENT__REASON__UNKNOWN);
    assert_int_equal(parse(most, "7", "7", "4294967295", &line), 0);
    assert_true(line.number == PFL_SEGMENT_NUMBER_MAX && line.unresolved == UINT32_MAX);
    assert_int_equal(parse("0", "0", "0", "0", &line), PFL_EPARSE);
    assert_int_equal(parse(more, "0", "0", "0", &line), PFL_EPARSE);
    assert_int_equal(parse("1", "-1", "0", "0", &line), PFL_EPARSE);
    assert_int_equal(parse("1", "8", "7", "0", &line), PFL_EPARSE);
    assert_int_equal(parse("1", "0", "0", "-1", &line), PFL_EPARSE);
    assert_int_equal(parse("1", "0", "0", "4294967296", &line), PFL_EPARSE);
    pfl_sweep_assert_no_leak();
}

static Perfleet__Segment *encode_and_parse(const struct pfl_segment_entry *entry)
{
    Perfleet__Segment run = PERFLEET__SEGMENT__INIT;
    Perfleet__Segment *note = NULL;
    struct pfl_buf out;

    run.incarnation = (char *)(uintptr_t)RUN;
    run.orderer = (char *)(uintptr_t) "ann";
    run.order = (char *)(uintptr_t) "o";
    run.has_reason = run.has_unresolved = 1;
    run.reason = PERFLEET__SEGMENT__REASON__COPY;
    run.unresolved = 3;
    pfl_buf_init(&out, PFL_SEGMENT_NOTE_BYTES);
    assert_int_equal(pfl_segment_note_encode(&run, entry, &out), 0);
    assert_int_equal(pfl_segment_note_parse(pfl_buf_get(&out), RUN, &note), 0);
    pfl_buf_fini(&out);
    return note;
}

static void a_note_has_the_times_of_its_entry_and_a_gap_has_no_reason(void **state)
{
    struct pfl_segment_entry entry = {
        .id = RUN,
        .number = 2,
        .last = 2,
        .begin_boot_ns = 10,
        .end_boot_ns = 20,
        .begin_unix_ns = 110,
        .end_unix_ns = 120,
    };
    Perfleet__Segment *note = encode_and_parse(&entry);

    (void)state;
    assert_int_equal(note->number, 2);
    assert_true(note->begin_boot_ns == 10 && note->end_boot_ns == 20);
    assert_true(note->begin_unix_ns == 110 && note->end_unix_ns == 120);
    assert_true(note->has_reason && note->has_unresolved && note->unresolved == 3);
    assert_null(note->gap);
    pfl_proto_free(&note->base);

    entry.is_gap = true;
    entry.last = 4;
    entry.bytes = 99;
    entry.why = PERFLEET__SEGMENT_GAP__WHY__AGE;
    note = encode_and_parse(&entry);
    assert_false(note->has_reason || note->has_unresolved);
    assert_non_null(note->gap);
    assert_true(note->gap->last == 4 && note->gap->bytes == 99);
    assert_int_equal(note->gap->why, PERFLEET__SEGMENT_GAP__WHY__AGE);
    pfl_proto_free(&note->base);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_numbers_within_their_bounds),
        cmocka_unit_test(a_line_may_say_what_was_lost),
        cmocka_unit_test(a_note_has_the_times_of_its_entry_and_a_gap_has_no_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
