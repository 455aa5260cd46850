/* SPDX-License-Identifier: Apache-2.0 */
/* Which host is visited next: fairness, bounds, waits. */
#include "collector/pull/host_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "collector/relay/host_map.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

static const struct pfl_hash_key key = {{3, 5}};

static struct pfl_host_queue *queue;

static int setup(void **state)
{
    (void)state;
    return pfl_host_queue_new(2, &key, &queue);
}

static int teardown(void **state)
{
    (void)state;
    pfl_host_queue_free(queue);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void set(const char *name, uint64_t segments)
{
    struct pfl_queued_host_state s = {
        .name = name, .is_connected = true, .segments = segments, .bytes = segments};

    assert_int_equal(pfl_host_queue_set(queue, &s, 0), 0);
}

static void leave(const char *name, unsigned relay)
{
    struct pfl_queued_host_state s = {.name = name, .relay = relay};

    assert_int_equal(pfl_host_queue_set(queue, &s, 0), 0);
}

static struct pfl_queued_host *take(const char *name, uint64_t now_ms)
{
    struct pfl_queued_host *host = pfl_host_queue_take(queue, now_ms);

    if (name == NULL) {
        assert_null(host);
        return NULL;
    }
    assert_non_null(host);
    assert_string_equal(pfl_queued_host_get_name(host), name);
    return host;
}

static bool is_wanted(const struct pfl_queued_host *host, uint64_t now_ms)
{
    return pfl_host_queue_is_wanted(queue, host, now_ms);
}

static void a_visit_is_wanted_while_a_host_waits_and_all_are_taken(void **state)
{
    struct pfl_queued_host *a;
    struct pfl_queued_host *b;

    (void)state;
    set("a", 1);
    set("b", 1);
    set("c", 1);
    a = take("a", 0);
    assert_false(is_wanted(a, 0)); /* there is room */
    b = take("b", 0);
    assert_true(is_wanted(a, 0));
    leave("c", 0);
    assert_false(is_wanted(b, 0));
    pfl_host_queue_give(queue, a, PFL_VISIT_LOST, 0, UINT64_MAX / 2);
    set("d", 1);
    a = take("d", 0);
    assert_false(is_wanted(a, 0));
    assert_true(is_wanted(a, PFL_HOST_QUEUE_WAIT_MAX_MS)); /* a's wait is over */
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, 0, 0);
    pfl_host_queue_give(queue, b, PFL_VISIT_DRAINED, 0, 0);
}

static void give_slow(struct pfl_queued_host *host, enum pfl_visit_end end)
{
    pfl_host_queue_set_slow(queue, host, true);
    pfl_host_queue_give(queue, host, end, 0, 0);
}

/* Of two visits they have one. */
static void slow_hosts_come_later_and_have_half_of_the_visits(void **state)
{
    struct pfl_queued_host *slow[3];
    struct pfl_queued_host *good;
    static const char *const names[] = {"s0", "s1", "s2"};

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        set(names[i], 1);
        give_slow(take(names[i], 0), PFL_VISIT_MORE);
    }
    slow[0] = take("s0", 0);
    take(NULL, 0); /* there is room, but not for another slow one */
    assert_true(is_wanted(slow[0], 0));
    set("good", 1);
    good = take("good", 0);
    assert_false(is_wanted(good, 0)); /* its visit is for no slow host */
    pfl_host_queue_give(queue, good, PFL_VISIT_MORE, 0, 0);
    good = take("good", 0); /* before s1, which waits for longer */
    assert_true(is_wanted(slow[0], 0));
    set("other", 1);
    assert_true(is_wanted(good, 0));
    give_slow(slow[0], PFL_VISIT_LOST);
    slow[1] = take("other", 0);
    take(NULL, 0);
    pfl_host_queue_give(queue, slow[1], PFL_VISIT_DRAINED, 0, 0);
    slow[1] = take("s1", 0);
    pfl_host_queue_set_slow(queue, slow[1], false); /* it is not any more */
    slow[2] = NULL;
    pfl_host_queue_give(queue, good, PFL_VISIT_DRAINED, 0, 0);
    slow[2] = take("s2", 0);
    pfl_host_queue_give(queue, slow[1], PFL_VISIT_DRAINED, 0, 0);
    pfl_host_queue_give(queue, slow[2], PFL_VISIT_DRAINED, 0, 0);
}

static int set_at(const char *name, unsigned relay)
{
    struct pfl_queued_host_state s = {
        .name = name, .relay = relay, .is_connected = true, .segments = 1, .bytes = 1};

    return pfl_host_queue_set(queue, &s, 0);
}

