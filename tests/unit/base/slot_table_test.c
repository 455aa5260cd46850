/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of both sizes are found again, and others are not; copies; running out of memory. */
#include "base/slot_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define MANY 3000u

struct small {
    uint32_t key;
    uint8_t value;
};

struct large {
    uint64_t key;
    uint64_t value;
};

static const struct pfl_hash_key secret = {{0x1234567890abcdef, 0xfedcba0987654321}};

static uint64_t key_of(uint64_t i)
{
    return i << 33 | i;
}

static int fill(struct pfl_slot_table *table, unsigned count)
{
    for (unsigned i = 1; i <= count; i++) {
        int rc = pfl_slot_table_reserve(table);

        if (rc != 0)
            return rc;
        ((struct large *)pfl_slot_table_put(table, key_of(i)))->value = i;
    }
    return 0;
}

static void expect_filled(const struct pfl_slot_table *table, unsigned count)
{
    uint64_t sum = 0;
    size_t at = 0;

    assert_int_equal(table->used, count);
    for (unsigned i = 1; i <= count; i++) {
        const struct large *slot = pfl_slot_table_find(table, key_of(i));

        assert_non_null(slot);
        assert_int_equal(slot->value, i);
    }
    for (const struct large *slot; (slot = pfl_slot_table_next(table, &at)) != NULL;)
        sum += slot->value;
    assert_int_equal(sum, (uint64_t)count * (count + 1) / 2);
    assert_null(pfl_slot_table_find(table, key_of(count + 1)));
}

static void keys_are_found_again_and_the_table_is_half_full_at_most(void **state)
{
    struct pfl_slot_table table;

    (void)state;
    pfl_slot_table_init(&table, sizeof(struct large), sizeof(uint64_t), &secret);
    assert_null(pfl_slot_table_find(&table, 1));
    for (unsigned count = 0; count <= MANY; count = count * 2 + 1) {
        assert_int_equal(fill(&table, count), 0);
        expect_filled(&table, count);
        assert_true(table.used * 2 <= table.slots_len);
        assert_true(table.slots_len <= 32 || table.used * 4 >= table.slots_len);
        pfl_slot_table_fini(&table);
        pfl_slot_table_init(&table, sizeof(struct large), sizeof(uint64_t), &secret);
    }
    pfl_slot_table_fini(&table);
    pfl_sweep_assert_no_leak();
}

static void keys_of_32_bits_take_no_more_room(void **state)
{
    struct pfl_slot_table table;

    (void)state;
    pfl_slot_table_init(&table, sizeof(struct small), sizeof(uint32_t), NULL);
    for (uint32_t i = 1; i <= MANY; i++) {
        assert_int_equal(pfl_slot_table_reserve(&table), 0);
        ((struct small *)pfl_slot_table_put(&table, UINT32_MAX - i * 4096))->value = (uint8_t)i;
    }
    for (uint32_t i = 1; i <= MANY; i++) {
        const struct small *slot = pfl_slot_table_find(&table, UINT32_MAX - i * 4096);

        assert_non_null(slot);
        assert_int_equal(slot->value, (uint8_t)i);
    }
    assert_null(pfl_slot_table_find(&table, UINT32_MAX));
    pfl_slot_table_fini(&table);
}

static int copy_all(void *user)
{
    struct pfl_slot_table table;
    struct pfl_slot_table copy = {.slots = NULL};
    struct pfl_slot_table like = {.slots = NULL};
    int rc;

    (void)user;
    pfl_slot_table_init(&table, sizeof(struct large), sizeof(uint64_t), &secret);
    rc = fill(&table, 100);
    if (rc == 0)
        rc = pfl_slot_table_init_copy(&copy, &table);
    if (rc == 0)
        rc = pfl_slot_table_init_like(&like, &table, 100);
    if (rc == 0) {
        expect_filled(&copy, 100);
        assert_int_equal(like.used, 0);
        assert_int_equal(like.slots_len, 256);
        rc = fill(&like, 100);
    }
    if (rc == 0)
        expect_filled(&like, 100);
    pfl_slot_table_fini(&like);
    pfl_slot_table_fini(&copy);
    pfl_slot_table_fini(&table);
    return rc;
}

static void running_out_of_memory_leaves_a_table_as_it_was(void **state)
{
    (void)state;
    pfl_sweep(copy_all, NULL, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_found_again_and_the_table_is_half_full_at_most),
        cmocka_unit_test(keys_of_32_bits_take_no_more_room),
        cmocka_unit_test(running_out_of_memory_leaves_a_table_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
