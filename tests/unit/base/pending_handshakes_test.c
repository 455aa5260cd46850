/* SPDX-License-Identifier: Apache-2.0 */
/* Unfinished handshakes: whose turn it is, and which one is closed for which. */
#include "base/pending_handshakes.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/recorded.h"

#define MAX     150u
#define MANY    20000u
#define STEP_US 3500u /* the first step of a handshake, and the last */
#define LATER   1000000u

static struct pfl_pending_handshakes *all;
static struct pfl_pending_handshake entries[MANY];
static uint64_t now_ms;
static unsigned next_identity;

static void open_all(unsigned max, unsigned per_min)
{
    struct pfl_pending_handshakes_conf conf = {.max = max, .per_min = per_min, .seed = 7};

    assert_int_equal(pfl_pending_handshakes_new(&conf, now_ms, &all), 0);
}

static int setup(void **state)
{
    (void)state;
    memset(entries, 0, sizeof(entries));
    now_ms = 1000;
    open_all(MAX, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < MANY; i++)
        pfl_pending_handshakes_remove(all, &entries[i]);
    pfl_pending_handshakes_free(all);
    return 0;
}

static struct sockaddr_storage address(const char *text)
{
    struct sockaddr_storage ss = {0};
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        memcpy(&ss, &in, sizeof(in));
    } else {
        assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
        memcpy(&ss, &in6, sizeof(in6));
    }
    return ss;
}

static int try_add(unsigned i, const char *text, struct pfl_pending_handshake **ret_goes)
{
    struct sockaddr_storage peer = address(text);

    *ret_goes = NULL;
    return pfl_pending_handshakes_add(all, &entries[i], &peer, now_ms, ret_goes);
}

static struct pfl_pending_handshake *add(unsigned i, const char *text)
{
    struct pfl_pending_handshake *goes;

    assert_int_equal(try_add(i, text, &goes), 0);
    return goes;
}

static struct pfl_pending_handshakes_figures figures(void)
{
    struct pfl_pending_handshakes_figures f;

    pfl_pending_handshakes_get_figures(all, &f);
    return f;
}

/* True: the step was made at once. */
static bool step(unsigned i)
{
    if (!pfl_pending_handshakes_try_step(all, &entries[i], now_ms))
        return false;
    pfl_pending_handshakes_charge(all, &entries[i], STEP_US, now_ms);
    return true;
}

/* Whose turn it is makes a step; NULL: nobody's. */
static struct pfl_pending_handshake *turn(void)
{
    struct pfl_pending_handshake *h = pfl_pending_handshakes_next(all, now_ms);

    if (h != NULL)
        pfl_pending_handshakes_charge(all, h, STEP_US, now_ms);
    return h;
}

/* By a holder of another certificate each. */
static void prove(struct pfl_pending_handshake *h)
{
    char identity[32];

    (void)snprintf(identity, sizeof(identity), "host-%u", next_identity++);
    assert_true(pfl_pending_handshakes_finish(all, h, identity, now_ms));
}

/* A handshake that is finished as soon as it may. */
static bool finish(unsigned i, const char *text)
{
    (void)add(i, text);
    if (!step(i) || !step(i))
        return false;
    prove(&entries[i]);
    return true;
}

/* Strangers at `addresses` use up what there is, from entry `from` on; they close all of it. */
static unsigned use_up(unsigned from, unsigned addresses)
{
    char text[32];
    unsigned steps = 0;

    for (unsigned round = 0; round < 300; round++) {
        for (unsigned n = 0; n < addresses; n++) {
            struct pfl_pending_handshake *goes;

            (void)snprintf(text, sizeof(text), "10.1.%u.%u", n / 200, n % 200 + 1);
            if (try_add(from, text, &goes) != 0)
                continue;
            steps += step(from);
            pfl_pending_handshakes_remove(all, &entries[from]);
        }
    }
    return steps;
}

/* ---- which one is closed ---- */

static void the_oldest_of_the_same_peer_gives_way(void **state)
{
    (void)state;
    assert_null(add(MANY - 1, "10.0.0.2"));
    for (unsigned i = 0; i < PFL_PENDING_HANDSHAKES_PER_PEER; i++)
        assert_null(add(i, "10.0.0.1"));
    assert_ptr_equal(add(MAX, "10.0.0.1"), &entries[0]);
    assert_ptr_equal(add(MAX + 1, "::ffff:10.0.0.1"), &entries[1]); /* the same peer */
    assert_null(add(MAX + 2, "10.0.0.2"));
    assert_int_equal(figures().unfinished, PFL_PENDING_HANDSHAKES_PER_PEER + 2);
    assert_int_equal(figures().ousted, 2);
}