/* Relay 0 names as many hosts as there may be, and says that it has relay 1's, too. */
static void a_relay_that_lies_keeps_no_host_of_another_from_its_visits(void **state)
{
    struct pfl_queued_host *host;
    unsigned turns = 0;
    char name[16];

    (void)state;
    for (unsigned i = 0; i < PFL_HOST_MAP_MAX; i++) {
        (void)snprintf(name, sizeof(name), "h%u", i);
        assert_int_equal(set_at(name, 0), 0);
    }
    assert_int_equal(set_at("one-more", 0), PFL_ELIMIT);
    assert_int_equal(set_at("good", 1), 0);
    assert_int_equal(set_at("good", 0), 0);
    for (unsigned i = 0; i < 4; i++) {
        host = pfl_host_queue_take(queue, 0);
        assert_non_null(host);
        if (strcmp(pfl_queued_host_get_name(host), "good") == 0) {
            assert_int_equal(pfl_queued_host_get_turn(host), 1);
            turns++;
        }
        pfl_host_queue_give(queue, host, PFL_VISIT_MORE, 0, 0);
    }
    assert_int_equal(turns, 2);
}

static void hosts_take_turns_and_visits_are_bounded(void **state)
{
    struct pfl_queued_host *a;
    struct pfl_queued_host *b;

    (void)state;
    set("a", 1000000);
    set("b", 1);
    set("c", 1);
    set("idle", 0);
    a = take("a", 0);
    b = take("b", 0);
    take(NULL, 0);
    pfl_host_queue_give(queue, a, PFL_VISIT_MORE, 0, 0);
    pfl_host_queue_give(queue, b, PFL_VISIT_DRAINED, 0, 0);
    b = take("c", 0); /* before the one that has so much */
    a = take("a", 0);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, 0, 0);
    pfl_host_queue_give(queue, b, PFL_VISIT_DRAINED, 0, 0);
    take(NULL, 0);
}

static void while_all_visits_are_under_way_nothing_is_due(void **state)
{
    struct pfl_queued_host *a;
    struct pfl_queued_host *b;

    (void)state;
    set("a", 1);
    set("b", 1);
    set("idle", 0);
    a = take("a", 0);
    assert_int_equal(pfl_host_queue_get_next_ms(queue), PFL_HOST_QUEUE_REVISIT_MS);
    b = take("b", 0);
    assert_true(pfl_host_queue_get_next_ms(queue) == UINT64_MAX);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, 0, 0);
    assert_int_equal(pfl_host_queue_get_next_ms(queue), PFL_HOST_QUEUE_REVISIT_MS);
    pfl_host_queue_give(queue, b, PFL_VISIT_DRAINED, 0, 0);
}

static void what_changed_during_a_visit_is_visited_again(void **state)
{
    struct pfl_queued_host *a;

    (void)state;
    set("a", 3);
    a = take("a", 0);
    set("a", 1); /* one more was finished */
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, 0, 0);
    a = take("a", 0);
    set("a", 0);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, 0, 0);
    take(NULL, 0);
    set("a", 1);
    a = take("a", 0);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, 0, 0);
}

static void
a_failure_waits_longer_each_time_and_a_change_ends_only_the_wait_of_the_stuck(void **state)
{
    struct pfl_queued_host *a;
    uint64_t now_ms = 0;

    (void)state;
    set("a", 3);
    for (unsigned i = 0; i < 20; i++) {
        uint64_t before_ms = now_ms;

        a = take("a", now_ms);
        pfl_host_queue_give(queue, a, PFL_VISIT_LOST, now_ms, UINT64_MAX / 2);
        take(NULL, now_ms);
        set("a", 4 + i);
        take(NULL, now_ms);
        now_ms = pfl_host_queue_get_next_ms(queue);
        assert_in_range(now_ms - before_ms, 1, PFL_HOST_QUEUE_WAIT_MAX_MS);
    }
    a = take("a", now_ms);
    pfl_host_queue_give(queue, a, PFL_VISIT_STUCK, now_ms, UINT64_MAX / 2);
    take(NULL, now_ms);
    set("a", 99);
    a = take("a", now_ms);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, now_ms, 0);
}

static void wait_whatever_changes(enum pfl_visit_end end)
{
    struct pfl_queued_host *a;
    uint64_t now_ms = 0;

    set("a", 3);
    a = take("a", now_ms);
    pfl_host_queue_give(queue, a, end, now_ms, UINT64_MAX / 2);
    set("a", 99);
    take(NULL, now_ms);
    now_ms = pfl_host_queue_get_next_ms(queue);
    assert_in_range(now_ms, 1, PFL_HOST_QUEUE_WAIT_MAX_MS);
    a = take("a", now_ms);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, now_ms, 0);
}

static void a_host_whose_gaps_are_too_many_waits_whatever_changes(void **state)
{
    (void)state;
    wait_whatever_changes(PFL_VISIT_FULL);
}

