/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences by producer and writer: found until they are forgotten, and what is left of them. */
#include "service/buffer/sequence_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define MANY (PFL_SEQUENCES_MAX_EMPTY + 1u) /* the first number that is too many */
#define GONE (MANY - PFL_SEQUENCES_KEPT_EMPTY)

static struct pfl_sequence_table table;

static uint64_t key(uint32_t number)
{
    return pfl_sequence_key(0, (uint16_t)(1 + number / 7), (uint16_t)(1 + number % 7));
}

static struct pfl_sequence *add(uint32_t number)
{
    const struct pfl_trace_buffer_source source = {.producer_id = (uint16_t)(1 + number / 7),
                                                   .writer_id = (uint16_t)(1 + number % 7)};
    struct pfl_sequence *seq;

    assert_int_equal(pfl_sequence_table_add(&table, &source, &seq), 0);
    return seq;
}

static void add_many(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        add(i)->source.usage.counts[0] = i + 1;
}

static int setup(void **state)
{
    const struct pfl_hash_key hash_key = {{1, 2}};

    (void)state;
    pfl_sequence_table_init(&table, &hash_key, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_sequence_table_fini(&table);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void each_sequence_is_found_by_its_own_key(void **state)
{
    (void)state;
    assert_null(pfl_sequence_table_find(&table, key(0)));
    add_many(1000);
    assert_int_equal(table.count, 1000);
    for (uint32_t i = 0; i < 1000; i++) {
        struct pfl_sequence *seq = pfl_sequence_table_find(&table, key(i));

        assert_non_null(seq);
        assert_int_equal(seq->source.usage.counts[0], i + 1);
        assert_ptr_equal(add(i), seq);
        assert_ptr_equal(pfl_sequence_table_at(&table, seq->slot), seq);
    }
    assert_int_equal(table.count, 1000);
    assert_null(pfl_sequence_table_find(&table, key(1000)));
}

static void too_many_empty_ones_are_forgotten_oldest_first(void **state)
{
    (void)state;
    add_many(MANY - 1);
    pfl_sequence_table_trim(&table);
    assert_int_equal(table.count, MANY - 1);
    add_many(MANY);
    assert_non_null(pfl_sequence_table_find(&table, key(0))); /* found last, forgotten first */
    pfl_sequence_table_trim(&table);
    assert_int_equal(table.count, PFL_SEQUENCES_KEPT_EMPTY);
    for (uint32_t i = 0; i < MANY; i++) {
        if ((pfl_sequence_table_find(&table, key(i)) == NULL) != (i < GONE))
            fail_msg("%u of %u", i, GONE);
    }
}

static void a_sequence_with_records_is_not_forgotten(void **state)
{
    struct pfl_sequence *filled;

    (void)state;
    add_many(MANY);
    filled = pfl_sequence_table_find(&table, key(3));
    pfl_sequence_table_mark_filled(&table, filled);
    add(MANY);
    pfl_sequence_table_trim(&table);
    assert_ptr_equal(pfl_sequence_table_find(&table, key(3)), filled);
    assert_null(pfl_sequence_table_find(&table, key(2)));
    assert_null(pfl_sequence_table_find(&table, key(4)));
    pfl_sequence_table_mark_empty(&table, filled);
    assert_int_equal(table.empties_len, table.count);
}

static void a_forgotten_sequence_comes_back_with_its_usage_in_a_slot_that_was_used(void **state)
{
    uint32_t used;

    (void)state;
    add_many(MANY);
    pfl_sequence_table_trim(&table);
    used = table.slots_used;
    for (uint32_t i = 0; i < GONE; i++)
        assert_int_equal(add(i)->source.usage.counts[0], i + 1);
    assert_int_equal(table.slots_used, used);
    assert_int_equal(table.count, MANY);
    assert_int_equal(add(MANY)->source.usage.counts[0], 0);
    assert_int_equal(table.slots_used, used + 1);
}

static void
a_copy_has_the_same_sequences_in_the_same_slots_and_order_and_takes_no_others(void **state)
{
    const struct pfl_hash_key hash_key = {{1, 2}};
    const struct pfl_trace_buffer_source other = {.producer_id = 60000, .writer_id = 1};
    struct pfl_sequence_table copy;
    struct pfl_sequence *seq;

    (void)state;
    add_many(MANY);
    for (uint32_t i = 0; i < MANY; i++)
        pfl_sequence_recent_of(add(i), i)->place = 8;
    pfl_sequence_table_trim(&table);
    pfl_sequence_table_init(&copy, &hash_key, NULL);
    assert_int_equal(pfl_sequence_table_copy(&copy, &table), 0);
    assert_int_equal(copy.count, table.count);
    for (uint32_t i = 0; i < MANY; i++) {
        struct pfl_sequence *same = pfl_sequence_table_find(&copy, key(i));

        seq = pfl_sequence_table_find(&table, key(i));
        assert_true((seq == NULL) == (same == NULL));
        assert_true(seq == NULL || (same != NULL && same != seq && same->slot == seq->slot));
    }
    pfl_sequence_table_fini(&table);
    setup(NULL);
    table = copy; /* moved as bytes */
    pfl_sequence_table_settle(&table);
    assert_int_equal(pfl_sequence_table_add(&table, &other, &seq), PFL_ELIMIT);
    for (uint32_t i = GONE; i < MANY; i++) {
        seq = pfl_sequence_table_find(&table, key(i));
        assert_non_null(seq);
        assert_ptr_equal(pfl_sequence_table_at(&table, seq->slot), seq); /* each has its own */
        assert_int_equal(pfl_sequence_recent_of(seq, i)->place, 0);
    }
    seq = pfl_sequence_table_find(&table, key(GONE));
    pfl_sequence_table_mark_filled(&table, seq);
    pfl_sequence_table_mark_empty(&table, seq);
    assert_ptr_equal(table.empties.prev, &seq->empties);
    assert_int_equal(table.empties_len, table.count);
}

static int add_of(uint64_t who, uint32_t number)
{
    const struct pfl_trace_buffer_source source = {
        .producer_id = (uint16_t)who, .writer_id = (uint16_t)number, .who = who};
    struct pfl_sequence *seq;

    return pfl_sequence_table_add(&table, &source, &seq);
}

static uint32_t add_as_many_as_possible(uint64_t who)
{
    uint32_t number = 1;

    while (add_of(who, number) == 0)
        number++;
    return number - 1;
}

static void blocks_are_charged_to_the_user_whose_writer_needs_one(void **state)
{
    const struct pfl_hash_key hash_key = {{1, 2}};
    struct pfl_shares shares = {.max = 100 * PFL_SEQUENCES_BLOCK_BYTES, .owner = 1};
    struct pfl_sequence_table copy;

    (void)state;
    pfl_sequence_table_fini(&table);
    pfl_sequence_table_init(&table, &hash_key, &shares);
    assert_int_equal(add_as_many_as_possible(7), 50 * PFL_SEQUENCES_PER_BLOCK);
    assert_int_equal(add_as_many_as_possible(8), 25 * PFL_SEQUENCES_PER_BLOCK);
    assert_int_equal(add_of(7, 1), 0); /* what is there stays */
    assert_int_equal(pfl_shares_get(&shares, 7), 50 * PFL_SEQUENCES_BLOCK_BYTES);
    assert_int_equal(add_of(1, 1), 0); /* the owner has what is left */
    assert_int_equal(pfl_sequence_table_get_bytes(&table), 76 * PFL_SEQUENCES_BLOCK_BYTES);

    pfl_sequence_table_init(&copy, &hash_key, NULL); /* a clone's: the clone's owner pays */
    assert_int_equal(pfl_sequence_table_copy(&copy, &table), 0);
    pfl_sequence_table_fini(&copy);
    assert_int_equal(shares.used, 76 * PFL_SEQUENCES_BLOCK_BYTES);
    pfl_sequence_table_fini(&table);
    assert_int_equal(shares.used, 0);
}

static void forgotten_ones_give_their_slots_to_all(void **state)
{
    const struct pfl_hash_key hash_key = {{1, 2}};
    struct pfl_shares shares = {.max = 100 * PFL_SEQUENCES_BLOCK_BYTES, .owner = 1};

    (void)state;
    pfl_sequence_table_fini(&table);
    pfl_sequence_table_init(&table, &hash_key, &shares);
    assert_int_equal(add_as_many_as_possible(7), 50 * PFL_SEQUENCES_PER_BLOCK);
    pfl_sequence_table_trim(&table);
    assert_int_equal(add_of(8, 1), 0);
    assert_int_equal(pfl_shares_get(&shares, 8), 0);
    pfl_sequence_table_fini(&table);
    assert_int_equal(shares.used, 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(each_sequence_is_found_by_its_own_key),
        T(too_many_empty_ones_are_forgotten_oldest_first),
        T(a_sequence_with_records_is_not_forgotten),
        T(a_forgotten_sequence_comes_back_with_its_usage_in_a_slot_that_was_used),
        T(a_copy_has_the_same_sequences_in_the_same_slots_and_order_and_takes_no_others),
        T(blocks_are_charged_to_the_user_whose_writer_needs_one),
        T(forgotten_ones_give_their_slots_to_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
