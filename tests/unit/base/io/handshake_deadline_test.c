/* SPDX-License-Identifier: Apache-2.0 */
/* How long a TLS handshake may take, in turns of the loop after its deadline. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/io/handshake_deadline.h"

static void silent_peer_gets_one_turn(void **state)
{
    struct pfl_handshake_deadline d = {.timeout_ms = 10};

    (void)state;
    assert_true(pfl_handshake_deadline_take_grace(&d));
    assert_false(pfl_handshake_deadline_take_grace(&d));
}

static void each_turn_with_bytes_is_followed_by_another_up_to_the_maximum(void **state)
{
    struct pfl_handshake_deadline d = {.timeout_ms = 10};

    (void)state;
    for (unsigned i = 0; i < PFL_HANDSHAKE_GRACES_MAX; i++) {
        assert_true(pfl_handshake_deadline_take_grace(&d));
        assert_false(pfl_handshake_deadline_on_bytes(&d, false));
    }
    assert_false(pfl_handshake_deadline_take_grace(&d));
}

static void bytes_before_a_turn_do_not_count_for_the_next(void **state)
{
    struct pfl_handshake_deadline d = {.timeout_ms = 10};

    (void)state;
    assert_false(pfl_handshake_deadline_on_bytes(&d, false));
    assert_true(pfl_handshake_deadline_take_grace(&d));
    assert_false(pfl_handshake_deadline_take_grace(&d));
}

static void an_answer_starts_the_deadline_again_and_is_remembered(void **state)
{
    struct pfl_handshake_deadline d = {.timeout_ms = 10};

    (void)state;
    assert_false(pfl_handshake_deadline_on_bytes(&d, false));
    assert_false(d.has_answered);
    assert_true(pfl_handshake_deadline_on_bytes(&d, true));
    assert_false(pfl_handshake_deadline_on_bytes(&d, false));
    assert_true(d.has_answered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silent_peer_gets_one_turn),
        cmocka_unit_test(each_turn_with_bytes_is_followed_by_another_up_to_the_maximum),
        cmocka_unit_test(bytes_before_a_turn_do_not_count_for_the_next),
        cmocka_unit_test(an_answer_starts_the_deadline_again_and_is_remembered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
