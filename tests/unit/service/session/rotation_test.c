/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting a trace: which packet goes where, when a segment is due, what the disk gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "service/session/rotation.h"
#include "tests/support/sweep.h"

static const struct pfl_plan_file plan = {
    .path = {(const uint8_t *)"/d/t", 4},
    .segment_max_bytes = 1000,
    .segment_period_ms = 10,
    .max_segments = 2,
    .shorten_index_every = 3,
};
static struct pfl_rotation *rotation;

static int set_up(void **state)
{
    (void)state;
    return pfl_rotation_new(&plan, 5, &rotation);
}

static int tear_down(void **state)
{
    struct pfl_mem_stats stats;

    (void)state;
    pfl_rotation_free(rotation);
    pfl_mem_stats_get(&stats);
    assert_int_equal(stats.live_blocks, 0);
    return 0;
}

/* sequence_flags, then the trusted sequence id as the service appends it. */
static bool goes_next(uint8_t sequence, uint8_t flags)
{
    const uint8_t packet[] = {13 << 3, flags, 10 << 3, sequence};

    return pfl_rotation_goes_next(rotation, pfl_span_of(packet, sizeof(packet)));
}

static void nothing_moves_while_no_cut_is_under_way(void **state)
{
    (void)state;
    assert_false(goes_next(2, 1));
    assert_false(goes_next(1, 0));
}

static void a_sequence_moves_with_the_packet_that_clears_its_state(void **state)
{
    (void)state;
    pfl_rotation_begin_cut(rotation, 9);
    assert_false(goes_next(2, 2));
    assert_false(goes_next(3, 2));
    assert_true(goes_next(2, 3));
    assert_true(goes_next(2, 2));
    assert_false(goes_next(3, 2));
}

static void the_older_field_for_a_cleared_state_counts_and_others_do_not(void **state)
{
    static const uint8_t cleared[] = {0xc8, 0x02, 1, 10 << 3, 2}; /* field 41 */
    static const uint8_t kept[] = {0xc8, 0x02, 0, 10 << 3, 3};
    static const uint8_t timed[] = {8 << 3, 5, 10 << 3, 4};

    (void)state;
    pfl_rotation_begin_cut(rotation, 9);
    assert_true(pfl_rotation_goes_next(rotation, pfl_span_of(cleared, sizeof(cleared))));
    assert_false(pfl_rotation_goes_next(rotation, pfl_span_of(kept, sizeof(kept))));
    assert_false(pfl_rotation_goes_next(rotation, pfl_span_of(timed, sizeof(timed))));
}

static void the_services_packets_begin_the_next_segment_but_for_statistics(void **state)
{
    static const uint8_t stats[] = {10 << 3, 1, 0x9a, 0x02, 0}; /* field 35 */

    (void)state;
    pfl_rotation_begin_cut(rotation, 9);
    assert_true(goes_next(1, 0));
    assert_false(pfl_rotation_goes_next(rotation, pfl_span_of(stats, sizeof(stats))));
}

static void a_sequence_that_needs_what_came_before_is_counted(void **state)
{
    (void)state;
    assert_false(goes_next(2, 1));
    assert_int_equal(rotation->unresolved, 0);
    pfl_rotation_begin_cut(rotation, 9);
    assert_true(goes_next(2, 1));
    pfl_rotation_end_cut(rotation);
    assert_false(goes_next(2, 2)); /* moved: it was cleared */
    assert_int_equal(rotation->unresolved, 0);
    assert_false(goes_next(3, 2));
    assert_int_equal(rotation->unresolved, 1);
}

static void a_segment_is_due_by_size_or_time_and_once(void **state)
{
    (void)state;
    assert_false(pfl_rotation_is_due(rotation, 5 + 9999999));
    assert_true(pfl_rotation_is_due(rotation, 5 + 10000000));
    assert_int_equal(rotation->reason, PFL_ROTATION_BY_TIME);
    assert_false(pfl_rotation_is_due(rotation, 5 + 10000000));
    rotation->phase = PFL_ROTATION_WRITING;
    rotation->bytes = 1000;
    assert_true(pfl_rotation_is_due(rotation, 6));
    assert_int_equal(rotation->reason, PFL_ROTATION_BY_SIZE);
}

