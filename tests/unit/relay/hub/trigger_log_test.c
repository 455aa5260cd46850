/* SPDX-License-Identifier: Apache-2.0 */
/* Triggers to forward to hosts: each once and in order, and no host pushes out others'. */
#include "relay/hub/trigger_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool add(struct pfl_trigger_log *log, const char *session, const char *host, uint64_t ago_ms,
                uint64_t now_ms)
{
    struct pfl_trigger_log_entry r = {.operator_name = "me", .trigger = "boom", .ago_ms = ago_ms};

    (void)snprintf(r.session, sizeof(r.session), "%s", session);
    (void)snprintf(r.host, sizeof(r.host), "%s", host);
    return pfl_trigger_log_add(log, &r, now_ms);
}

static unsigned count_of(const struct pfl_trigger_log *log, const char *host, uint64_t now_ms)
{
    const struct pfl_trigger_log_entry *r;
    uint64_t number = 0;
    unsigned count = 0;

    while ((r = pfl_trigger_log_next(log, number, now_ms)) != NULL) {
        assert_true(r->number > number);
        number = r->number;
        count += host == NULL || strcmp(r->host, host) == 0;
    }
    return count;
}

static void they_are_gone_through_in_order_and_forgotten_in_time(void **state)
{
    static struct pfl_trigger_log log;
    const struct pfl_trigger_log_entry *r;

    (void)state;
    memset(&log, 0, sizeof(log));
    assert_null(pfl_trigger_log_next(&log, 0, 5));
    assert_true(add(&log, "a", "one", 0, 1000));
    assert_true(add(&log, "b", "one", 70, 2000));
    r = pfl_trigger_log_next(&log, 0, 2000);
    assert_string_equal(r->session, "a");
    r = pfl_trigger_log_next(&log, r->number, 2000);
    assert_string_equal(r->session, "b");
    assert_int_equal(pfl_trigger_log_get_ago_ms(r, 2500), 570);
    assert_null(pfl_trigger_log_next(&log, r->number, 2000));
    r = pfl_trigger_log_next(&log, 0, 1000 + PFL_TRIGGER_LOG_KEPT_MS);
    assert_string_equal(r->session, "b");
    assert_null(pfl_trigger_log_next(&log, 0, 2000 + PFL_TRIGGER_LOG_KEPT_MS));
}

static void one_that_all_hosts_raise_is_one(void **state)
{
    static struct pfl_trigger_log log;
    char host[16];

    (void)state;
    memset(&log, 0, sizeof(log));
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(host, sizeof(host), "h%u", i);
        assert_true(add(&log, "ring", host, 0, 1000 + i));
        assert_int_equal(count_of(&log, NULL, 1000 + i), 1);
    }
    assert_string_equal(pfl_trigger_log_next(&log, 0, 2000)->host, "h999");
}

/* Reported twice after a lost connection; or a host that lies about when, to keep others from
 * copying.
 */
static void what_was_raised_no_later_says_nothing_new(void **state)
{
    static struct pfl_trigger_log log;

    (void)state;
    memset(&log, 0, sizeof(log));
    assert_true(add(&log, "ring", "one", 500, 1000));
    assert_false(add(&log, "ring", "one", 1500, 2000));
    assert_false(add(&log, "ring", "two", UINT64_MAX, 2000));
    assert_int_equal(pfl_trigger_log_get_ago_ms(pfl_trigger_log_next(&log, 0, 2000), 2000), 1500);
    assert_true(add(&log, "ring", "two", 1400, 2000));
    assert_int_equal(pfl_trigger_log_get_ago_ms(pfl_trigger_log_next(&log, 0, 2000), 2000), 1400);
}

static void a_host_that_floods_pushes_out_its_own(void **state)
{
    static struct pfl_trigger_log log;
    char session[16];

    (void)state;
    memset(&log, 0, sizeof(log));
    for (unsigned i = 0; i < PFL_TRIGGER_LOG_KEPT - PFL_TRIGGER_LOG_OF_HOST; i++) {
        (void)snprintf(session, sizeof(session), "s%u", i);
        assert_true(add(&log, session, i % 2 == 0 ? "two" : "three", 0, 1000));
        if (i == 3)
            assert_true(add(&log, "eve0", "eve", 0, 1000));
    }
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(session, sizeof(session), "e%u", i);
        assert_true(add(&log, session, "eve", 0, 1000));
    }
    assert_int_equal(count_of(&log, "eve", 1000), PFL_TRIGGER_LOG_OF_HOST);
    assert_true(count_of(&log, NULL, 1000) > PFL_TRIGGER_LOG_OF_HOST);
    assert_int_equal(count_of(&log, "two", 1000) + count_of(&log, "three", 1000), 16);
}

/* Four that flood fill the log: the next one takes the place of one of theirs. */
static void hosts_that_flood_push_out_their_own(void **state)
{
    static struct pfl_trigger_log log;
    char session[16];
    char host[16];

    (void)state;
    memset(&log, 0, sizeof(log));
    assert_true(add(&log, "honest", "two", 0, 1000));
    for (unsigned i = 0; i < 5000; i++) {
        (void)snprintf(session, sizeof(session), "e%u", i);
        (void)snprintf(host, sizeof(host), "eve%u", i % 6);
        assert_true(add(&log, session, host, 0, 1000));
    }
    assert_int_equal(count_of(&log, "two", 1000), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_gone_through_in_order_and_forgotten_in_time),
        cmocka_unit_test(one_that_all_hosts_raise_is_one),
        cmocka_unit_test(what_was_raised_no_later_says_nothing_new),
        cmocka_unit_test(a_host_that_floods_pushes_out_its_own),
        cmocka_unit_test(hosts_that_flood_push_out_their_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