static void a_network_of_ipv6_is_one_peer(void **state)
{
    (void)state;
    for (unsigned i = 0; i < PFL_PENDING_HANDSHAKES_PER_PEER; i++)
        assert_null(add(i, i % 2 == 0 ? "2001:db8::1" : "2001:db8:0:ff::ffff:2"));
    assert_ptr_equal(add(MAX, "2001:db8::3"), &entries[0]);
    assert_null(add(MAX + 1, "2001:db8:0:100::3"));
}

static void over_all_peers_one_of_who_has_most_gives_way(void **state)
{
    char text[32];

    (void)state;
    assert_null(add(MANY - 1, "10.9.9.8")); /* the oldest */
    for (unsigned i = 0; i < MAX - 1; i++) {
        (void)snprintf(text, sizeof(text), "10.0.0.%u", i % 8);
        assert_null(add(i, text));
    }
    assert_ptr_equal(add(MAX, "10.9.9.9"), &entries[0]);
    assert_int_equal(figures().unfinished, MAX);
}

static void of_who_has_one_each_the_oldest_stranger_gives_way(void **state)
{
    char text[32];

    (void)state;
    assert_true(finish(MANY - 2, "10.9.9.8"));
    assert_null(add(MANY - 1, "10.9.9.8")); /* the oldest, and proven */
    for (unsigned i = 0; i < MAX - 1; i++) {
        (void)snprintf(text, sizeof(text), "10.0.%u.%u", i / 100, i % 100);
        assert_null(add(i, text));
    }
    assert_ptr_equal(add(MAX, "10.9.9.9"), &entries[0]);
}

static void who_is_done_is_not_counted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MAX * 2; i++) {
        assert_null(add(i, "10.0.0.1"));
        pfl_pending_handshakes_remove(all, &entries[i]);
        pfl_pending_handshakes_remove(all, &entries[i]);
    }
    assert_int_equal(figures().unfinished, 0);
}

static void a_peer_may_begin_so_many_a_minute(void **state)
{
    struct pfl_pending_handshake *goes;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        (void)add(i, "10.0.0.1");
    (void)teardown(NULL);
    memset(entries, 0, sizeof(entries));
    now_ms = 100;
    open_all(MAX, 6);
    for (unsigned i = 0; i < 6; i++)
        assert_null(add(i, "10.0.0.1"));
    assert_int_equal(try_add(6, "10.0.0.1", &goes), PFL_ELIMIT);
    assert_null(add(7, "10.0.0.2"));
    now_ms = 10099;
    assert_int_equal(try_add(8, "10.0.0.1", &goes), PFL_ELIMIT);
    now_ms = 10100;
    assert_null(add(9, "10.0.0.1"));
    assert_int_equal(figures().refused, 2);
}

/* ---- whose turn it is ---- */

static void a_flood_gets_its_share_and_no_more(void **state)
{
    uint64_t before_us;

    (void)state;
    (void)use_up(0, 51);
    before_us = figures().cost_us;
    assert_in_range(before_us, PFL_PENDING_HANDSHAKES_BURST_US / 4,
                    PFL_PENDING_HANDSHAKES_BURST_US + 51 * STEP_US);
    for (unsigned s = 0; s < 10; s++) {
        now_ms += 1000;
        (void)use_up(0, 51);
    }
    assert_in_range(figures().cost_us - before_us, PFL_PENDING_HANDSHAKES_PER_S_US * 5,
                    PFL_PENDING_HANDSHAKES_PER_S_US * 10 +
                        51 * (PFL_PENDING_HANDSHAKES_FORGET_US * 10 + STEP_US));
}

static void a_newcomer_need_not_wait_for_a_flood(void **state)
{
    char text[32];

    (void)state;
    (void)use_up(0, 51);
    for (unsigned i = 0; i < 51; i++) {
        (void)snprintf(text, sizeof(text), "10.1.0.%u", i + 1);
        (void)add(i, text);
        assert_false(step(i));
    }
    assert_null(turn());
    (void)add(100, "10.2.0.1");
    assert_false(step(100)); /* others wait: it has to ask */
    assert_ptr_equal(turn(), &entries[100]);
    assert_false(step(100));
    assert_ptr_equal(turn(), &entries[100]);
    prove(&entries[100]);
    assert_null(turn());
    assert_true(finish(101, "10.2.0.1")); /* proven: does not ask */
}

