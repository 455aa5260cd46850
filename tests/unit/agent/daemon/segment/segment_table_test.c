/* SPDX-License-Identifier: Apache-2.0 */
/* The table of segments: sums, what a quota removes first, and gaps that merge. */
#include "agent/daemon/segment/segment_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "perfleet/segment.pb-c.h"
#include "tests/support/sweep.h"

#define RUN_A "01J00000000000000000000000"
#define RUN_B "01J00000000000000000000001"
#define RUN_C "01J00000000000000000000002"
#define MS    UINT64_C(1000000)

static const struct pfl_segment_quota no_quota;

static int add_run(struct pfl_segment_table *table, const char *id, const char *order,
                   uint64_t max_bytes, uint64_t max_age_ms)
{
    struct pfl_segment_run run = {.quota = {max_bytes, max_age_ms}};

    (void)snprintf(run.id, sizeof(run.id), "%s", id);
    (void)snprintf(run.orderer, sizeof(run.orderer), "ann");
    (void)snprintf(run.order, sizeof(run.order), "%s", order);
    return pfl_segment_table_add_run(table, &run);
}

static int add(struct pfl_segment_table *table, const char *id, uint32_t number, uint64_t bytes,
               uint64_t end_ms)
{
    struct pfl_segment_entry e = {
        .number = number, .last = number, .bytes = bytes, .end_unix_ns = end_ms * MS};

    (void)snprintf(e.id, sizeof(e.id), "%s", id);
    return pfl_segment_table_add(table, &e);
}

static void gap(struct pfl_segment_table *table, const char *id, uint32_t number)
{
    struct pfl_segment_entry planned;

    pfl_segment_table_plan_gap(table, pfl_segment_table_find(table, id, number),
                               PERFLEET__SEGMENT_GAP__WHY__QUOTA, &planned);
    assert_int_equal(pfl_segment_table_put_gap(table, &planned), 0);
}

static void sums_follow_what_is_added_and_removed(void **state)
{
    struct pfl_segment_table table;
    struct pfl_segment_sums sums;

    (void)state;
    pfl_segment_table_init(&table, &no_quota);
    assert_int_equal(add_run(&table, RUN_B, "b", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), PFL_EEXIST);
    for (uint32_t n = 1; n <= 40; n++)
        assert_int_equal(add(&table, n % 2 == 0 ? RUN_A : RUN_B, n, n, 1000 + n), 0);
    assert_int_equal(add(&table, RUN_A, 2, 9, 9), PFL_EEXIST);
    pfl_segment_table_sum(&table, NULL, NULL, &sums);
    assert_int_equal(sums.segments, 40);
    assert_int_equal(sums.bytes, 820);
    pfl_segment_table_sum(&table, "ann", "a", &sums);
    assert_int_equal(sums.segments, 20);
    assert_int_equal(sums.oldest_unix_ns, 1002 * MS);
    pfl_segment_table_remove(&table, RUN_A, 2);
    pfl_segment_table_remove(&table, RUN_A, 2);
    pfl_segment_table_sum(&table, "ann", "a", &sums);
    assert_int_equal(sums.segments, 19);
    assert_int_equal(sums.oldest_unix_ns, 1004 * MS);
    assert_null(pfl_segment_table_find(&table, RUN_A, 2));
    assert_int_equal(pfl_segment_table_find(&table, RUN_A, 4)->bytes, 4);
    pfl_segment_table_fini(&table);
}

static void the_oldest_of_the_largest_order_goes_first(void **state)
{
    struct pfl_segment_table table;
    uint8_t why;

    (void)state;
    pfl_segment_table_init(&table, &(struct pfl_segment_quota){.max_bytes = 100});
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_B, "b", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_C, "b", 0, 0), 0);
    assert_int_equal(add(&table, RUN_A, 1, 40, 1), 0);
    assert_int_equal(add(&table, RUN_B, 1, 30, 3), 0);
    assert_int_equal(add(&table, RUN_C, 1, 30, 2), 0);
    assert_null(pfl_segment_table_choose(&table, 10 * MS, false, &why));
    assert_int_equal(add(&table, RUN_A, 2, 1, 4), 0);
    assert_string_equal(pfl_segment_table_choose(&table, 10 * MS, false, &why)->id, RUN_C);
    assert_int_equal(why, PERFLEET__SEGMENT_GAP__WHY__QUOTA);
    pfl_segment_table_fini(&table);
}

