/* SPDX-License-Identifier: Apache-2.0 */
/* States of sequences in a segment: any id, bounded in number, and without those of the last one.
 */
#include "service/session/rotation_sequences.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static void any_id_has_its_own_state(void **state)
{
    struct pfl_rotation_sequences s = {0};

    (void)state;
    assert_int_equal(pfl_rotation_sequences_get(&s, 5), 0);
    for (uint32_t i = 1; i <= 3000; i++)
        assert_int_equal(pfl_rotation_sequences_set(&s, UINT32_MAX - i * 4096, (uint8_t)i), 0);
    for (uint32_t i = 1; i <= 3000; i++)
        assert_int_equal(pfl_rotation_sequences_get(&s, UINT32_MAX - i * 4096), (uint8_t)i);
    assert_int_equal(pfl_rotation_sequences_get(&s, 5), 0);
    assert_int_equal(pfl_rotation_sequences_set(&s, UINT32_MAX - 4096, 9), 0);
    assert_int_equal(pfl_rotation_sequences_get(&s, UINT32_MAX - 4096), 9);
    assert_int_equal(s.table.used, 3000);
    pfl_rotation_sequences_fini(&s);
    pfl_sweep_assert_no_leak();
}

static void the_next_segment_has_those_that_moved(void **state)
{
    struct pfl_rotation_sequences s = {0};

    (void)state;
    for (uint32_t id = 2; id < 1002; id++)
        assert_int_equal(pfl_rotation_sequences_set(&s, id, id % 10 == 0 ? 2 : 1), 0);
    pfl_rotation_sequences_turn(&s, 2, 1);
    for (uint32_t id = 2; id < 1002; id++)
        assert_int_equal(pfl_rotation_sequences_get(&s, id), id % 10 == 0 ? 1 : 0);
    assert_int_equal(s.table.used, 100);
    assert_true(s.table.slots_len < 1024);
    pfl_rotation_sequences_turn(&s, 2, 1);
    assert_int_equal(s.table.used, 0);
    assert_null(s.table.slots);
}

static void a_segment_has_room_for_so_many_and_the_next_one_too(void **state)
{
    struct pfl_rotation_sequences s = {0};

    (void)state;
    for (uint32_t i = 0; i < PFL_ROTATION_SEQUENCES; i++)
        assert_int_equal(pfl_rotation_sequences_set(&s, 2 + i, 1), 0);
    assert_int_equal(pfl_rotation_sequences_set(&s, 1u << 30, 1), PFL_ELIMIT);
    assert_int_equal(pfl_rotation_sequences_get(&s, 1u << 30), 0);
    assert_int_equal(pfl_rotation_sequences_set(&s, 2, 2), 0); /* known ones may change */
    pfl_rotation_sequences_turn(&s, 2, 1);
    assert_int_equal(pfl_rotation_sequences_set(&s, 1u << 30, 1), 0);
    pfl_rotation_sequences_fini(&s);
}

static int turn(void *arg)
{
    struct pfl_rotation_sequences s = {0};
    int rc = 0;

    (void)arg;
    for (uint32_t id = 2; rc == 0 && id < 500; id++)
        rc = pfl_rotation_sequences_set(&s, id, id % 2 != 0 ? 2 : 1);
    if (rc == 0) {
        pfl_rotation_sequences_turn(&s, 2, 1);
        for (uint32_t id = 2; id < 500; id++)
            assert_int_equal(pfl_rotation_sequences_get(&s, id), id % 2);
    }
    pfl_rotation_sequences_fini(&s);
    return rc;
}

static void states_are_right_without_memory_for_the_next_table(void **state)
{
    (void)state;
    pfl_sweep(turn, NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_id_has_its_own_state),
        cmocka_unit_test(the_next_segment_has_those_that_moved),
        cmocka_unit_test(a_segment_has_room_for_so_many_and_the_next_one_too),
        cmocka_unit_test(states_are_right_without_memory_for_the_next_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
