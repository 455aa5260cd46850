/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of one host to fresh ids: stable, distinct, bounded. */
#include "consumer/merge/id_map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

static const struct pfl_hash_key key = {{0x243f6a8885a308d3u, 0x13198a2e03707344u}};

static void ten_thousand_ids_stay_stable_and_distinct(void **state)
{
    struct pfl_id_map map;
    uint32_t next = 5;
    uint32_t to;
    bool is_new;

    (void)state;
    pfl_id_map_init(&map, 1u << 20, &key);
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(pfl_id_map_get(&map, i * 64, &next, &to, &is_new), 0);
        assert_int_equal(to, 5 + i);
        assert_true(is_new);
    }
    for (uint32_t i = 0; i < 10000; i++) {
        assert_int_equal(pfl_id_map_get(&map, i * 64, &next, &to, &is_new), 0);
        assert_int_equal(to, 5 + i);
        assert_false(is_new);
    }
    pfl_id_map_fini(&map);
    pfl_sweep_assert_no_leak();
}

static void id_past_the_maximum_is_refused_and_known_ones_still_work(void **state)
{
    struct pfl_id_map map;
    uint32_t next = 1;
    uint32_t to;

    (void)state;
    pfl_id_map_init(&map, 2, &key);
    assert_int_equal(pfl_id_map_get(&map, 0, &next, &to, NULL), 0);
    assert_int_equal(pfl_id_map_get(&map, 7, &next, &to, NULL), 0);
    assert_int_equal(pfl_id_map_get(&map, 8, &next, &to, NULL), PFL_ELIMIT);
    assert_int_equal(pfl_id_map_get(&map, 0, &next, &to, NULL), 0);
    assert_int_equal(to, 1);
    pfl_id_map_fini(&map);
}

static void used_up_ids_are_refused(void **state)
{
    struct pfl_id_map map;
    uint32_t next = 0xffffffff;
    uint32_t to;

    (void)state;
    pfl_id_map_init(&map, 10, &key);
    assert_int_equal(pfl_id_map_get(&map, 1, &next, &to, NULL), 0);
    assert_int_equal(pfl_id_map_get(&map, 2, &next, &to, NULL), PFL_ELIMIT);
    pfl_id_map_fini(&map);
}

/* Slots that are taken in a row, at most. */
static size_t longest_run(const struct pfl_id_map *map)
{
    size_t longest = 0;
    size_t run = 0;

    for (size_t i = 0; i < map->capacity; i++) {
        run = map->slots[i].to != 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* A multiplication by a known number puts these into one place. */
static void ids_chosen_to_meet_do_not_meet(void **state)
{
    struct pfl_id_map map;
    uint32_t next = 1;
    uint32_t to;

    (void)state;
    pfl_id_map_init(&map, 1u << 20, &key);
    for (uint32_t i = 0; i < 49000; i++)
        assert_int_equal(pfl_id_map_get(&map, i << 16, &next, &to, NULL), 0);
    assert_in_range(longest_run(&map), 1, 1000);
    pfl_id_map_fini(&map);
}

static int fill(void *arg)
{
    struct pfl_id_map map;
    uint32_t next = 1;
    uint32_t to;
    int rc = 0;

    (void)arg;
    pfl_id_map_init(&map, 1000, &key);
    for (uint32_t i = 0; rc == 0 && i < 200; i++)
        rc = pfl_id_map_get(&map, i, &next, &to, NULL);
    pfl_id_map_fini(&map);
    return rc;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    pfl_sweep(fill, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_ids_stay_stable_and_distinct),
        cmocka_unit_test(id_past_the_maximum_is_refused_and_known_ones_still_work),
        cmocka_unit_test(used_up_ids_are_refused),
        cmocka_unit_test(ids_chosen_to_meet_do_not_meet),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
