/* SPDX-License-Identifier: Apache-2.0 */
/* a map of hosts: by name, in lists, due, at relays. */
#include "collector/relay/host_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

static const struct pfl_hash_key key = {{3, 5}};

static struct pfl_host_map map;
static struct pfl_host_entry entries[3];

static int set_up(void **state)
{
    static const char *const names[] = {"a", "b", "c"};

    (void)state;
    memset(entries, 0, sizeof(entries));
    pfl_host_map_init(&map, &key);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(pfl_host_map_add(&map, names[i], &entries[i]), 0);
    return 0;
}

static void a_host_is_found_by_its_name_until_it_is_removed(void **state)
{
    (void)state;
    assert_ptr_equal(pfl_host_map_find(&map, "b"), &entries[1]);
    assert_null(pfl_host_map_find(&map, "d"));
    pfl_host_map_remove(&map, &entries[1]);
    assert_null(pfl_host_map_find(&map, "b"));
    assert_ptr_equal(pfl_host_map_find(&map, "a"), &entries[0]);
    assert_int_equal(map.len, 2);
    assert_int_equal(map.counts[0], 2);
}

/* Names that a relay chose to be in one place, whatever its table is: they end in each letter that
 * makes the hash of the rest 0 modulo the number of places. */
static bool is_chosen(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name != '\0'; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return hash % PFL_HOST_MAP_BUCKETS == 0;
}

static void names_that_a_relay_chose_are_in_many_places(void **state)
{
    static struct pfl_host_map large;
    static struct pfl_host_entry many[2000];
    const struct pfl_host_entry *e;
    unsigned longest = 0;
    size_t len = 0;

    (void)state;
    pfl_host_map_init(&large, &key);
    for (unsigned i = 0; len < 2000; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "h%u", i);
        if (is_chosen(name))
            assert_int_equal(pfl_host_map_add(&large, name, &many[len++]), 0);
    }
    for (size_t i = 0; i < PFL_HOST_MAP_BUCKETS; i++) {
        unsigned chain = 0;

        for (e = large.buckets[i]; e != NULL; e = e->chain)
            chain++;
        longest = chain > longest ? chain : longest;
    }
    assert_in_range(longest, 1, 10);
    assert_ptr_equal(pfl_host_map_find(&large, many[1999].name), &many[1999]);
}

static void a_list_is_in_the_order_of_moves(void **state)
{
    (void)state;
    pfl_host_map_move(&map, &entries[2], 1);
    pfl_host_map_move(&map, &entries[0], 1);
    assert_ptr_equal(pfl_host_map_get_first(&map, 0), &entries[1]);
    assert_ptr_equal(pfl_host_map_get_first(&map, 1), &entries[2]);
    pfl_host_map_move(&map, &entries[2], 1);
    assert_ptr_equal(pfl_host_map_get_first(&map, 1), &entries[0]);
    assert_int_equal(map.counts[0], 1);
    assert_int_equal(map.counts[1], 2);
    assert_null(pfl_host_map_get_first(&map, 2));
}

static void any_host_is_given_until_the_map_is_empty(void **state)
{
    struct pfl_host_entry *entry;

    (void)state;
    pfl_host_map_move(&map, &entries[1], PFL_HOST_MAP_LISTS - 1);
    for (unsigned left = 3; left > 0; left--) {
        entry = pfl_host_map_get_any(&map);
        assert_non_null(entry);
        pfl_host_map_remove(&map, entry);
    }
    assert_null(pfl_host_map_get_any(&map));
    assert_int_equal(map.len, 0);
}

static void a_list_is_due_with_its_first_host(void **state)
{
    (void)state;
    entries[0].due_ms = 30;
    entries[1].due_ms = 10;
    entries[2].due_ms = 20;
    assert_int_equal(pfl_host_map_get_due_ms(&map, 0), 10);
    pfl_host_map_move(&map, &entries[1], 1);
    assert_int_equal(pfl_host_map_get_due_ms(&map, 0), 20);
    assert_int_equal(pfl_host_map_get_due_ms(&map, 1), 10);
    assert_int_equal(pfl_host_map_get_due_ms(&map, 2), UINT64_MAX);
}

static void relays_of_a_host_are_taken_in_a_circle(void **state)
{
    (void)state;
    assert_int_equal(pfl_host_entry_get_relay(&entries[0], 3), PFL_HOST_MAP_RELAYS);
    entries[0].relays = 1u << 0 | 1u << 5;
    assert_int_equal(pfl_host_entry_get_relay(&entries[0], 0), 5);
    assert_int_equal(pfl_host_entry_get_relay(&entries[0], 5), 0);
    assert_int_equal(pfl_host_entry_get_relay(&entries[0], PFL_HOST_MAP_RELAYS - 1), 0);
    entries[0].relays = 1u << 5;
    assert_int_equal(pfl_host_entry_get_relay(&entries[0], 5), 5);
}

