/* SPDX-License-Identifier: Apache-2.0 */
/* The intrusive list: order, removal while walking, nodes that are in no list. */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int value;
    struct pfl_list node;
};

static void order_is_kept_and_removal_while_walking_is_legal(void **state)
{
    struct item items[6] = {0};
    struct pfl_list head, *it, *tmp;
    int sum = 0;

    (void)state;
    pfl_list_init(&head);
    assert_true(pfl_list_is_empty(&head));
    for (int i = 0; i < 6; i++) {
        items[i].value = i;
        pfl_list_append(&head, &items[i].node);
    }
    PFL_LIST_EACH_SAFE (it, tmp, &head) {
        if (PFL_CONTAINER_OF(it, struct item, node)->value % 2 == 0)
            pfl_list_remove(it);
    }
    PFL_LIST_EACH (it, &head)
        sum = sum * 10 + PFL_CONTAINER_OF(it, struct item, node)->value;
    assert_int_equal(sum, 135);
}

static void removing_twice_and_removing_what_was_never_in_is_harmless(void **state)
{
    struct item in = {0}, never = {0};
    struct pfl_list head;

    (void)state;
    pfl_list_init(&head);
    pfl_list_append(&head, &in.node);
    pfl_list_remove(&in.node);
    pfl_list_remove(&in.node);
    pfl_list_remove(&never.node);
    assert_true(pfl_list_is_empty(&head));
    pfl_list_append(&head, &in.node);
    assert_false(pfl_list_is_empty(&head));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_kept_and_removal_while_walking_is_legal),
        cmocka_unit_test(removing_twice_and_removing_what_was_never_in_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