static void a_host_of_corrupt_segments_waits_whatever_changes(void **state)
{
    (void)state;
    wait_whatever_changes(PFL_VISIT_CORRUPT);
}

static void
a_host_that_another_collector_visits_is_asked_for_again_while_it_has_segments(void **state)
{
    struct pfl_queued_host *a;
    uint64_t now_ms = 0;

    (void)state;
    set("a", 3);
    for (unsigned i = 0; i < 20; i++) { /* however often: a dead collector's host waits no longer */
        uint64_t before_ms = now_ms;

        a = take("a", now_ms);
        pfl_host_queue_give(queue, a, PFL_VISIT_LEASED, now_ms, i % 2 == 0 ? 0 : UINT64_MAX);
        take(NULL, now_ms);
        now_ms = pfl_host_queue_get_next_ms(queue);
        assert_in_range(now_ms - before_ms, PFL_HOST_QUEUE_LEASED_MS, 2 * PFL_HOST_QUEUE_LEASED_MS);
    }
    a = take("a", now_ms);
    pfl_host_queue_give(queue, a, PFL_VISIT_LEASED, now_ms, 0);
    set("a", 0); /* the other one took them */
    take(NULL, now_ms + 2 * PFL_HOST_QUEUE_LEASED_MS);
    set("a", 1);
    a = take("a", now_ms + 2 * PFL_HOST_QUEUE_LEASED_MS);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, now_ms, 0);
}

static void a_host_is_known_while_a_relay_has_it(void **state)
{
    struct pfl_queued_host_state s = {
        .name = "a", .relay = 3, .is_connected = true, .segments = 1, .bytes = 1};
    struct pfl_host_queue_figures f;
    struct pfl_queued_host *a;

    (void)state;
    set("a", 1);
    assert_int_equal(pfl_host_queue_set(queue, &s, 0), 0);
    a = take("a", 0);
    assert_int_equal(pfl_queued_host_get_relay(a, 0), 3);
    assert_int_equal(pfl_queued_host_get_relay(a, 3), 0);
    pfl_host_queue_forget_relay(queue, 0);
    assert_int_equal(pfl_queued_host_get_relay(a, 3), 3);
    leave("a", 3);
    assert_int_equal(pfl_queued_host_get_relay(a, 3), PFL_HOST_MAP_RELAYS);
    pfl_host_queue_give(queue, a, PFL_VISIT_MORE, 0, 0);
    pfl_host_queue_get_figures(queue, &f);
    assert_int_equal(f.hosts, 0);
    leave("unknown", 0);
}

static void hosts_without_reported_segments_are_asked_now_and_then(void **state)
{
    struct pfl_queued_host *a;

    (void)state;
    set("a", 0);
    take(NULL, PFL_HOST_QUEUE_REVISIT_MS - 1);
    assert_int_equal(pfl_host_queue_get_next_ms(queue), PFL_HOST_QUEUE_REVISIT_MS);
    a = take("a", PFL_HOST_QUEUE_REVISIT_MS);
    pfl_host_queue_give(queue, a, PFL_VISIT_DRAINED, PFL_HOST_QUEUE_REVISIT_MS, 0);
    take(NULL, PFL_HOST_QUEUE_REVISIT_MS);
}

static void more_hosts_than_the_table_has_and_bad_names_are_refused(void **state)
{
    struct pfl_queued_host_state s = {.is_connected = true};
    char name[16];

    (void)state;
    s.name = name;
    for (unsigned i = 0; i < PFL_HOST_MAP_MAX; i++) {
        (void)snprintf(name, sizeof(name), "h%u", i);
        assert_int_equal(pfl_host_queue_set(queue, &s, 0), 0);
    }
    s.name = "one-more";
    assert_int_equal(pfl_host_queue_set(queue, &s, 0), PFL_ELIMIT);
    s.name = "../x";
    assert_int_equal(pfl_host_queue_set(queue, &s, 0), PFL_EINVAL);
}

static void a_relay_that_is_forgotten_leaves_the_others_and_figures_are_sums(void **state)
{
    struct pfl_queued_host_state s = {
        .name = "b", .relay = 5, .is_connected = true, .segments = 30, .bytes = 400};
    struct pfl_host_queue_figures f;

    (void)state;
    set("a", 2);
    set("b", 30);
    assert_int_equal(pfl_host_queue_set(queue, &s, 0), 0);
    pfl_host_queue_get_figures(queue, &f);
    assert_int_equal(f.hosts, 2);
    assert_int_equal(f.connected, 2);
    assert_int_equal(f.segments_behind, 32);
    assert_int_equal(f.bytes_behind, 402);
    pfl_host_queue_forget_relay(queue, 0);
    pfl_host_queue_get_figures(queue, &f);
    assert_int_equal(f.connected, 1);
    pfl_host_queue_forget_relay(queue, 5);
    pfl_host_queue_get_figures(queue, &f);
    assert_int_equal(f.connected, 0);
}

