/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of hosts, tied by exchanges with relays. */
#include "consumer/collector/clock_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/sweep.h"

#define S 1000000000ll

struct given {
    size_t clock;
    const char *relay;
    const char *boot;
    int64_t at;
    int64_t offset;
    uint64_t error;
};

static int add(struct pfl_clock_graph *g, const struct given *t)
{
    Perfleet__ClockPoint p = PERFLEET__CLOCK_POINT__INIT;

    p.relay = (char *)t->relay;
    p.relay_boot_id = (char *)t->boot;
    p.host_boot_ns = (uint64_t)t->at;
    p.offset_ns = t->offset;
    p.error_ns = t->error;
    return pfl_clock_graph_add_point(g, t->clock, &p);
}

static struct pfl_clock_graph *make(size_t hosts)
{
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    struct pfl_clock_graph *g = NULL;
    size_t clock;

    assert_int_equal(pfl_clock_graph_new(&g), 0);
    for (size_t i = 0; i < hosts; i++) {
        assert_int_equal(pfl_clock_graph_add_host(g, names[i], "1", &clock), 0);
        assert_int_equal(clock, i);
    }
    return g;
}

static void two_hosts_of_a_relay_are_tied_through_it(void **state)
{
    struct pfl_clock_graph *g = make(3);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    assert_int_equal(add(g, &(struct given){0, "r", "1", 100 * S, 10 * S, 7}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "1", 95 * S, 5 * S, 9}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 0);
    assert_true(pfl_clock_graph_convert(g, 1, 95 * S, &ns, &error));
    assert_true(ns == 100 * S);
    assert_int_equal(error, 16);
    assert_true(pfl_clock_graph_convert(g, 0, 5, &ns, &error));
    assert_true(ns == 5 && error == 0);
    assert_false(pfl_clock_graph_convert(g, 2, 5, &ns, &error));
    pfl_clock_graph_free(g);
    pfl_sweep_assert_no_leak();
}