static void a_packet_in_another_shape_is_noted_once_a_sequence(void **state)
{
    static uint8_t flags[] = {13 << 3, 2}; /* STATE_NEEDED, in two slices */
    static const uint8_t tail[] = {10 << 3, 4};
    const struct iovec slices[] = {{.iov_base = flags, .iov_len = 1},
                                   {.iov_base = flags + 1, .iov_len = 1}};

    (void)state;
    pfl_rotation_note(rotation, slices, 2, (struct pfl_span){0}); /* whose is it? */
    assert_int_equal(rotation->unresolved, 0);
    pfl_rotation_note(rotation, slices, 2, pfl_span_of(tail, sizeof(tail)));
    pfl_rotation_note(rotation, slices, 2, pfl_span_of(tail, sizeof(tail)));
    assert_int_equal(rotation->unresolved, 1);
}

static void the_job_of_a_cut_fits_and_removes_the_oldest_at_its_end(void **state)
{
    static const uint8_t bytes[8];
    struct pfl_disk_job job = {0};

    (void)state;
    rotation->number = 2;
    pfl_rotation_begin_cut(rotation, 9);
    assert_int_equal(pfl_buf_append(&rotation->next, bytes, sizeof(bytes)), 0);
    pfl_rotation_add_steps(rotation, &job, pfl_span_of(bytes, sizeof(bytes)));
    rotation->losses = 4;
    rotation->lines = 2;
    pfl_rotation_add_end(
        rotation, &job,
        &(struct pfl_rotation_end){.boottime_ns = 10, .bytes = sizeof(bytes), .losses = 7});
    assert_int_equal(rotation->losses, 7);
    assert_int_equal(job.steps_len, PFL_DISK_STEPS_MAX);
    assert_int_equal(job.steps[8].kind, PFL_DISK_SHORTEN);
    assert_string_equal(job.steps[8].path, "/d/t.index");
    assert_int_equal(job.steps[8].slot, PFL_ROTATION_INDEX_SLOT);
    assert_int_equal(job.steps[1].kind, PFL_DISK_CREATE);
    assert_string_equal(job.steps[1].path, "/d/t.000003");
    assert_int_equal(job.steps[7].kind, PFL_DISK_REMOVE);
    assert_string_equal(job.steps[7].path, "/d/t.000001");
    assert_string_equal(rotation->line,
                        "{\"segment\":2,\"file\":\"t.000002\",\"bytes\":8,\"begin_ns\":5,"
                        "\"end_ns\":9,\"reason\":\"size\",\"unresolved\":0,\"losses\":3}\n");
}

static void as_many_segments_as_may_be_kept_are_kept(void **state)
{
    struct pfl_disk_job job = {0};

    (void)state;
    rotation->number = 1;
    pfl_rotation_begin_cut(rotation, 9);
    pfl_rotation_add_end(rotation, &job, &(struct pfl_rotation_end){.boottime_ns = 10});
    assert_true(job.steps_len != 0);
    for (size_t i = 0; i < job.steps_len; i++)
        assert_int_not_equal(job.steps[i].kind, PFL_DISK_REMOVE);
}

static void the_index_is_shortened_each_time_it_got_so_many_lines(void **state)
{
    unsigned shortened = 0;

    (void)state;
    for (unsigned i = 1; i <= 9; i++) {
        struct pfl_disk_job job = {0};

        pfl_rotation_begin_cut(rotation, 9);
        pfl_rotation_add_end(rotation, &job, &(struct pfl_rotation_end){.boottime_ns = 10});
        for (size_t step = 0; step < job.steps_len; step++)
            shortened += job.steps[step].kind == PFL_DISK_SHORTEN;
        assert_int_equal(shortened, i / 3);
        pfl_rotation_end_cut(rotation);
    }
}

static int make_one(void *user)
{
    struct pfl_rotation *one = NULL;
    int rc = pfl_rotation_new(&plan, 0, &one);

    (void)user;
    pfl_rotation_free(one);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(make_one, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_moves_while_no_cut_is_under_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sequence_moves_with_the_packet_that_clears_its_state,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            the_older_field_for_a_cleared_state_counts_and_others_do_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(as_many_segments_as_may_be_kept_are_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_index_is_shortened_each_time_it_got_so_many_lines,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            the_services_packets_begin_the_next_segment_but_for_statistics, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sequence_that_needs_what_came_before_is_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_segment_is_due_by_size_or_time_and_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_packet_in_another_shape_is_noted_once_a_sequence, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_job_of_a_cut_fits_and_removes_the_oldest_at_its_end,
                                        set_up, tear_down),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
