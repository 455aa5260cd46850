/* SPDX-License-Identifier: Apache-2.0 */
/* Walks both tables: every pair of states, legal and not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "service/core/session_state.h"

/* Row by row: '1' where the move is legal. */
static const char *const session_rows[PFL_SESSION_STATES] = {"01010", "00110", "00010", "00000",
                                                             "00000"};
static const char *const instance_rows[PFL_INSTANCE_STATES] = {"01101", "00111", "00011", "00001",
                                                               "00000"};

static void a_session_moves_as_documented_and_never_back(void **state)
{
    (void)state;
    for (int from = 0; from < PFL_SESSION_STATES; from++) {
        for (int to = 0; to < PFL_SESSION_STATES; to++) {
            bool may = pfl_session_state_may_move((enum pfl_session_state)from,
                                                  (enum pfl_session_state)to);

            assert_int_equal(may, session_rows[from][to] == '1');
            assert_true(!may || to > from);
        }
    }
}

static void an_instance_moves_as_documented_and_never_back(void **state)
{
    (void)state;
    for (int from = 0; from < PFL_INSTANCE_STATES; from++) {
        for (int to = 0; to < PFL_INSTANCE_STATES; to++) {
            bool may = pfl_instance_state_may_move((enum pfl_instance_state)from,
                                                   (enum pfl_instance_state)to);

            assert_int_equal(may, instance_rows[from][to] == '1');
            assert_true(!may || to > from);
        }
    }
}

static void a_move_changes_the_state(void **state)
{
    enum pfl_session_state session = PFL_SESSION_CONFIGURED;
    enum pfl_instance_state instance = PFL_INSTANCE_CONFIGURED;

    (void)state;
    pfl_session_state_move(&session, PFL_SESSION_STARTED);
    assert_int_equal(session, PFL_SESSION_STARTED);
    pfl_instance_state_move(&instance, PFL_INSTANCE_STOPPED);
    assert_int_equal(instance, PFL_INSTANCE_STOPPED);
}

static void every_session_state_has_its_name(void **state)
{
    static const char *const names[] = {"CONFIGURED", "STARTED", "STOP_WAIT", "DISABLED",
                                        "CLONED_READ_ONLY"};

    (void)state;
    for (int i = 0; i < PFL_SESSION_STATES; i++)
        assert_string_equal(pfl_session_state_str((enum pfl_session_state)i), names[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_moves_as_documented_and_never_back),
        cmocka_unit_test(an_instance_moves_as_documented_and_never_back),
        cmocka_unit_test(a_move_changes_the_state),
        cmocka_unit_test(every_session_state_has_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
