/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a set of orders. */
#include "proto/order/order_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void the_same_orders_have_the_same_number_in_any_order(void **state)
{
    struct pfl_order_key a[] = {{"ann", "web", 1}, {"bob", "db", 7}, {"ann", "db", 2}};
    struct pfl_order_key b[] = {{"ann", "db", 2}, {"ann", "web", 1}, {"bob", "db", 7}};
    struct pfl_order_key c[] = {{"ann", "db", 3}, {"ann", "web", 1}, {"bob", "db", 7}};
    struct pfl_order_key generations[] = {{"ann", "web", 1}, {"ann", "web", 2}, {"ann", "web", 3}};
    uint64_t hash = pfl_order_set_hash(a, 3);

    (void)state;
    assert_true(hash == pfl_order_set_hash(b, 3));
    assert_true(hash != pfl_order_set_hash(c, 3));
    assert_true(hash != pfl_order_set_hash(b, 2));
    hash = pfl_order_set_hash(generations, 3);
    for (size_t i = 0; i < 3; i++) {
        struct pfl_order_key turned[3];

        for (size_t k = 0; k < 3; k++)
            turned[k] = (struct pfl_order_key){"ann", "web", (uint32_t)((i + k) % 3 + 1)};
        assert_true(pfl_order_set_hash(turned, 3) == hash);
        turned[0] = (struct pfl_order_key){"ann", "web", 3};
        turned[1] = (struct pfl_order_key){"ann", "web", 2};
        turned[2] = (struct pfl_order_key){"ann", "web", 1};
        assert_true(pfl_order_set_hash(turned, 3) == hash);
    }
}

/* Both ends compute it, perhaps of different versions: it may not change. */
static void the_number_is_fnv_1a_of_the_sorted_lines(void **state)
{
    struct pfl_order_key keys[] = {{"bob", "db", 10}, {"ann", "web", 1}};
    uint64_t hash = 14695981039346656037ull;
    char text[PFL_ORDER_SET_TEXT_BYTES];

    (void)state;
    for (const char *c = "ann/web/1\nbob/db/10\n"; *c != '\0'; c++)
        hash = (hash ^ (uint8_t)*c) * 1099511628211ull;
    assert_true(pfl_order_set_hash(keys, 2) == hash);
    pfl_order_set_write(pfl_order_set_hash(NULL, 0), text);
    assert_string_equal(text, "cbf29ce484222325");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_orders_have_the_same_number_in_any_order),
        cmocka_unit_test(the_number_is_fnv_1a_of_the_sorted_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