static void a_suspect_that_has_enough_waiting_is_refused(void **state)
{
    struct pfl_pending_handshake *goes;

    (void)state;
    (void)use_up(0, 51);
    for (unsigned i = 0; i < PFL_PENDING_HANDSHAKES_SUSPECT_WAITING; i++) {
        (void)add(i, "10.1.0.1");
        assert_false(step(i));
    }
    assert_int_equal(try_add(50, "10.1.0.1", &goes), PFL_EAGAIN);
    (void)add(51, "10.1.0.2");
    /* Fresh and proven ones have the whole of PFL_PENDING_HANDSHAKES_PER_PEER. */
    for (unsigned i = 0; i < 2 * PFL_PENDING_HANDSHAKES_SUSPECT_WAITING; i++)
        assert_null(add(60 + i, "10.3.0.1"));
}

static void addresses_take_turns(void **state)
{
    static const unsigned order[] = {0, 4, 1, 5, 2, 3};

    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        (void)add(i, i < 4 ? "10.1.0.1" : "10.1.0.2");
        pfl_pending_handshakes_wait(all, &entries[i]);
    }
    for (unsigned i = 0; i < 6; i++)
        assert_ptr_equal(turn(), &entries[order[i]]);
}

static void who_has_begun_goes_before_his_neighbours(void **state)
{
    (void)state;
    (void)add(0, "10.1.0.1");
    (void)add(1, "10.1.0.1");
    (void)add(2, "10.1.0.1");
    assert_true(step(2));
    pfl_pending_handshakes_wait(all, &entries[0]);
    pfl_pending_handshakes_wait(all, &entries[1]);
    pfl_pending_handshakes_wait(all, &entries[2]);
    pfl_pending_handshakes_wait(all, &entries[2]);
    assert_int_equal(figures().waiting, 3);
    assert_ptr_equal(turn(), &entries[2]);
    assert_ptr_equal(turn(), &entries[0]);
    assert_ptr_equal(turn(), &entries[1]);
    assert_null(turn());
    assert_false(pfl_pending_handshakes_are_waiting(all));
}

/* A restart: each has made its first step before the first of them answers. */
static void a_fleet_comes_back_at_once(void **state)
{
    char text[32];
    unsigned begun = 0;

    (void)state;
    (void)teardown(NULL);
    memset(entries, 0, sizeof(entries));
    open_all(4096, 0);
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof(text), "10.%u.0.%u", i / 100 + 10, i % 100);
        (void)add(i, text);
        begun += step(i);
    }
    assert_in_range(begun, PFL_PENDING_HANDSHAKES_BURST_US / 2 / STEP_US, 1000);
    for (unsigned round = 0; round < 1000 && figures().finished < 1000; round++, now_ms += 10) {
        struct pfl_pending_handshake *h;

        for (unsigned i = 0; i < 1000; i++) { /* those answer */
            if (entries[i].peer == NULL || entries[i].cost_us == 0 || entries[i].is_waiting)
                continue;
            if (step(i))
                prove(&entries[i]);
        }
        while ((h = turn()) != NULL) {
            if (h->cost_us > STEP_US)
                prove(h);
        }
    }
    assert_int_equal(figures().finished, 1000);
    assert_in_range(now_ms, 1000, 11000);
}

static void a_fleet_behind_one_address_comes_back_within_a_flood(void **state)
{
    unsigned done = 0;

    (void)state;
    (void)use_up(MANY - 1, 51);
    for (unsigned i = 0; done < 1000; i++) {
        assert_true(i < LATER);
        if (finish(done, "10.4.0.1"))
            done++;
        else
            now_ms += 10;
        pfl_pending_handshakes_remove(all, &entries[done]);
    }
    assert_in_range(now_ms, 1000, 2000);
}

