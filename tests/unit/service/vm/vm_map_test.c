/* SPDX-License-Identifier: Apache-2.0 */
#include "service/vm/vm_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define ENTRIES 512u

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The height, or a failure where the tree is no search tree or not in balance. */
static int check_below(const struct pfl_vm_entry *at, uint64_t min, uint64_t max)
{
    int left;
    int right;

    if (at == NULL)
        return 0;
    assert_true(at->key >= min && at->key <= max);
    left = at->child[0] != NULL ? check_below(at->child[0], min, at->key - 1) : 0;
    right = at->child[1] != NULL ? check_below(at->child[1], at->key + 1, max) : 0;
    assert_in_range(left - right + 1, 0, 2);
    assert_int_equal(at->value.height, (left > right ? left : right) + 1);
    return at->value.height;
}

/* Keys are those whose entry is in; key i has entry i. */
static void expect_same(const struct pfl_vm_map *map, struct pfl_vm_entry *entries,
                        const bool *is_in)
{
    const struct pfl_vm_entry *it = pfl_vm_map_from(map, 0);
    size_t count = 0;

    (void)check_below(map->root, 0, UINT64_MAX);
    for (size_t i = 0; i < ENTRIES; i++) {
        if (!is_in[i]) {
            assert_null(pfl_vm_map_find(map, i));
            continue;
        }
        assert_ptr_equal(it, &entries[i]);
        assert_ptr_equal(pfl_vm_map_find(map, i), &entries[i]);
        it = pfl_vm_map_after(map, it);
        count++;
    }
    assert_null(it);
    assert_int_equal(map->len, count);
}

static void a_map_is_what_was_put_in_and_not_taken_out(void **state)
{
    static struct pfl_vm_entry entries[ENTRIES];
    bool is_in[ENTRIES] = {false};
    struct pfl_vm_map map = {0};
    uint64_t random = 88172645463325252u;

    (void)state;
    for (unsigned round = 0; round < 20000; round++) {
        size_t i = (size_t)(next_random(&random) % ENTRIES);
        bool puts = next_random(&random) % 100 < (round / 2000 % 2 != 0 ? 30u : 70u);

        if (puts) {
            struct pfl_vm_entry other = {.key = i};

            entries[i].key = is_in[i] ? entries[i].key : i;
            assert_true(pfl_vm_map_insert(&map, is_in[i] ? &other : &entries[i]) == !is_in[i]);
            is_in[i] = true;
        } else {
            assert_ptr_equal(pfl_vm_map_remove(&map, i), is_in[i] ? &entries[i] : NULL);
            is_in[i] = false;
        }
        if (round % 97 == 0)
            expect_same(&map, entries, is_in);
    }
    expect_same(&map, entries, is_in);
}

static void keys_that_rise_do_not_make_a_list(void **state)
{
    static struct pfl_vm_entry entries[ENTRIES];
    struct pfl_vm_map map = {0};

    (void)state;
    for (size_t i = 0; i < ENTRIES; i++) {
        entries[i].key = i;
        assert_true(pfl_vm_map_insert(&map, &entries[i]));
    }
    assert_in_range(check_below(map.root, 0, UINT64_MAX), 9, 10);
}

static void the_greatest_key_has_nothing_after_it(void **state)
{
    struct pfl_vm_entry first = {.key = 0};
    struct pfl_vm_entry last = {.key = UINT64_MAX};
    struct pfl_vm_map map = {0};

    (void)state;
    assert_null(pfl_vm_map_from(&map, 0));
    assert_true(pfl_vm_map_insert(&map, &last));
    assert_true(pfl_vm_map_insert(&map, &first));
    assert_ptr_equal(pfl_vm_map_after(&map, &first), &last);
    assert_null(pfl_vm_map_after(&map, &last));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_is_what_was_put_in_and_not_taken_out),
        cmocka_unit_test(keys_that_rise_do_not_make_a_list),
        cmocka_unit_test(the_greatest_key_has_nothing_after_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