static void a_name_that_no_host_has_is_refused(void **state)
{
    struct pfl_host_entry entry = {.list = 0};
    char name[PFL_IDENTITY_NAME_BYTES + 1];

    (void)state;
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(pfl_host_map_add(&map, "", &entry), PFL_EINVAL);
    assert_int_equal(pfl_host_map_add(&map, "a/b", &entry), PFL_EINVAL);
    assert_int_equal(pfl_host_map_add(&map, name, &entry), PFL_EINVAL);
    name[sizeof(name) - 2] = '\0';
    assert_int_equal(pfl_host_map_add(&map, name, &entry), 0);
    assert_ptr_equal(pfl_host_map_find(&map, name), &entry);
}

static void a_full_map_refuses_a_host_until_one_is_removed(void **state)
{
    struct pfl_host_entry *all = pfl_mem_calloc(PFL_HOST_MAP_MAX, sizeof(*all));
    struct pfl_host_entry last = {.list = 0};

    (void)state;
    assert_non_null(all);
    pfl_host_map_init(&map, &key);
    for (unsigned i = 0; i < PFL_HOST_MAP_MAX; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "h%u", i);
        assert_int_equal(pfl_host_map_add(&map, name, &all[i]), 0);
    }
    assert_int_equal(pfl_host_map_add(&map, "last", &last), PFL_ELIMIT);
    assert_null(pfl_host_map_find(&map, "last"));
    pfl_host_map_remove(&map, &all[7]);
    assert_int_equal(pfl_host_map_add(&map, "last", &last), 0);
    assert_null(pfl_host_map_find(&map, "h7"));
    assert_ptr_equal(pfl_host_map_find(&map, "h8"), &all[8]);
    pfl_mem_free(all);
}

static void relays_take_turns_in_a_list(void **state)
{
    unsigned relay = PFL_HOST_MAP_RELAYS - 1;

    (void)state;
    assert_null(pfl_host_map_get_next(&map, 0, &relay));
    pfl_host_map_set_relays(&map, &entries[0], 1u << 2);
    pfl_host_map_set_relays(&map, &entries[1], 1u << 2);
    pfl_host_map_set_relays(&map, &entries[2], 1u << 2 | 1u << 5);
    assert_ptr_equal(pfl_host_map_get_next(&map, 0, &relay), &entries[0]);
    assert_int_equal(relay, 2);
    assert_ptr_equal(pfl_host_map_get_next(&map, 0, &relay), &entries[2]);
    assert_int_equal(relay, 5);
    assert_ptr_equal(pfl_host_map_get_next(&map, 0, &relay), &entries[0]);
    assert_int_equal(relay, 2);
    pfl_host_map_remove(&map, &entries[2]);
    assert_ptr_equal(pfl_host_map_get_next(&map, 0, &relay), &entries[0]);
    assert_int_equal(relay, 2);
    assert_null(pfl_host_map_get_next(&map, 1, &relay));
}

static void of_two_relays_the_one_with_more_gives_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        pfl_host_map_set_relays(&map, &entries[i], 1u << 2);
    assert_null(pfl_host_map_find_excess(&map, 2, PFL_HOST_MAP_LISTS));
    assert_ptr_equal(pfl_host_map_find_excess(&map, 5, PFL_HOST_MAP_LISTS), &entries[2]);
    assert_null(pfl_host_map_find_excess(&map, 5, 0));             /* all are busy */
    pfl_host_map_set_relays(&map, &entries[2], 1u << 2 | 1u << 5); /* the other one has it, too */
    assert_ptr_equal(pfl_host_map_find_excess(&map, 5, PFL_HOST_MAP_LISTS), &entries[1]);
    pfl_host_map_remove(&map, &entries[1]);
    assert_null(pfl_host_map_find_excess(&map, 5, PFL_HOST_MAP_LISTS)); /* not enough more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_host_is_found_by_its_name_until_it_is_removed, set_up),
        cmocka_unit_test(names_that_a_relay_chose_are_in_many_places),
        cmocka_unit_test_setup(a_list_is_in_the_order_of_moves, set_up),
        cmocka_unit_test_setup(any_host_is_given_until_the_map_is_empty, set_up),
        cmocka_unit_test_setup(a_list_is_due_with_its_first_host, set_up),
        cmocka_unit_test_setup(relays_of_a_host_are_taken_in_a_circle, set_up),
        cmocka_unit_test_setup(relays_take_turns_in_a_list, set_up),
        cmocka_unit_test_setup(of_two_relays_the_one_with_more_gives_way, set_up),
        cmocka_unit_test_setup(a_name_that_no_host_has_is_refused, set_up),
        cmocka_unit_test_setup(a_full_map_refuses_a_host_until_one_is_removed, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