static int sweep_body(void *arg)
{
    struct pfl_queued_host_state s = {.name = "a", .is_connected = true};
    struct pfl_host_queue *t;
    int rc = pfl_host_queue_new(1, &key, &t);

    (void)arg;
    if (rc != 0)
        return rc;
    rc = pfl_host_queue_set(t, &s, 0);
    pfl_host_queue_free(t);
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, false);
}

static void record_queue(uint64_t now_ms)
{
    struct pfl_host_queue_figures f;

    pfl_host_queue_get_figures(queue, &f);
    pfl_record("%llu: %u hosts, %u connected %u visited %u ready %u waiting, behind %llu %llu, "
               "next %llu",
               (unsigned long long)now_ms, f.hosts, f.connected, f.visited, f.ready, f.waiting,
               (unsigned long long)f.segments_behind, (unsigned long long)f.bytes_behind,
               (unsigned long long)pfl_host_queue_get_next_ms(queue));
}

static void report_any(uint64_t now_ms)
{
    char name[8] = "";
    struct pfl_queued_host_state s = {.name = name};

    (void)snprintf(name, sizeof(name), "h%u", (unsigned)pfl_pick(12));
    s.relay = (unsigned)pfl_pick(3);
    s.is_connected = pfl_pick(4) != 0;
    s.segments = pfl_pick(3) * pfl_pick(9);
    s.bytes = s.segments * 1000;
    assert_int_equal(pfl_host_queue_set(queue, &s, now_ms), 0);
}

/* False: it ended. */
static bool continue_visit(struct pfl_queued_host *host, uint64_t now_ms)
{
    enum pfl_visit_end end = (enum pfl_visit_end)pfl_pick(PFL_VISIT_LEASED + 1);
    uint64_t random = pfl_pick(1u << 30);

    pfl_record("%s at %u, %u, wanted %d", pfl_queued_host_get_name(host),
               pfl_queued_host_get_turn(host), pfl_queued_host_get_relay(host, 1),
               pfl_host_queue_is_wanted(queue, host, now_ms));
    if (pfl_pick(3) == 0)
        pfl_host_queue_set_slow(queue, host, pfl_pick(2) == 0);
    if (pfl_pick(2) == 0)
        return true;
    pfl_record("end %d", (int)end);
    pfl_host_queue_give(queue, host, end, now_ms, random);
    return false;
}

static void visits_of_a_random_history_are_those_that_were_recorded(void **state)
{
    struct pfl_queued_host *visits[2] = {NULL, NULL};
    uint64_t now_ms = 0;

    (void)state;
    pfl_record_begin();
    for (unsigned i = 0; i < 20000; i++) {
        now_ms += pfl_pick(20) == 0 ? pfl_pick(400000) : pfl_pick(2000);
        if (pfl_pick(200) == 0)
            pfl_host_queue_forget_relay(queue, (unsigned)pfl_pick(3));
        else if (pfl_pick(2) == 0)
            report_any(now_ms);
        for (unsigned k = 0; k < 2; k++) {
            if (visits[k] == NULL)
                visits[k] = pfl_host_queue_take(queue, now_ms);
            if (visits[k] != NULL && !continue_visit(visits[k], now_ms))
                visits[k] = NULL;
        }
        record_queue(now_ms);
    }
    for (unsigned k = 0; k < 2; k++)
        if (visits[k] != NULL)
            pfl_host_queue_give(queue, visits[k], PFL_VISIT_DRAINED, now_ms, 0);
    pfl_assert_recorded(0x53b661db00273658);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_relay_that_lies_keeps_no_host_of_another_from_its_visits,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_take_turns_and_visits_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_hosts_come_later_and_have_half_of_the_visits, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_visit_is_wanted_while_a_host_waits_and_all_are_taken,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(while_all_visits_are_under_way_nothing_is_due, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_changed_during_a_visit_is_visited_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_failure_waits_longer_each_time_and_a_change_ends_only_the_wait_of_the_stuck, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            a_host_that_another_collector_visits_is_asked_for_again_while_it_has_segments, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_host_whose_gaps_are_too_many_waits_whatever_changes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_host_of_corrupt_segments_waits_whatever_changes, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_host_is_known_while_a_relay_has_it, setup, teardown),
        cmocka_unit_test_setup_teardown(hosts_without_reported_segments_are_asked_now_and_then,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(more_hosts_than_the_table_has_and_bad_names_are_refused,
                                        setup, teardown),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test_setup_teardown(
            a_relay_that_is_forgotten_leaves_the_others_and_figures_are_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(visits_of_a_random_history_are_those_that_were_recorded,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
