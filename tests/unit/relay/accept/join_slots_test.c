/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection is closed when more machines join at a time than the signer has slots. */
#include "relay/accept/join_slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define SLOTS 8u

static struct pfl_join_slots slots;
static struct pfl_join_slot slot[SLOTS];

static int setup(void **state)
{
    (void)state;
    pfl_join_slots_init(&slots, 3);
    for (unsigned i = 0; i < SLOTS; i++)
        slot[i] = (struct pfl_join_slot){.is_taken = false};
    return 0;
}

static struct pfl_join_slot *connect_from(unsigned i, uint8_t address)
{
    slot[i].address[sizeof(slot[i].address) - 1] = address;
    pfl_join_slots_add(&slots, &slot[i]);
    return pfl_join_slots_take(&slots, &slot[i]);
}

static void nothing_is_closed_while_there_is_room(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_null(connect_from(i, 1));
    assert_int_equal(slots.taken, 3);
}

static void the_oldest_of_the_address_that_has_most_is_closed(void **state)
{
    (void)state;
    assert_null(connect_from(0, 1));
    assert_null(connect_from(1, 2));
    assert_null(connect_from(2, 2));
    assert_ptr_equal(connect_from(3, 3), &slot[1]);
    assert_false(slot[1].is_taken);
    assert_true(slot[3].is_taken);
    assert_int_equal(slots.taken, 3);
}

static void of_equally_many_the_oldest_is_closed(void **state)
{
    (void)state;
    for (uint8_t i = 0; i < 3; i++)
        assert_null(connect_from(i, i));
    assert_ptr_equal(connect_from(3, 9), &slot[0]);
}

/* It is removed a turn of the loop later. */
static void one_that_is_being_closed_is_not_chosen_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_null(connect_from(i, 1));
    assert_ptr_equal(connect_from(3, 2), &slot[0]);
    assert_ptr_equal(connect_from(4, 2), &slot[1]);
    pfl_join_slots_remove(&slots, &slot[0]);
    pfl_join_slots_remove(&slots, &slot[1]);
    assert_int_equal(slots.taken, 3);
}

static void one_that_has_not_reached_the_signer_has_no_slot(void **state)
{
    (void)state;
    for (unsigned i = 4; i < SLOTS; i++)
        pfl_join_slots_add(&slots, &slot[i]); /* handshakes, from the address that is all zeros */
    assert_int_equal(slots.taken, 0);
    assert_null(connect_from(0, 1));
    assert_null(connect_from(1, 1));
    assert_null(connect_from(2, 2));
    assert_ptr_equal(connect_from(3, 3), &slot[0]);
    pfl_join_slots_remove(&slots, &slot[4]);
    assert_int_equal(slots.taken, 3);
}

static void a_slot_that_is_released_is_free(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_null(connect_from(i, 1));
    pfl_join_slots_release(&slots, &slot[1]);
    pfl_join_slots_release(&slots, &slot[1]);
    assert_int_equal(slots.taken, 2);
    assert_null(connect_from(3, 1));
    pfl_join_slots_remove(&slots, &slot[2]);
    assert_int_equal(slots.taken, 2);
    assert_null(connect_from(4, 1));
    assert_ptr_equal(connect_from(5, 1), &slot[0]);
}

#define T(name) cmocka_unit_test_setup(name, setup)

static void one_that_has_no_slot_is_not_closed_for_another(void **state)
{
    (void)state;
    pfl_join_slots_add(&slots, &slot[4]); /* a handshake, older than all others */
    for (uint8_t i = 0; i < 3; i++)
        assert_null(connect_from(i, i));
    assert_ptr_equal(connect_from(3, 9), &slot[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(nothing_is_closed_while_there_is_room),
        T(the_oldest_of_the_address_that_has_most_is_closed),
        T(of_equally_many_the_oldest_is_closed),
        T(one_that_is_being_closed_is_not_chosen_again),
        T(one_that_has_not_reached_the_signer_has_no_slot),
        T(a_slot_that_is_released_is_free),
        T(one_that_has_no_slot_is_not_closed_for_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
