/* SPDX-License-Identifier: Apache-2.0 */
/* Raising triggers: which socket, and what fails before anything is asked. What a service makes of
 * it is in trigger_test.sh. */
#include "tunnel/trigger_producer_port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io/loop.h"
#include "tests/support/sweep.h"

static void the_socket_is_beside_that_of_consumers(void **state)
{
    (void)state;
    assert_string_equal(pfl_trigger_producer_socket_beside("/run/perfetto/traced-consumer.sock"),
                        "/run/perfetto/traced-producer.sock");
    assert_string_equal(pfl_trigger_producer_socket_beside("/tmp/perfetto-consumer"),
                        "/tmp/perfetto-producer");
    assert_string_equal(pfl_trigger_producer_socket_beside("@consumer"), "@producer");
    assert_string_equal(pfl_trigger_producer_socket_beside("/consumer/a-consumer-1"),
                        "/consumer/a-producer-1");
}

static void another_name_means_the_environments(void **state)
{
    (void)state;
    assert_int_equal(setenv("PERFETTO_PRODUCER_SOCK_NAME", "/a/first,/a/second", 1), 0);
    assert_string_equal(pfl_trigger_producer_default_socket(), "/a/first");
    assert_string_equal(pfl_trigger_producer_socket_beside("/a/other"), "/a/first");
    assert_int_equal(setenv("PERFETTO_PRODUCER_SOCK_NAME", "", 1), 0);
    assert_string_equal(pfl_trigger_producer_default_socket(),
                        access("/run/perfetto", X_OK) == 0 ? "/run/perfetto/traced-producer.sock"
                                                           : "/tmp/perfetto-producer");
}

static int raise_where_nobody_listens(void *arg)
{
    const struct pfl_span trigger = pfl_span_of("boom", 4);
    struct pfl_trigger_producer_conf conf = {.socket = "/nonexistent/producer.sock",
                                             .producer_name = "test",
                                             .triggers = &trigger,
                                             .triggers_len = 1};
    struct pfl_trigger_producer *port = NULL;
    int rc;

    conf.loop = arg;
    rc = pfl_trigger_producer_open(&conf, &port);
    assert_null(port);
    assert_int_not_equal(rc, 0);
    return rc == PFL_ENOMEM ? rc : 0;
}

static void nobody_there_is_an_error_and_leaves_nothing(void **state)
{
    uv_loop_t loop;

    (void)state;
    assert_int_equal(pfl_loop_init(&loop), 0);
    pfl_sweep(raise_where_nobody_listens, &loop, false);
    assert_int_equal(uv_loop_close(&loop), 0);
    pfl_sweep_assert_no_leak();
}

static void more_than_it_may_is_refused(void **state)
{
    static struct pfl_span many[PFL_TRIGGER_PRODUCER_TRIGGERS_MAX + 1];
    static char longest[PFL_TRIGGER_PRODUCER_BYTES_MAX];
    struct pfl_trigger_producer_conf conf = {.socket = "/nonexistent/producer.sock",
                                             .producer_name = "test"};
    struct pfl_span one = pfl_span_of(longest, sizeof(longest));
    struct pfl_trigger_producer *port;

    (void)state;
    for (size_t i = 0; i <= PFL_TRIGGER_PRODUCER_TRIGGERS_MAX; i++)
        many[i] = pfl_span_of("t", 1);
    conf.triggers = many;
    conf.triggers_len = PFL_TRIGGER_PRODUCER_TRIGGERS_MAX + 1;
    assert_int_equal(pfl_trigger_producer_open(&conf, &port), PFL_ELIMIT);
    conf.triggers = &one;
    conf.triggers_len = 1;
    assert_int_equal(pfl_trigger_producer_open(&conf, &port), PFL_ELIMIT);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_socket_is_beside_that_of_consumers),
        cmocka_unit_test(another_name_means_the_environments),
        cmocka_unit_test(nobody_there_is_an_error_and_leaves_nothing),
        cmocka_unit_test(more_than_it_may_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
