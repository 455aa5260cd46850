/* SPDX-License-Identifier: Apache-2.0 */
/* Work that waits for a rate: each once, in turns, and none after it has left. */
#include "relay/hub/throttle.h"

#include "tests/support/recorded.h"
#include "tests/unit/relay/hub/hub_world.h"

static struct world_peer *ann;
static struct pfl_throttled work[34];
static char order[32];

static void proceed(struct pfl_throttled *self)
{
    size_t i = (size_t)(self - work);
    size_t len = strlen(order);

    order[len] = (char)('0' + i);
    order[len + 1] = '\0';
}

static void add(size_t i)
{
    work[i].proceed = proceed;
    pfl_throttle_add(&ann->peer, &work[i]);
}

static int setup(void **state)
{
    memset(work, 0, sizeof(work));
    order[0] = '\0';
    (void)world_setup(state);
    ann = world_connect(PFL_IDENTITY_OPERATOR, "ann");
    return 0;
}

static void each_goes_on_once_and_the_first_is_the_last_of_the_next_turn(void **state)
{
    (void)state;
    add(0);
    assert_true(ann->is_paced);
    add(1);
    add(2);
    add(0); /* waits already */
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "120");
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "120");
}

/* One alone waits for the next time, and does not keep the loop busy. */
static void what_waits_again_waits_for_the_next_time(void **state)
{
    (void)state;
    add(0);
    ann->is_paced = false;
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "0");
    assert_false(ann->is_paced);
    add(0);
    assert_true(ann->is_paced);
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "00");
}

static void proceed_again(struct pfl_throttled *self)
{
    proceed(self);
    pfl_throttle_add(&ann->peer, self);
}

static void also_what_waits_again_at_once(void **state)
{
    (void)state;
    add(0);
    work[0].proceed = proceed_again;
    add(1);
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "10");
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "100");
}

static unsigned counts[34];

static void count(struct pfl_throttled *self)
{
    counts[self - work]++;
    pfl_throttle_add(&ann->peer, self);
}

/* The rest waits for other connections' turns. */
static void a_few_of_many_go_on_at_once_and_all_as_often(void **state)
{
    (void)state;
    for (size_t i = 0; i < 34; i++) {
        add(i);
        work[i].proceed = count;
    }
    for (unsigned run = 1; run <= 34; run++) {
        unsigned sum = 0;

        ann->is_paced = false;
        pfl_throttle_run(&ann->peer);
        assert_true(ann->is_paced);
        for (size_t i = 0; i < 34; i++)
            sum += counts[i];
        assert_int_equal(sum, 16 * run);
    }
    for (size_t i = 0; i < 34; i++)
        assert_int_equal(counts[i], 16);
}

static void what_has_left_does_not_go_on(void **state)
{
    (void)state;
    add(0);
    add(1);
    pfl_list_remove(&work[1].node);
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "0");
    add(1);
    pfl_peer_table_leave(&world.peers, &ann->peer);
    pfl_throttle_run(&ann->peer);
    assert_string_equal(order, "0");
}

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x7087bf9b4cb68161);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            each_goes_on_once_and_the_first_is_the_last_of_the_next_turn, setup, world_teardown),
        cmocka_unit_test_setup_teardown(what_waits_again_waits_for_the_next_time, setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(also_what_waits_again_at_once, setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_few_of_many_go_on_at_once_and_all_as_often, setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(what_has_left_does_not_go_on, setup, world_teardown),
        cmocka_unit_test(all_of_this_is_as_recorded),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