static void offsets_between_two_exchanges_lie_on_a_line(void **state)
{
    struct pfl_clock_graph *g = make(2);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    assert_int_equal(add(g, &(struct given){0, "r", "1", 50 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", 250 * S, 0, 1}), 0);
    /* Fast by 10 ppm; in any order, and twice. */
    assert_int_equal(add(g, &(struct given){1, "r", "1", 200 * S, 2000000, 20}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "1", 100 * S, 1000000, 10}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "1", 100 * S, 1000000, 30}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_true(pfl_clock_graph_convert(g, 1, 150 * S, &ns, &error));
    assert_true(ns == 150 * S - 1500000);
    assert_int_equal(error, 21);
    assert_true(pfl_clock_graph_convert(g, 1, 100 * S, &ns, &error));
    assert_true(ns == 100 * S - 1000000);
    /* A second after the last exchange: 100 ppm of it. */
    assert_true(pfl_clock_graph_convert(g, 1, 201 * S, &ns, &error));
    assert_true(ns == 201 * S - 2000000);
    assert_int_equal(error, 21 + 100000);
    pfl_clock_graph_free(g);
}

/* a - r1 - b - r2 - c: b was with both relays. */
static void hosts_of_different_relays_are_tied_by_one_that_was_with_both(void **state)
{
    struct pfl_clock_graph *g = make(3);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    assert_int_equal(add(g, &(struct given){0, "r1", "1", 100 * S, 1 * S, 1}), 0);
    assert_int_equal(add(g, &(struct given){1, "r1", "1", 109 * S, 10 * S, 10}), 0);
    assert_int_equal(add(g, &(struct given){1, "r2", "1", 109 * S, 30 * S, 100}), 0);
    assert_int_equal(add(g, &(struct given){2, "r2", "1", 79 * S, 0, 1000}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 0);
    assert_true(pfl_clock_graph_convert(g, 2, 79 * S, &ns, &error));
    assert_true(ns == 100 * S);
    assert_int_equal(error, 1111);
    pfl_clock_graph_free(g);
}

static void boots_are_clocks_of_their_own(void **state)
{
    struct pfl_clock_graph *g = make(2);
    size_t again;
    size_t reference;
    int64_t ns;
    int64_t error;

    (void)state;
    assert_int_equal(pfl_clock_graph_add_host(g, "a", "1", &again), 0);
    assert_int_equal(again, 0);
    assert_int_equal(pfl_clock_graph_add_host(g, "a", "2", &again), 0);
    assert_int_equal(again, 2);
    /* The relay was rebooted, too: nothing ties the two. */
    assert_int_equal(add(g, &(struct given){0, "r", "1", 100 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){2, "r", "2", 100 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "2", 100 * S, 0, 1}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 1); /* of those that most are tied with */
    assert_true(pfl_clock_graph_convert(g, 2, 5 * S, &ns, &error));
    assert_false(pfl_clock_graph_convert(g, 0, 5 * S, &ns, &error));
    pfl_clock_graph_free(g);
}

/* Another one's boot ended early: what came after it has no place on its clock. */
static void the_reference_is_known_about_as_long_as_any(void **state)
{
    struct pfl_clock_graph *g = make(3);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    assert_int_equal(add(g, &(struct given){0, "r", "1", 100 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", 150 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "1", 100 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "1", 195 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){2, "r", "1", 100 * S, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){2, "r", "1", 200 * S, 0, 1}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 1);
    assert_true(pfl_clock_graph_convert(g, 2, 190 * S, &ns, &error));
    assert_int_equal(error, 2);
    pfl_clock_graph_free(g);
}

static void what_makes_no_sense_is_left_out(void **state)
{
    struct pfl_clock_graph *g = make(1);
    size_t reference;

    (void)state;
    assert_int_equal(add(g, &(struct given){0, "", "1", 1, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", 0, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", INT64_MAX, 0, 1}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", 1, INT64_MIN, 1}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", 1, 0, UINT64_MAX}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", 1, 0, 3600 * (uint64_t)S}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), PFL_ESTATE);
    pfl_clock_graph_free(g);
}

/* Extreme claims in a chain: nothing overflows (the sanitizer looks on). */
static void extreme_offsets_do_no_harm(void **state)
{
    int64_t most = ((int64_t)1 << 61) - 1;
    struct pfl_clock_graph *g = make(4);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(add(g, &(struct given){i, "r", "1", 1, most, 3599999999999}), 0);
        assert_int_equal(add(g, &(struct given){i, "r", "1", 2, -most, 3599999999999}), 0);
        assert_int_equal(add(g, &(struct given){i, "s", "1", most, i % 2 ? most : -most, 0}), 0);
    }
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    for (size_t i = 0; i < 4; i++) {
        (void)pfl_clock_graph_convert(g, i, most, &ns, &error);
        (void)pfl_clock_graph_convert(g, i, 0, &ns, &error);
        (void)pfl_clock_graph_convert(g, i, INT64_MIN + 1, &ns, &error);
    }
    pfl_clock_graph_free(g);
}

static int tie_some(void *arg)
{
    struct pfl_clock_graph *g = NULL;
    int rc = pfl_clock_graph_new(&g);
    size_t clock;

    (void)arg;
    for (size_t i = 0; rc == 0 && i < 3; i++) {
        rc = pfl_clock_graph_add_host(g, "h", i == 0 ? "1" : i == 1 ? "2" : "3", &clock);
        for (int64_t at = 1; rc == 0 && at < 5; at++)
            rc = add(g, &(struct given){clock, "r", "1", at * S, at, 1});
    }
    if (rc == 0)
        rc = pfl_clock_graph_solve(g, &clock);
    pfl_clock_graph_free(g);
    return rc;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(tie_some, NULL, false);
}

static void a_hosts_instant_is_found_from_the_relays_by_the_offset_of_that_time(void **state)
{
    struct pfl_clock_graph *g = make(2);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    /* The reference's clock gains 1 s in 100 s on the relay's, after 1000 s. */
    assert_int_equal(add(g, &(struct given){0, "r", "1", 2000 * S, 1000 * S, 7}), 0);
    assert_int_equal(add(g, &(struct given){0, "r", "1", 2101 * S, 1001 * S, 7}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "1", 1050 * S, 0, 9}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 0);
    assert_true(pfl_clock_graph_convert(g, 1, 1050 * S, &ns, &error));
    assert_true(ns >= 2050 * S + S / 2 - S / 1000 && ns <= 2050 * S + S / 2 + S / 1000);
    pfl_clock_graph_free(g);
    pfl_sweep_assert_no_leak();
}

/* Exchanges of a minute; all clocks are the same, but for what a liar says. */
static void add_minute(struct pfl_clock_graph *g, size_t clock, const char *relay, int64_t offset)
{
    for (int64_t i = 0; i < 60; i++)
        assert_int_equal(add(g, &(struct given){clock, relay, "1", (1000 + i) * S, offset, 50000}),
                         0);
}

static int64_t place(const struct pfl_clock_graph *g, size_t clock, int64_t ns)
{
    int64_t error;
    int64_t ret_ns;

    assert_true(pfl_clock_graph_convert(g, clock, ns, &ret_ns, &error));
    return ret_ns;
}

/* Its exchanges with two relays seem to be the best way between them. */
static void a_host_that_lies_shifts_no_other(void **state)
{
    struct pfl_clock_graph *g = make(3);
    size_t reference;

    (void)state;
    add_minute(g, 0, "r1", 0);
    add_minute(g, 1, "r1", 0);
    add_minute(g, 1, "r2", 0);
    for (int64_t i = 0; i < 60; i++) {
        assert_int_equal(add(g, &(struct given){2, "r1", "1", (1000 + i) * S, 0, 0}), 0);
        assert_int_equal(add(g, &(struct given){2, "r2", "1", (1000 + i) * S, -5 * S, 0}), 0);
    }
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 0);
    assert_true(place(g, 1, 1010 * S) == 1010 * S);
    pfl_clock_graph_free(g);
}

/* b is with r2 alone: c and d, which were with both relays, outvote the liar. */
static void the_majority_places_a_relay(void **state)
{
    struct pfl_clock_graph *g = make(5);
    size_t reference;

    (void)state;
    add_minute(g, 0, "r1", 0);
    add_minute(g, 1, "r2", 0);
    add_minute(g, 2, "r1", 0);
    add_minute(g, 2, "r2", 0);
    add_minute(g, 3, "r1", 0);
    add_minute(g, 3, "r2", 0);
    for (int64_t i = 0; i < 60; i++) {
        assert_int_equal(add(g, &(struct given){4, "r1", "1", (1000 + i) * S, 0, 0}), 0);
        assert_int_equal(add(g, &(struct given){4, "r2", "1", (1000 + i) * S, -5 * S, 0}), 0);
    }
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_true(place(g, 1, 1010 * S) == 1010 * S);
    pfl_clock_graph_free(g);
}

static void a_relay_about_which_two_hosts_contradict_each_other_is_not_placed(void **state)
{
    struct pfl_clock_graph *g = make(4);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    add_minute(g, 0, "r1", 0);
    add_minute(g, 1, "r2", 0);
    add_minute(g, 2, "r1", 0);
    add_minute(g, 2, "r2", 0);
    add_minute(g, 3, "r1", 0);
    add_minute(g, 3, "r2", -5 * S);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 0);
    assert_false(pfl_clock_graph_convert(g, 1, 1010 * S, &ns, &error));
    assert_true(place(g, 2, 1010 * S) == 1010 * S);
    pfl_clock_graph_free(g);
}

/* Nor does one whose clock jumps become the timeline, or one that says it was there for ever. */
static void the_reference_is_no_host_that_only_says_so(void **state)
{
    struct pfl_clock_graph *g = make(5);
    int64_t before_ns = 0;
    size_t reference;

    (void)state;
    assert_int_equal(add(g, &(struct given){0, "r1", "1", 1 * S, 0, 0}), 0);
    for (int64_t i = 0; i < 60; i++)
        assert_int_equal(add(g, &(struct given){0, "r1", "1", (1000 + i) * S, i % 2 * 3 * S, 0}),
                         0);
    assert_int_equal(add(g, &(struct given){1, "r1", "1", 1, 0, 0}), 0);
    assert_int_equal(add(g, &(struct given){1, "r1", "1", (int64_t)1 << 60, 0, 0}), 0);
    for (size_t i = 2; i < 5; i++)
        add_minute(g, i, "r1", 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 1); /* whose clock is as good as another */
    for (int64_t i = 0; i < 600; i++) {
        int64_t ns = place(g, 3, 1000 * S + i * S / 10);

        assert_true(ns > before_ns);
        before_ns = ns;
    }
    pfl_clock_graph_free(g);
}

/* A host that names relays without end has so many, and takes no places from others. */
static void a_host_has_so_many_relays(void **state)
{
    struct pfl_clock_graph *g = make(2);
    size_t reference;
    char boot[16];

    (void)state;
    for (unsigned i = 0; i < 8 * PFL_CLOCK_GRAPH_MAX_RELAYS; i++) {
        (void)snprintf(boot, sizeof(boot), "%u", i);
        assert_int_equal(add(g, &(struct given){0, "r", boot, 100 * S, 0, 1}), 0);
    }
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 0);
    pfl_clock_graph_free(g);
}

static void a_host_has_so_many_boots(void **state)
{
    struct pfl_clock_graph *g = make(2);
    size_t clock;
    char boot[16];

    (void)state;
    for (unsigned i = 0; i < PFL_CLOCK_GRAPH_HOST_BOOTS; i++) {
        (void)snprintf(boot, sizeof(boot), "b%u", i);
        assert_int_equal(pfl_clock_graph_add_host(g, "c", boot, &clock), 0);
    }
    assert_int_equal(pfl_clock_graph_add_host(g, "c", "one more", &clock), PFL_ELIMIT);
    assert_int_equal(pfl_clock_graph_add_host(g, "c", "b7", &clock), 0);
    assert_int_equal(pfl_clock_graph_add_host(g, "d", "1", &clock), 0);
    for (unsigned i = 0; i < PFL_CLOCK_GRAPH_MAX_BOOTS - PFL_CLOCK_GRAPH_HOST_BOOTS - 3; i++) {
        (void)snprintf(boot, sizeof(boot), "h%u", i);
        assert_int_equal(pfl_clock_graph_add_host(g, boot, "1", &clock), 0);
    }
    assert_int_equal(pfl_clock_graph_add_host(g, "e", "1", &clock), PFL_ELIMIT);
    pfl_clock_graph_free(g);
}

/* Of relays and of exchanges: other hosts are placed, and none is refused. */
static void a_host_does_not_use_up_what_others_need(void **state)
{
    struct pfl_clock_graph *g = make(2);
    int64_t ns;
    int64_t error;
    size_t reference;
    char boot[16];
    size_t clock;

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(boot, sizeof(boot), "%u", i);
        assert_int_equal(pfl_clock_graph_add_host(g, "liar", boot, &clock), 0);
        for (unsigned k = 0; k < PFL_CLOCK_GRAPH_HOST_RELAYS; k++) {
            (void)snprintf(boot, sizeof(boot), "%u-%u", i, k);
            assert_int_equal(add(g, &(struct given){clock, "s", boot, 100 * S, 0, 1}), 0);
        }
    }
    for (unsigned i = 0; i < PFL_CLOCK_GRAPH_MAX_POINTS; i++)
        assert_int_equal(add(g, &(struct given){2, "s", "0-0", 100 * S + i, 0, 1}), 0);
    assert_int_equal(pfl_clock_graph_add_host(g, "c", "1", &clock), 0);
    for (unsigned i = 0; i < PFL_CLOCK_GRAPH_HOST_RELAYS; i++) {
        (void)snprintf(boot, sizeof(boot), "%u", i);
        assert_int_equal(add(g, &(struct given){0, "r", boot, 100 * S, 10 * S, 7}), 0);
        assert_int_equal(add(g, &(struct given){1, "r", boot, 95 * S, 5 * S, 9}), 0);
    }
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_int_equal(reference, 0);
    assert_true(pfl_clock_graph_convert(g, 1, 95 * S, &ns, &error));
    assert_true(ns == 100 * S);
    pfl_clock_graph_free(g);
    pfl_sweep_assert_no_leak();
}

/* Neighbouring segments share exchanges. */
static void an_exchange_that_comes_again_takes_no_room(void **state)
{
    struct pfl_clock_graph *g = make(2);
    int64_t ns;
    int64_t error;
    size_t reference;

    (void)state;
    for (unsigned i = 0; i < PFL_CLOCK_GRAPH_MAX_POINTS; i++)
        assert_int_equal(add(g, &(struct given){0, "r", "1", 100 * S, 10 * S, 7}), 0);
    assert_int_equal(add(g, &(struct given){1, "r", "1", 95 * S, 5 * S, 9}), 0);
    assert_int_equal(pfl_clock_graph_solve(g, &reference), 0);
    assert_true(pfl_clock_graph_convert(g, 1, 95 * S, &ns, &error));
    assert_true(ns == 100 * S);
    pfl_clock_graph_free(g);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_hosts_of_a_relay_are_tied_through_it),
        cmocka_unit_test(offsets_between_two_exchanges_lie_on_a_line),
        cmocka_unit_test(hosts_of_different_relays_are_tied_by_one_that_was_with_both),
        cmocka_unit_test(boots_are_clocks_of_their_own),
        cmocka_unit_test(the_reference_is_known_about_as_long_as_any),
        cmocka_unit_test(what_makes_no_sense_is_left_out),
        cmocka_unit_test(extreme_offsets_do_no_harm),
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(a_hosts_instant_is_found_from_the_relays_by_the_offset_of_that_time),
        cmocka_unit_test(a_host_that_lies_shifts_no_other),
        cmocka_unit_test(the_majority_places_a_relay),
        cmocka_unit_test(a_relay_about_which_two_hosts_contradict_each_other_is_not_placed),
        cmocka_unit_test(the_reference_is_no_host_that_only_says_so),
        cmocka_unit_test(a_host_has_so_many_relays),
        cmocka_unit_test(a_host_has_so_many_boots),
        cmocka_unit_test(a_host_does_not_use_up_what_others_need),
        cmocka_unit_test(an_exchange_that_comes_again_takes_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
