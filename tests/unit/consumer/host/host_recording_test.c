/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a host's states: what may follow what. The states in motion: recording_test.c. */
#include "consumer/host/host_recording.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void every_state_but_the_ends_can_fail(void **state)
{
    (void)state;
    for (unsigned s = 0; s < PFL_HOST_STATES; s++)
        assert_int_equal(
            pfl_host_recording_is_move_legal((enum pfl_host_recording_state)s, PFL_HOST_CLOSING),
            s < PFL_HOST_CLOSING);
}

static void ends_are_final_and_only_reached_by_closing(void **state)
{
    (void)state;
    for (unsigned s = 0; s < PFL_HOST_STATES; s++) {
        assert_false(
            pfl_host_recording_is_move_legal(PFL_HOST_DONE, (enum pfl_host_recording_state)s));
        assert_false(
            pfl_host_recording_is_move_legal(PFL_HOST_FAILED, (enum pfl_host_recording_state)s));
        assert_int_equal(
            pfl_host_recording_is_move_legal((enum pfl_host_recording_state)s, PFL_HOST_DONE),
            s == PFL_HOST_CLOSING);
        assert_int_equal(
            pfl_host_recording_is_move_legal((enum pfl_host_recording_state)s, PFL_HOST_FAILED),
            s == PFL_HOST_CLOSING);
    }
}

static void no_state_goes_back_or_stays(void **state)
{
    (void)state;
    for (unsigned from = 0; from < PFL_HOST_STATES; from++)
        for (unsigned to = 0; to <= from; to++)
            assert_false(pfl_host_recording_is_move_legal((enum pfl_host_recording_state)from,
                                                          (enum pfl_host_recording_state)to));
}

static void every_state_is_reachable_and_has_words(void **state)
{
    unsigned reached = 1u << PFL_HOST_CONNECTING;

    (void)state;
    for (unsigned from = 0; from < PFL_HOST_STATES; from++)
        for (unsigned to = from + 1; (reached >> from & 1) != 0 && to < PFL_HOST_STATES; to++)
            if (pfl_host_recording_is_move_legal((enum pfl_host_recording_state)from,
                                                 (enum pfl_host_recording_state)to))
                reached |= 1u << to;
    assert_int_equal(reached, (1u << PFL_HOST_STATES) - 1);
    for (unsigned s = 0; s < PFL_HOST_STATES; s++)
        assert_true(strlen(pfl_host_recording_state_str((enum pfl_host_recording_state)s)) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_but_the_ends_can_fail),
        cmocka_unit_test(ends_are_final_and_only_reached_by_closing),
        cmocka_unit_test(no_state_goes_back_or_stays),
        cmocka_unit_test(every_state_is_reachable_and_has_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
