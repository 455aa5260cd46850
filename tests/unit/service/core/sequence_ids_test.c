/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of writers: one for each, never another's, shared by users, without those that are gone. */
#include "service/core/sequence_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define PRODUCER_IDS 65536u

static const struct pfl_hash_key hash_key = {{1, 2}};
static struct pfl_sequence_ids ids;

static struct pfl_trace_buffer_source writer_of(uint32_t producer, uint16_t writer)
{
    return (struct pfl_trace_buffer_source){
        .producer_id = (uint16_t)producer, .writer_id = writer, .producer_serial = producer};
}

static int get(struct pfl_sequence_ids *self, uint32_t producer, uint16_t writer, uint32_t *ret_id)
{
    const struct pfl_trace_buffer_source source = writer_of(producer, writer);

    return pfl_sequence_ids_get(self, &source, ret_id);
}

static uint32_t id_of(uint32_t producer, uint16_t writer)
{
    uint32_t id = 0;

    assert_int_equal(get(&ids, producer, writer, &id), 0);
    return id;
}

static int setup(void **state)
{
    (void)state;
    pfl_sequence_ids_init(&ids, &hash_key, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pfl_sequence_ids_fini(&ids);
    pfl_sweep_assert_no_leak();
    return 0;
}

static int give_ids(void *arg)
{
    struct pfl_sequence_ids given;
    uint32_t id = 0;
    int rc = 0;

    (void)arg;
    pfl_sequence_ids_init(&given, &hash_key, NULL);
    for (uint16_t i = 1; rc == 0 && i < 200; i++)
        rc = get(&given, 1, i, &id);
    pfl_sequence_ids_fini(&given);
    return rc;
}

static void they_count_from_two_and_stay(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(id_of(1 + (i >> 8), (uint16_t)i), i + 2);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(id_of(1 + (i >> 8), (uint16_t)i), i + 2);
    pfl_sweep(give_ids, NULL, false);
}

static void a_producer_with_the_id_of_an_earlier_one_has_ids_of_its_own(void **state)
{
    struct pfl_trace_buffer_source source = writer_of(7, 1);
    uint32_t id = 0;

    (void)state;
    assert_int_equal(id_of(7, 1), 2);
    source.producer_serial = 7 + 65535;
    assert_int_equal(pfl_sequence_ids_get(&ids, &source, &id), 0);
    assert_int_equal(id, 3);
    assert_int_equal(id_of(7, 1), 2);
}

/* Until it is refused. Returns how many it got. */
static uint32_t take_all(uint64_t who, uint32_t producer)
{
    struct pfl_trace_buffer_source source = writer_of(producer, 0);
    uint32_t count = 0;
    uint32_t id;

    source.who = who;
    while (count < 1000) {
        source.writer_id++;
        if (pfl_sequence_ids_get(&ids, &source, &id) != 0)
            break;
        count++;
    }
    return count;
}

static void a_user_has_half_of_what_is_left_and_nobody_has_anothers_id(void **state)
{
    uint32_t id = 0;
    struct pfl_trace_buffer_source source = writer_of(2, 1);

    (void)state;
    ids.numbers.max = 100;
    assert_int_equal(take_all(7, 1), 50);
    assert_int_equal(take_all(8, 2), 25);
    source.who = 8;
    assert_int_equal(pfl_sequence_ids_get(&ids, &source, &id), 0); /* what it has it keeps */
    assert_int_equal(id, 2 + 50);
    source.writer_id = 1000;
    assert_int_equal(pfl_sequence_ids_get(&ids, &source, &id), PFL_ELIMIT);
    source.who = 9;
    assert_int_equal(pfl_sequence_ids_get(&ids, &source, &id), 0);
    assert_int_equal(id, 2 + 75);
}

static void memory_is_charged_to_the_writers_users(void **state)
{
    struct pfl_shares shares = {.max = 100 * PFL_SEQUENCE_ID_BYTES};

    (void)state;
    ids.charged = &shares;
    assert_int_equal(take_all(7, 1), 50);
    assert_int_equal(take_all(8, 2), 25);
    assert_int_equal(pfl_shares_get(&shares, 8), 25 * PFL_SEQUENCE_ID_BYTES);
    assert_int_equal(pfl_sequence_ids_get_bytes(&ids), 75 * PFL_SEQUENCE_ID_BYTES);
    pfl_sequence_ids_fini(&ids);
    assert_int_equal(shares.used, 0);
    pfl_sequence_ids_init(&ids, &hash_key, NULL);
}

static void writers_that_are_gone_are_forgotten_and_their_ids_are_not_used_again(void **state)
{
    static uint32_t serials[PRODUCER_IDS];
    const struct pfl_trace_buffer_source kept = writer_of(2, 5);
    struct pfl_shares shares = {.max = 100000 * PFL_SEQUENCE_ID_BYTES};
    uint32_t last = 1;

    (void)state;
    ids.charged = &shares;
    serials[1] = 1;
    serials[2] = 2 + 65535; /* another one has that id now */
    for (uint16_t writer = 1; writer <= 500; writer++) {
        for (uint32_t producer = 1; producer <= 3; producer++)
            assert_int_equal(id_of(producer, writer), ++last);
    }
    assert_true(pfl_sequence_ids_is_due(&ids));
    pfl_sequence_ids_keep(&ids, &kept);
    pfl_sequence_ids_forget(&ids, serials, 1);
    assert_false(pfl_sequence_ids_is_due(&ids));
    assert_int_equal(ids.table.used, 501);
    assert_int_equal(shares.used, 501 * PFL_SEQUENCE_ID_BYTES);
    assert_int_equal(id_of(1, 500), 2 + 499 * 3);
    assert_int_equal(id_of(2, 5), 2 + 4 * 3 + 1);
    assert_int_equal(id_of(3, 5), ++last);
    pfl_sequence_ids_forget(&ids, NULL, 0); /* without memory none is */
    assert_int_equal(ids.table.used, 502);
    pfl_sequence_ids_fini(&ids);
    assert_int_equal(shares.used, 0);
    pfl_sequence_ids_init(&ids, &hash_key, NULL);
}

static void they_are_looked_for_after_as_many_steps_as_were_kept(void **state)
{
    static uint32_t serials[PRODUCER_IDS];
    uint32_t steps = 0;

    (void)state;
    serials[1] = 1;
    while (!pfl_sequence_ids_is_due(&ids))
        (void)id_of(1, (uint16_t)++steps);
    pfl_sequence_ids_forget(&ids, serials, 3000);
    for (uint32_t i = 0; i < steps + 3000; i++) {
        assert_false(pfl_sequence_ids_is_due(&ids));
        (void)id_of(1, (uint16_t)(steps + 1 + i));
    }
    assert_true(pfl_sequence_ids_is_due(&ids));
}

static int copy_ids(void *arg)
{
    struct pfl_sequence_ids from;
    struct pfl_sequence_ids copy;
    uint32_t id = 0;
    int rc = 0;

    (void)arg;
    pfl_sequence_ids_init(&from, &hash_key, NULL);
    pfl_sequence_ids_init(&copy, &hash_key, NULL);
    for (uint16_t writer = 1; rc == 0 && writer <= 100; writer++)
        rc = get(&from, 7, writer, &id);
    if (rc == 0)
        rc = pfl_sequence_ids_copy(&copy, &from);
    for (uint16_t writer = 1; rc == 0 && writer <= 100; writer++) {
        rc = get(&copy, 7, writer, &id);
        if (rc == 0)
            assert_int_equal(id, PFL_SEQUENCE_ID_FIRST + writer - 1);
    }
    if (rc == 0)
        rc = get(&copy, 8, 1, &id);
    if (rc == 0)
        assert_int_equal(id, PFL_SEQUENCE_ID_FIRST + 100);
    if (rc == 0)
        rc = get(&from, 9, 1, &id); /* independent of the copy */
    if (rc == 0)
        assert_int_equal(id, PFL_SEQUENCE_ID_FIRST + 100);
    pfl_sequence_ids_fini(&copy);
    pfl_sequence_ids_fini(&from);
    return rc;
}

static void a_copy_has_the_same_ids_and_then_its_own(void **state)
{
    struct pfl_sequence_ids from;

    (void)state;
    pfl_sweep(copy_ids, NULL, false);
    pfl_sequence_ids_init(&from, &hash_key, NULL);
    assert_int_equal(pfl_sequence_ids_copy(&ids, &from), 0); /* of none */
    assert_int_equal(id_of(1, 1), PFL_SEQUENCE_ID_FIRST);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(they_count_from_two_and_stay),
        T(a_producer_with_the_id_of_an_earlier_one_has_ids_of_its_own),
        T(a_user_has_half_of_what_is_left_and_nobody_has_anothers_id),
        T(memory_is_charged_to_the_writers_users),
        T(writers_that_are_gone_are_forgotten_and_their_ids_are_not_used_again),
        T(they_are_looked_for_after_as_many_steps_as_were_kept),
        T(a_copy_has_the_same_ids_and_then_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