static void an_orders_own_quota_and_age_count_before_that_of_all(void **state)
{
    struct pfl_segment_table table;
    struct pfl_segment_entry *chosen;
    uint8_t why;

    (void)state;
    pfl_segment_table_init(&table, &(struct pfl_segment_quota){.max_age_ms = 1000});
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_B, "b", 50, 100), 0);
    assert_int_equal(add(&table, RUN_A, 1, 4000, 1), 0);
    assert_int_equal(add(&table, RUN_B, 1, 30, 10), 0);
    assert_int_equal(add(&table, RUN_B, 2, 30, 20), 0);
    chosen = pfl_segment_table_choose(&table, 21 * MS, false, &why);
    assert_string_equal(chosen->id, RUN_B);
    assert_int_equal(chosen->number, 1);
    assert_int_equal(why, PERFLEET__SEGMENT_GAP__WHY__QUOTA);
    gap(&table, RUN_B, 1);
    assert_null(pfl_segment_table_choose(&table, 120 * MS, false, &why));
    chosen = pfl_segment_table_choose(&table, 121 * MS, false, &why);
    assert_int_equal(chosen->number, 2);
    assert_int_equal(why, PERFLEET__SEGMENT_GAP__WHY__AGE);
    gap(&table, RUN_B, 2);
    chosen = pfl_segment_table_choose(&table, 1002 * MS, false, &why);
    assert_string_equal(chosen->id, RUN_A);
    /* A clock that was put back makes nothing old. */
    assert_null(pfl_segment_table_choose(&table, 0, false, &why));
    pfl_segment_table_fini(&table);
}

static void gaps_beside_each_other_are_one(void **state)
{
    struct pfl_segment_table table;
    const struct pfl_segment_entry *e;

    (void)state;
    pfl_segment_table_init(&table, &no_quota);
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_B, "a", 0, 0), 0);
    for (uint32_t n = 1; n <= 5; n++)
        assert_int_equal(add(&table, RUN_A, n, n, n), 0);
    assert_int_equal(add(&table, RUN_B, 1, 1, 1), 0);
    gap(&table, RUN_A, 2);
    gap(&table, RUN_A, 4);
    gap(&table, RUN_B, 1);
    assert_int_equal(table.gaps, 3);
    gap(&table, RUN_A, 3);
    assert_int_equal(table.gaps, 2);
    e = pfl_segment_table_find(&table, RUN_A, 2);
    assert_true(e->is_gap);
    assert_int_equal(e->last, 4);
    assert_int_equal(e->bytes, 9);
    assert_int_equal(e->end_unix_ns, 4 * MS);
    gap(&table, RUN_A, 5);
    assert_int_equal(pfl_segment_table_find(&table, RUN_A, 2)->last, 5);
    assert_int_equal(table.bytes, 1);
    pfl_segment_table_remove(&table, RUN_A, 2);
    assert_int_equal(pfl_segment_table_find_run(&table, RUN_A)->last, 5);
    assert_int_equal(pfl_segment_table_find_run(&table, RUN_A)->count, 1);
    pfl_segment_table_fini(&table);
}

static void a_gap_over_a_clock_that_was_set_back_does_not_end_before_it_begins(void **state)
{
    struct pfl_segment_table table;
    const struct pfl_segment_entry *e;

    (void)state;
    pfl_segment_table_init(&table, &no_quota);
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
    for (uint32_t n = 1; n <= 4; n++) {
        struct pfl_segment_entry entry = {.number = n, .last = n, .bytes = 1};

        (void)snprintf(entry.id, sizeof(entry.id), "%s", RUN_A);
        entry.begin_unix_ns = n <= 2 ? 1000 + n : n;
        entry.end_unix_ns = entry.begin_unix_ns + 1;
        assert_int_equal(pfl_segment_table_add(&table, &entry), 0);
    }
    gap(&table, RUN_A, 3);
    gap(&table, RUN_A, 2);
    gap(&table, RUN_A, 1);
    gap(&table, RUN_A, 4);
    e = pfl_segment_table_find(&table, RUN_A, 1);
    assert_int_equal(e->last, 4);
    assert_int_equal(e->begin_unix_ns, 3);
    assert_int_equal(e->end_unix_ns, 1003);
    pfl_segment_table_fini(&table);
}

/* Whatever is removed in whatever order: each number is there once, as a segment or in a gap. */
static void every_number_is_there_once_whatever_becomes_a_gap(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 200; seed++) {
        struct pfl_segment_table table;
        uint32_t next = 1;
        size_t at = 0;

        srand(seed);
        pfl_segment_table_init(&table, &no_quota);
        assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
        for (uint32_t n = 1; n <= 30; n++)
            assert_int_equal(add(&table, RUN_A, n, 1, n), 0);
        for (int i = 0; i < 25; i++) {
            const struct pfl_segment_entry *e =
                pfl_segment_table_find(&table, RUN_A, (uint32_t)(rand() % 30) + 1);

            if (e != NULL && !e->is_gap)
                gap(&table, RUN_A, e->number);
        }
        for (; at < table.len; at++) {
            assert_int_equal(table.entries[at].number, next);
            assert_true(at == 0 || !table.entries[at].is_gap || !table.entries[at - 1].is_gap);
            next = table.entries[at].last + 1;
        }
        assert_int_equal(next, 31);
        pfl_segment_table_fini(&table);
    }
}

