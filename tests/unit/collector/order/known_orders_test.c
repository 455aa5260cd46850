/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of an index, read again and again. */
#include "collector/order/known_orders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define CONTINUOUS "continuous { segment_ms: 60000 }"
#define SCHEDULE   "schedule { every_ms: 60000 duration_ms: 20000 }"

static struct pfl_known_orders *table;
static char why[PFL_ORDER_WHY_BYTES];

static int setup(void **state)
{
    (void)state;
    table = pfl_mem_zalloc(sizeof(*table));
    return table != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    pfl_known_orders_fini(table);
    pfl_mem_free(table);
    pfl_sweep_assert_no_leak();
    return 0;
}

struct row {
    const char *orderer;
    const char *name; /* in the index */
    const char *inside;
    const char *when;
    uint32_t generation;
    bool is_paused;
};

static int add(const struct row *r)
{
    struct pfl_index_order row = {
        .orderer = r->orderer, .name = r->name, .generation = r->generation};
    Perfleet__Order *order;
    struct pfl_buf bytes;
    char text[400];
    int rc;

    (void)snprintf(text, sizeof(text),
                   "name: \"%s\" select { } config { buffers { size_kb: 64 } data_sources { config "
                   "{ name: \"x\" } } } paused: true %s",
                   r->inside != NULL ? r->inside : r->name, r->when);
    rc = pfl_order_parse(pfl_span_of(text, strlen(text)), PFL_ORDER_PLAIN, &order, why);
    if (rc != 0)
        return rc;
    pfl_buf_init(&bytes, 65536);
    rc = pfl_proto_pack(&order->base, &bytes);
    pfl_proto_free(&order->base);
    row.order = pfl_buf_get(&bytes);
    row.is_paused = r->is_paused;
    if (rc == 0)
        rc = pfl_known_orders_add(table, &row, why);
    pfl_buf_fini(&bytes);
    return rc;
}

static void orders_are_found_and_only_changes_count(void **state)
{
    const struct row rows[] = {{"bob", "b", NULL, CONTINUOUS, 1, false},
                               {"ann", "z", NULL, CONTINUOUS, 1, false},
                               {"ann", "a", NULL, CONTINUOUS, 1, true}};

    (void)state;
    for (unsigned pass = 0; pass < 2; pass++) {
        pfl_known_orders_begin(table);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(add(&rows[i]), 0);
        assert_int_equal(pfl_known_orders_end(table, true), pass == 0);
    }
    assert_int_equal(table->len, 3);
    assert_true(pfl_known_orders_find(table, "ann", "a")->entry->is_paused);
    assert_false(pfl_known_orders_find(table, "ann", "z")->entry->order->paused);
    assert_null(pfl_known_orders_find(table, "ann", "b"));
}

static void an_order_that_is_not_read_again_is_gone_if_all_were_read(void **state)
{
    const struct row a = {"ann", "a", NULL, CONTINUOUS, 1, false};
    const struct row b = {"ann", "b", NULL, CONTINUOUS, 1, false};

    (void)state;
    pfl_known_orders_begin(table);
    assert_int_equal(add(&a), 0);
    assert_int_equal(add(&b), 0);
    assert_true(pfl_known_orders_end(table, true));
    pfl_known_orders_begin(table);
    assert_int_equal(add(&b), 0);
    assert_false(pfl_known_orders_end(table, false)); /* the index failed in the middle */
    assert_int_equal(table->len, 2);
    pfl_known_orders_begin(table);
    assert_int_equal(add(&b), 0);
    assert_true(pfl_known_orders_end(table, true));
    assert_int_equal(table->len, 1);
    assert_null(pfl_known_orders_find(table, "ann", "a"));
}