static void what_an_address_left_unfinished_is_forgiven_when_it_finishes_one(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        (void)add(i, "10.1.0.1");
        assert_true(step(i));
        pfl_pending_handshakes_remove(all, &entries[i]);
    }
    (void)use_up(0, 51);
    assert_true(finish(100, "10.5.0.1"));
    (void)add(101, "10.1.0.1");
    assert_false(step(101)); /* a suspect */
    now_ms += LATER;         /* forgotten */
    assert_ptr_equal(turn(), &entries[101]);
    prove(&entries[101]);
    assert_true(finish(102, "10.1.0.1"));
}

static void an_address_stays_proven_for_a_while(void **state)
{
    (void)state;
    assert_true(finish(0, "10.5.0.1"));
    (void)use_up(1, 2000); /* strangers everywhere: the budget is used up */
    (void)add(1, "10.1.99.250");
    assert_false(step(1));
    assert_true(finish(2, "10.5.0.1"));
    now_ms += PFL_PENDING_HANDSHAKES_PROVEN_MS;
    assert_ptr_equal(turn(), &entries[1]);
}

/* As that of an agent that was connected for hours, and died. */
static void an_address_stays_proven_while_it_is_connected_and_for_a_while_after(void **state)
{
    (void)state;
    assert_true(finish(0, "10.5.0.1"));
    for (unsigned i = 0; i < 4; i++) {
        now_ms += PFL_PENDING_HANDSHAKES_PROVEN_MS / 2;
        pfl_pending_handshakes_renew(all, &entries[0], now_ms);
    }
    (void)use_up(1, 2000);
    now_ms += PFL_PENDING_HANDSHAKES_PROVEN_MS - 1;
    (void)use_up(1, 2000);
    (void)add(1, "10.1.99.250");
    assert_false(step(1));
    assert_true(finish(2, "10.5.0.1"));
}

static void strangers_of_one_network_leave_room_for_those_of_others(void **state)
{
    char text[32];

    (void)state;
    (void)use_up(1000, 2000);
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(text, sizeof(text), i % 2 == 0 ? "10.%u.0.1" : "2001:%u::1", i + 10);
        (void)add(i, text);
        assert_true(step(i));
    }
}

static void one_address_does_not_crowd_its_network(void **state)
{
    char text[32];
    unsigned begun = 0;

    (void)state;
    (void)use_up(MANY - 1, 1);
    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(text, sizeof(text), "10.1.7.%u", i);
        (void)add(i, text);
        begun += step(i);
    }
    (void)use_up(MANY - 1, 2000); /* crowded now, but for those who have begun */
    for (unsigned i = 0; i < 10; i++)
        begun += step(i);
    assert_int_equal(begun, 20);
}

/* More addresses than places: those that are proven keep theirs. */
static void strangers_everywhere_do_not_displace_who_is_proven(void **state)
{
    char text[48];
    unsigned kept = 0;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(text, sizeof(text), "10.7.0.%u", i);
        assert_true(finish(i, text));
    }
    for (unsigned i = 0; i < MANY; i++) {
        struct pfl_pending_handshake *goes;

        (void)snprintf(text, sizeof(text), "2001:db8:%x:%x::1", i >> 8, i & 0xff);
        if (try_add(200, text, &goes) == 0)
            (void)step(200);
        pfl_pending_handshakes_remove(all, &entries[200]);
    }
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(text, sizeof(text), "10.7.0.%u", i);
        kept += finish(300 + i, text);
    }
    assert_int_equal(kept, 100);
}

static void what_a_proven_address_leaves_unfinished_is_no_debt_of_others(void **state)
{
    (void)state;
    assert_true(finish(0, "10.1.0.1"));
    for (unsigned round = 0; round < 60; round++) {
        for (unsigned i = 1; i <= 13; i++) {
            (void)add(i, "10.1.0.1");
            assert_true(step(i));
            pfl_pending_handshakes_remove(all, &entries[i]);
        }
        assert_true(finish(0, "10.1.0.1"));
        now_ms += 1000;
    }
    assert_true(finish(20, "10.2.0.1"));
}