static int fill(void *arg)
{
    struct pfl_segment_table table;
    int rc;

    (void)arg;
    pfl_segment_table_init(&table, &no_quota);
    rc = add_run(&table, RUN_A, "a", 0, 0);
    for (uint32_t n = 1; rc == 0 && n < 100; n++)
        rc = add(&table, RUN_A, n, 1, n);
    pfl_segment_table_fini(&table);
    return rc;
}

static void without_memory_nothing_is_added(void **state)
{
    (void)state;
    pfl_sweep(fill, NULL, false);
}

static void ids_have_one_form(void **state)
{
    (void)state;
    assert_true(pfl_segment_is_id(RUN_A));
    assert_false(pfl_segment_is_id("01J0000000000000000000000"));
    assert_false(pfl_segment_is_id("01J000000000000000000000000"));
    assert_false(pfl_segment_is_id("01j00000000000000000000000"));
    assert_false(pfl_segment_is_id("01J0000000000000000000000/"));
    assert_false(pfl_segment_is_id("81J00000000000000000000000"));
    assert_false(pfl_segment_is_id(""));
}

static void room_is_made_by_the_order_that_has_most_segments(void **state)
{
    struct pfl_segment_entry *chosen;
    struct pfl_segment_table table;
    uint8_t reason;

    (void)state;
    pfl_segment_table_init(&table, &no_quota);
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_B, "b", 0, 0), 0);
    assert_int_equal(add(&table, RUN_B, 1, 1 << 20, 1), 0);
    for (uint32_t i = 1; i < PFL_SEGMENTS_MAX; i++)
        assert_int_equal(add(&table, RUN_A, i, 1, 2), 0);
    assert_null(pfl_segment_table_choose(&table, 1, false, &reason));
    chosen = pfl_segment_table_choose(&table, 1, true, &reason);
    assert_non_null(chosen);
    assert_string_equal(chosen->id, RUN_A);
    assert_int_equal(chosen->number, 1);
    assert_int_equal(reason, PERFLEET__SEGMENT_GAP__WHY__QUOTA);
    pfl_segment_table_fini(&table);
    pfl_sweep_assert_no_leak();
}

/* Which has no bytes has no segment that could go. */
static void an_order_of_gaps_alone_makes_no_room(void **state)
{
    struct pfl_segment_entry *chosen;
    struct pfl_segment_table table;
    uint8_t reason;

    (void)state;
    pfl_segment_table_init(&table, &no_quota);
    assert_int_equal(add_run(&table, RUN_A, "a", 0, 0), 0);
    assert_int_equal(add_run(&table, RUN_B, "b", 0, 0), 0);
    assert_int_equal(add(&table, RUN_B, 1, 1, 1), 0);
    for (uint32_t i = 1; i < PFL_SEGMENTS_MAX; i++)
        assert_int_equal(add(&table, RUN_A, i, 0, 1), 0);
    chosen = pfl_segment_table_choose(&table, 1, true, &reason);
    assert_non_null(chosen);
    assert_string_equal(chosen->id, RUN_B);
    pfl_segment_table_fini(&table);
    pfl_sweep_assert_no_leak();
}

static void the_gap_of_an_entry_that_leaves_is_there_to_stay(void **state)
{
    struct pfl_segment_table table;

    (void)state;
    pfl_segment_table_init(&table, &no_quota);
    assert_int_equal(add_run(&table, RUN_B, "b", 0, 0), 0);
    assert_int_equal(add(&table, RUN_B, 1, 10, 1), 0);
    pfl_segment_table_find(&table, RUN_B, 1)->is_leaving = true;
    gap(&table, RUN_B, 1);
    assert_true(pfl_segment_table_find(&table, RUN_B, 1)->is_gap);
    assert_false(pfl_segment_table_find(&table, RUN_B, 1)->is_leaving);
    pfl_segment_table_fini(&table);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_follow_what_is_added_and_removed),
        cmocka_unit_test(the_oldest_of_the_largest_order_goes_first),
        cmocka_unit_test(an_orders_own_quota_and_age_count_before_that_of_all),
        cmocka_unit_test(gaps_beside_each_other_are_one),
        cmocka_unit_test(a_gap_over_a_clock_that_was_set_back_does_not_end_before_it_begins),
        cmocka_unit_test(every_number_is_there_once_whatever_becomes_a_gap),
        cmocka_unit_test(without_memory_nothing_is_added),
        cmocka_unit_test(ids_have_one_form),
        cmocka_unit_test(room_is_made_by_the_order_that_has_most_segments),
        cmocka_unit_test(an_order_of_gaps_alone_makes_no_room),
        cmocka_unit_test(the_gap_of_an_entry_that_leaves_is_there_to_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
