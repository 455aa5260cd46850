/* SPDX-License-Identifier: Apache-2.0 */
/* The layers below track events call them by a table, and do without one. */
#include "producer/data_source/layer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static unsigned calls[5];

static void flush_thread(void)
{
    calls[0]++;
}

static void drop_thread(void)
{
    calls[1]++;
}

static void on_turn(struct perfleet *tracing)
{
    assert_null(tracing);
    calls[2]++;
}

static void on_source_free(const struct perfleet_source *source)
{
    assert_null(source);
    calls[3]++;
}

static void on_fork(void)
{
    calls[4]++;
}

static void call_all(void)
{
    pfl_layer_flush_thread();
    pfl_layer_drop_thread();
    pfl_layer_on_turn(NULL);
    pfl_layer_on_source_free(NULL);
    pfl_layer_on_fork();
}

static void nothing_is_called_before_a_layer_is_registered(void **state)
{
    (void)state;
    call_all();
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(calls[i], 0);
}

static void each_call_reaches_the_function_of_its_name_once(void **state)
{
    static const struct pfl_layer layer = {.flush_thread = flush_thread,
                                           .drop_thread = drop_thread,
                                           .on_turn = on_turn,
                                           .on_source_free = on_source_free,
                                           .on_fork = on_fork};

    (void)state;
    pfl_layer_register(&layer);
    pfl_layer_register(&layer);
    call_all();
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(calls[i], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_called_before_a_layer_is_registered),
        cmocka_unit_test(each_call_reaches_the_function_of_its_name_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