static void who_finishes_all_the_time_does_not_keep_out_who_is_new(void **state)
{
    unsigned proven = 0;

    (void)state;
    assert_true(finish(0, "10.1.0.1"));
    for (unsigned i = 1; i <= 8; i++) {
        (void)add(i, "10.1.0.1");
        pfl_pending_handshakes_wait(all, &entries[i]);
    }
    (void)add(20, "10.2.0.1");
    pfl_pending_handshakes_wait(all, &entries[20]);
    while (turn() != &entries[20])
        proven++;
    assert_in_range(proven, 0, 1);
    pfl_pending_handshakes_wait(all, &entries[20]);
    assert_ptr_not_equal(turn(), &entries[20]);
    (void)add(9, "10.1.0.1"); /* comes while who is new waits */
    assert_false(step(9));
    assert_ptr_equal(turn(), &entries[20]);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void the_work_of_a_proven_address_is_charged_to_nobody_else(void **state)
{
    (void)state;
    (void)add(0, "10.1.2.3");
    assert_true(step(0));
    assert_false(entries[0].is_free);
    assert_int_equal(entries[0].network_us, STEP_US);
    assert_int_equal(entries[0].budget_us, STEP_US);
    prove(&entries[0]);
    (void)add(1, "10.1.2.3");
    assert_true(step(1));
    assert_true(entries[1].is_free);
    assert_int_equal(entries[1].cost_us, STEP_US);
    assert_int_equal(entries[1].network_us, 0);
    assert_int_equal(entries[1].budget_us, 0);
}

/* What one certificate's holder does; the number of handshakes that were refunded. */
static unsigned finish_often(unsigned times, const char *text, const char *identity)
{
    unsigned refunded = 0;

    for (unsigned n = 0; n < times; n++) {
        struct pfl_pending_handshake *goes;

        if (try_add(0, text, &goes) == 0 && step(0) && step(0))
            refunded += pfl_pending_handshakes_finish(all, &entries[0], identity, now_ms);
        pfl_pending_handshakes_remove(all, &entries[0]);
    }
    return refunded;
}

static void who_finishes_too_often_is_as_one_who_does_not_finish(void **state)
{
    uint64_t before_us;

    (void)state;
    assert_int_equal(finish_often(2000, "10.1.0.1", "host-a"), PFL_PENDING_HANDSHAKES_OF_ONE);
    assert_true(figures().unrefunded > 0);
    (void)add(1, "10.1.0.1");
    assert_false(step(1)); /* a suspect */
    pfl_pending_handshakes_remove(all, &entries[1]);
    before_us = figures().cost_us;
    for (unsigned s = 0; s < 10; s++) {
        now_ms += 1000;
        assert_in_range(finish_often(200, "10.1.0.1", "host-a"), 0, 1);
    }
    assert_in_range(
        figures().cost_us - before_us, 0,
        10 * (PFL_PENDING_HANDSHAKES_PER_S_US + PFL_PENDING_HANDSHAKES_PROVEN_US + 4 * STEP_US));
}

/* Each new address gets what a stranger's gets, and none is proven by it. */
static void who_finishes_too_often_gains_nothing_by_many_addresses(void **state)
{
    char text[32];

    (void)state;
    (void)finish_often(PFL_PENDING_HANDSHAKES_OF_ONE, "10.1.0.1", "host-a");
    for (unsigned n = 0; n < 4000; n++) {
        (void)snprintf(text, sizeof(text), "10.%u.%u.1", n / 200 + 2, n % 200);
        assert_int_equal(finish_often(2, text, "host-a"), 0);
    }
    assert_in_range(figures().cost_us, 0,
                    PFL_PENDING_HANDSHAKES_BURST_US +
                        2 * (PFL_PENDING_HANDSHAKES_OF_ONE + 1) * STEP_US);
}

static void others_of_an_address_forgive_who_finishes_too_often(void **state)
{
    (void)state;
    (void)finish_often(2000, "10.1.0.1", "host-a");
    (void)add(1, "10.1.0.1");
    now_ms += LATER; /* the budget is full again */
    assert_true(step(1));
    assert_true(step(1));
    assert_true(pfl_pending_handshakes_finish(all, &entries[1], "host-b", now_ms));
    for (unsigned i = 2; i < 1000; i++)
        assert_true(finish(i, "10.1.0.1"));
}

static void one_who_connects_once_a_second_is_never_charged(void **state)
{
    (void)state;
    for (unsigned s = 0; s < 3600; s++, now_ms += 1000)
        assert_int_equal(finish_often(1, "10.1.0.1", "operator-a"), 1);
}

static void record_figures(void)
{
    struct pfl_pending_handshakes_figures f = figures();

    pfl_record("%u unfinished, %u wait, %llu finished %llu refused %llu ousted, cost %llu, %d",
               f.unfinished, f.waiting, (unsigned long long)f.finished,
               (unsigned long long)f.refused, (unsigned long long)f.ousted,
               (unsigned long long)f.cost_us, pfl_pending_handshakes_are_waiting(all));
}

/* Few addresses of many networks; entry i is free, or makes a step, or ends. */
static void do_any(unsigned i)
{
    static const char *const prefixes[] = {"10.0.0.%u",      "10.0.%u.1",
                                           "10.%u.0.1",      "2001:db8:0:%x::1",
                                           "2001:db8:%x::1", "::ffff:10.0.0.%u"};
    const char *prefix = prefixes[pfl_pick(6)];
    unsigned number = (unsigned)pfl_pick(9) + 1;
    struct pfl_pending_handshake *goes = NULL;
    char text[48];

    if (entries[i].peer == NULL) {
        (void)snprintf(text, sizeof(text), prefix, number);
        pfl_record("add %u %s: %d", i, text, try_add(i, text, &goes));
        pfl_record("goes %d", goes != NULL ? (int)(goes - entries) : -1);
    } else if (entries[i].is_waiting || pfl_pick(3) != 0) {
        bool is_made = !entries[i].is_waiting && step(i);

        pfl_record("step %u: %d", i, is_made);
        if (!is_made && !entries[i].is_waiting)
            pfl_pending_handshakes_wait(all, &entries[i]);
    } else {
        bool is_proven = pfl_pick(2) == 0;

        if (is_proven)
            prove(&entries[i]);
        else
            pfl_pending_handshakes_remove(all, &entries[i]);
        if (is_proven && pfl_pick(2) == 0)
            pfl_pending_handshakes_renew(all, &entries[i], now_ms + pfl_pick(2000));
    }
}

static void turns_of_a_random_history_are_those_that_were_recorded(void **state)
{
    static const unsigned per_mins[] = {0, 5, 60};

    (void)state;
    pfl_record_begin();
    for (unsigned k = 0; k < 3; k++) {
        for (unsigned i = 0; i < MAX; i++)
            pfl_pending_handshakes_remove(all, &entries[i]);
        pfl_pending_handshakes_free(all);
        open_all(k == 0 ? 100 : 20, per_mins[k]);
        for (unsigned i = 0; i < 20000; i++) {
            struct pfl_pending_handshake *h;

            now_ms += pfl_pick(50) == 0 ? pfl_pick(20000) : pfl_pick(6);
            do_any((unsigned)pfl_pick(MAX));
            h = pfl_pick(2) == 0 ? turn() : NULL;
            pfl_record("turn %d", h != NULL ? (int)(h - entries) : -1);
            record_figures();
        }
    }
    pfl_assert_recorded(0xf97e63cd12381abb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_oldest_of_the_same_peer_gives_way),
        T(a_network_of_ipv6_is_one_peer),
        T(over_all_peers_one_of_who_has_most_gives_way),
        T(of_who_has_one_each_the_oldest_stranger_gives_way),
        T(who_is_done_is_not_counted),
        T(a_peer_may_begin_so_many_a_minute),
        T(a_flood_gets_its_share_and_no_more),
        T(a_newcomer_need_not_wait_for_a_flood),
        T(a_suspect_that_has_enough_waiting_is_refused),
        T(addresses_take_turns),
        T(who_has_begun_goes_before_his_neighbours),
        T(a_fleet_comes_back_at_once),
        T(a_fleet_behind_one_address_comes_back_within_a_flood),
        T(what_an_address_left_unfinished_is_forgiven_when_it_finishes_one),
        T(what_a_proven_address_leaves_unfinished_is_no_debt_of_others),
        T(who_finishes_all_the_time_does_not_keep_out_who_is_new),
        T(an_address_stays_proven_for_a_while),
        T(an_address_stays_proven_while_it_is_connected_and_for_a_while_after),
        T(strangers_of_one_network_leave_room_for_those_of_others),
        T(one_address_does_not_crowd_its_network),
        T(strangers_everywhere_do_not_displace_who_is_proven),
        T(the_work_of_a_proven_address_is_charged_to_nobody_else),
        T(who_finishes_too_often_is_as_one_who_does_not_finish),
        T(who_finishes_too_often_gains_nothing_by_many_addresses),
        T(others_of_an_address_forgive_who_finishes_too_often),
        T(one_who_connects_once_a_second_is_never_charged),
        cmocka_unit_test_setup_teardown(turns_of_a_random_history_are_those_that_were_recorded,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