static void what_is_no_order_counts_as_removed(void **state)
{
    struct row row = {"ann", "a", NULL, CONTINUOUS, 1, false};
    const struct pfl_index_order broken = {"ann", "a", 3, false, pfl_span_of("\xff", 1)};

    (void)state;
    pfl_known_orders_begin(table);
    assert_int_equal(add(&row), 0);
    assert_true(pfl_known_orders_end(table, true));
    pfl_known_orders_begin(table);
    row.generation = 2;
    row.inside = "other";
    assert_int_equal(add(&row), PFL_EPARSE);
    assert_non_null(strstr(why, "another name"));
    assert_int_equal(pfl_known_orders_add(table, &broken, why), PFL_EPARSE);
    row.orderer = "../ann";
    assert_int_equal(add(&row), PFL_EPARSE);
    assert_true(pfl_known_orders_end(table, true));
    assert_int_equal(table->len, 0);
}

static void an_entry_stays_for_whom_refers_to_it(void **state)
{
    struct row row = {"ann", "a", NULL, CONTINUOUS, 1, false};
    struct pfl_known_order *entry;

    (void)state;
    pfl_known_orders_begin(table);
    assert_int_equal(add(&row), 0);
    assert_true(pfl_known_orders_end(table, true));
    entry = pfl_known_orders_find(table, "ann", "a")->entry;
    pfl_known_order_ref(entry);
    pfl_known_orders_begin(table);
    row.generation = 2;
    assert_int_equal(add(&row), 0);
    assert_true(pfl_known_orders_end(table, true));
    assert_int_equal(entry->generation, 1);
    assert_int_equal(pfl_known_orders_find(table, "ann", "a")->entry->generation, 2);
    pfl_known_order_unref(entry);
}

static void a_new_generation_keeps_the_rounds_and_one_without_a_schedule_drops_them(void **state)
{
    struct row row = {"ann", "a", NULL, SCHEDULE, 1, false};
    struct pfl_known_orders_slot *slot;

    (void)state;
    pfl_known_orders_begin(table);
    assert_int_equal(add(&row), 0);
    (void)pfl_known_orders_end(table, true);
    slot = pfl_known_orders_find(table, "ann", "a");
    assert_int_equal(slot->rounds, PFL_KNOWN_ROUNDS_UNREAD);
    assert_int_equal(pfl_known_orders_set_rounds(slot, 0, pfl_span_of(NULL, 0), 1, 1000), 0);
    for (unsigned i = 0; i < 3; i++) {
        row.generation++;
        row.when = i == 1 ? CONTINUOUS : SCHEDULE;
        pfl_known_orders_begin(table);
        assert_int_equal(add(&row), 0);
        (void)pfl_known_orders_end(table, true);
        slot = pfl_known_orders_find(table, "ann", "a");
        assert_int_equal(slot->rounds, i == 0   ? PFL_KNOWN_ROUNDS_SAVED
                                       : i == 1 ? PFL_KNOWN_ROUNDS_NONE
                                                : PFL_KNOWN_ROUNDS_UNREAD);
        assert_int_equal(slot->schedule != NULL, i == 0);
    }
}

static int sweep_body(void *arg)
{
    struct row row = {"ann", "a", NULL, SCHEDULE, 1, false};
    int rc = setup(NULL);

    (void)arg;
    if (rc != 0)
        return PFL_ENOMEM;
    pfl_known_orders_begin(table);
    rc = add(&row);
    if (rc == 0)
        rc = pfl_known_orders_set_rounds(table->slots[0], 0, pfl_span_of(NULL, 0), 1, 1000);
    row.generation = 2;
    if (rc == 0)
        rc = add(&row);
    (void)pfl_known_orders_end(table, rc == 0);
    pfl_known_orders_fini(table);
    pfl_mem_free(table);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, false);
}

#define ORDERS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ORDERS_TEST(orders_are_found_and_only_changes_count),
        ORDERS_TEST(an_order_that_is_not_read_again_is_gone_if_all_were_read),
        ORDERS_TEST(what_is_no_order_counts_as_removed),
        ORDERS_TEST(an_entry_stays_for_whom_refers_to_it),
        ORDERS_TEST(a_new_generation_keeps_the_rounds_and_one_without_a_schedule_drops_them),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
