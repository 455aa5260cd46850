/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that refer to interned data which is not there are counted, by the reader's own rules. */
#include "consumer/merge/interned.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "perfetto/trace_packet.fields.h"
#include "tests/support/sweep.h"
#include "tests/unit/consumer/merge/merge_world.h"

#define NEEDS TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE
#define CLEAR                                                                                      \
    (TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED | TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE)
#define FLAGS 13u

static struct pfl_interned interned;
static struct pfl_interned_counts counts;

static void note(uint32_t sequence, uint32_t flags, bool has_loss, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        assert_int_equal(pfl_interned_note(&interned, sequence, flags, has_loss, &counts), 0);
}

static void expect(uint64_t skipped, uint64_t recovered)
{
    assert_int_equal(counts.skipped, skipped);
    assert_int_equal(counts.recovered, recovered);
}

static int begin(void **state)
{
    (void)state;
    counts = (struct pfl_interned_counts){0};
    return 0;
}

static int end(void **state)
{
    (void)state;
    pfl_interned_fini(&interned);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void a_sequence_that_begins_whole_loses_nothing(void **state)
{
    (void)state;
    assert_false(pfl_interned_is_settled(&interned, 2));
    note(2, CLEAR, false, 1);
    assert_true(pfl_interned_is_settled(&interned, 2));
    note(2, NEEDS, false, 1000);
    note(2, 0, false, 10);
    expect(0, 0);
}

static void without_its_beginning_all_that_needs_it_is_skipped(void **state)
{
    (void)state;
    note(1000, NEEDS, false, 294);
    note(1000, 0, false, 3);
    assert_false(pfl_interned_is_settled(&interned, 1000));
    expect(294, 0);
    note(3, CLEAR, false, 1); /* another one */
    expect(294, 0);
}

static void what_is_cleared_later_is_distinguished(void **state)
{
    (void)state;
    note(2, NEEDS, false, 20);
    note(7, NEEDS, false, 5);
    note(2, CLEAR, false, 1);
    note(2, NEEDS, false, 20);
    expect(5, 20);
    assert_true(pfl_interned_is_settled(&interned, 2));
}

static void a_loss_breaks_until_the_next_clear(void **state)
{
    (void)state;
    note(2, CLEAR, false, 1);
    note(2, NEEDS, true, 1);
    note(2, NEEDS, false, 3);
    expect(4, 0);
    note(2, CLEAR, true, 1);
    note(2, NEEDS, false, 3);
    expect(0, 4);
}

static void a_sequence_without_flags_is_left_alone_after_a_while(void **state)
{
    (void)state;
    note(2, 0, false, PFL_INTERNED_PLAIN_AFTER - 1);
    assert_false(pfl_interned_is_settled(&interned, 2));
    note(2, 0, false, 1);
    assert_true(pfl_interned_is_settled(&interned, 2));
    note(2, 0, true, 1);
    assert_true(pfl_interned_is_settled(&interned, 2));
    expect(0, 0);
}

/* A packet as a service hands it on. */
static void give(struct merge_world *w, uint32_t sequence, uint32_t flags)
{
    uint8_t packet[128];
    struct pfl_writer p = pfl_writer_of(packet, sizeof(packet));

    pfl_writer_field_varint(&p, TIMESTAMP, 12345);
    if (flags != 0)
        pfl_writer_field_varint(&p, FLAGS, flags);
    pfl_writer_field_varint(&p, 3, 1000);
    pfl_writer_field_varint(&p, SEQUENCE, sequence);
    pfl_writer_field_varint(&p, 79, 4711);
    assert_int_equal(merge_world_give(w, w->a, packet, sizeof(packet) - p.left), 0);
}

static void the_merge_counts_them_for_each_host(void **state)
{
    struct merge_world w;
    const struct pfl_merge_stats *stats;

    (void)state;
    assert_int_equal(merge_world_open(&w), 0);
    for (unsigned i = 0; i < 100; i++)
        give(&w, 5, NEEDS);
    for (unsigned i = 0; i < 100; i++)
        give(&w, 6, i == 10 ? CLEAR : NEEDS);
    for (unsigned i = 0; i < 100; i++)
        give(&w, 7, 0);
    stats = pfl_merge_get_stats(w.merge, w.a);
    assert_int_equal(stats->packets, 300);
    assert_int_equal(stats->unreadable.skipped, 100);
    assert_int_equal(stats->unreadable.recovered, 10);
    assert_int_equal(pfl_merge_get_stats(w.merge, w.b)->unreadable.skipped, 0);
    merge_world_close(&w);
}

static void a_sequence_leaves_for_the_next_file_when_it_is_cleared(void **state)
{
    (void)state;
    note(2, CLEAR, false, 1);
    note(3, CLEAR, false, 1);
    note(4, 0, false, PFL_INTERNED_PLAIN_AFTER);
    pfl_interned_cut(&interned);
    assert_int_equal(interned.leaving, 2);
    assert_true(pfl_interned_is_leaving(&interned, 2));
    assert_false(pfl_interned_is_settled(&interned, 2));
    assert_true(pfl_interned_is_settled(&interned, 4));
    note(2, NEEDS, false, 10);
    assert_true(pfl_interned_is_leaving(&interned, 2));
    note(2, CLEAR, false, 1);
    assert_true(pfl_interned_is_settled(&interned, 2));
    assert_int_equal(interned.leaving, 1);
    note(3, NEEDS, true, 1); /* a loss: what it refers to is in no file */
    assert_int_equal(interned.leaving, 0);
    assert_false(pfl_interned_is_leaving(&interned, 3));
    expect(1, 0);
}

static void what_does_not_leave_in_time_is_skipped_until_it_is_cleared(void **state)
{
    (void)state;
    note(2, CLEAR, false, 1);
    note(3, CLEAR, false, 1);
    pfl_interned_cut(&interned);
    note(2, CLEAR, false, 1);
    pfl_interned_end_cut(&interned);
    assert_int_equal(interned.leaving, 0);
    note(2, NEEDS, false, 5);
    note(3, NEEDS, false, 5);
    expect(5, 0);
    note(3, CLEAR, false, 1);
    expect(0, 5);
    pfl_interned_cut(&interned);
    assert_int_equal(interned.leaving, 2);
}

static int note_many(void *user)
{
    int rc = 0;

    (void)user;
    for (uint32_t i = 0; rc == 0 && i < 300; i++)
        rc = pfl_interned_note(&interned, i, NEEDS, false, &counts);
    pfl_interned_fini(&interned);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(note_many, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sequence_leaves_for_the_next_file_when_it_is_cleared,
                                        begin, end),
        cmocka_unit_test_setup_teardown(what_does_not_leave_in_time_is_skipped_until_it_is_cleared,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_sequence_that_begins_whole_loses_nothing, begin, end),
        cmocka_unit_test_setup_teardown(without_its_beginning_all_that_needs_it_is_skipped, begin,
                                        end),
        cmocka_unit_test_setup_teardown(what_is_cleared_later_is_distinguished, begin, end),
        cmocka_unit_test_setup_teardown(a_loss_breaks_until_the_next_clear, begin, end),
        cmocka_unit_test_setup_teardown(a_sequence_without_flags_is_left_alone_after_a_while, begin,
                                        end),
        cmocka_unit_test_setup_teardown(the_merge_counts_them_for_each_host, begin, end),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_survived, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
