/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for orders, and for what is missing, against a real index. */
#include "tests/unit/collector/serve/job_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/order/order.h"
#include "proto/unpack.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define CONFIG                                                                                     \
    "config { buffers { size_kb: 1024 } data_sources { config { name: \"track_event\" "            \
    "legacy_config: \"%s\" } } } "

/* ---- what is missing ---- */

static void missing(void)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__Empty empty = PERFLEET__COLLECTOR_REQUEST__EMPTY__INIT;

    q.missing = &empty;
    world_ask(&q);
    assert_int_equal(world_status(), 0);
}

static void runs_are_those_of_hosts_that_may_be_seen(void **state)
{
    (void)state;
    world_store_web(1, 1);
    world_store_web(4, 1);
    world_store(&(struct world_trace){"web1", "role=web", 2, 0, 2, NULL});
    world_store_db(1);
    missing();
    assert_int_equal(world_last()->n_missing, 0); /* no relay says which labels the hosts have */
    world_know("web1", "role=web", true);
    world_know("db1", "role=db", true);
    missing();
    assert_int_equal(world_last()->n_missing, 1);
    assert_string_equal(world_last()->missing[0]->host, "web1");
    assert_int_equal(world_last()->missing[0]->first, 1);
    assert_int_equal(world_last()->missing[0]->last, 4);
    assert_int_equal(world_last()->missing[0]->stored, 2);
    assert_int_equal(world_last()->missing[0]->in_gaps, 1);
    assert_int_equal(world_last()->missing[0]->holes, 1);
}

#define LONG 250

static void begin_run(const char *name, size_t name_len)
{
    Perfleet__Segment s = PERFLEET__SEGMENT__INIT;
    Perfleet__SegmentGap gap = PERFLEET__SEGMENT_GAP__INIT;
    struct pfl_index_place place = {.key = ""};
    enum pfl_index_reserve result;
    char order[LONG + 1];
    static unsigned ids;

    memset(order, 'o', sizeof(order));
    order[name_len] = '\0';
    memcpy(order, name, strlen(name));
    s.host = world_text("web1");
    s.orderer = order;
    s.order = order;
    s.incarnation = world_text("01JD0000000000000000000009");
    s.has_number = 1;
    s.number = 1;
    gap.has_last = 1;
    gap.last = 1;
    s.gap = &gap;
    (void)snprintf(place.id, sizeof(place.id), "01JE%022u", ++ids);
    assert_int_equal(pfl_index_reserve(world.engines.index, &s, WORLD_T0, &place, &result), 0);
}

static void begin_runs(unsigned len, size_t name_len)
{
    char name[16];

    world_know("web1", "role=web", true);
    for (unsigned i = 0; i < len; i++) {
        (void)snprintf(name, sizeof(name), "r%05u", i);
        begin_run(name, name_len);
    }
}

/* The runs r00000 ..., each once and in this order. */
static void assert_runs(unsigned len)
{
    unsigned n = 0;
    char name[16];

    for (size_t i = 0; i < world.replies_len; i++) {
        for (size_t k = 0; k < world.replies[i]->n_missing; k++) {
            (void)snprintf(name, sizeof(name), "r%05u", n++);
            assert_memory_equal(world.replies[i]->missing[k]->order, name, 6);
        }
    }
    assert_int_equal(n, len);
}

static void run_before_all(unsigned n)
{
    if (n == 2)
        begin_run("a", 6);
}

static void runs_of_several_pages_come_once_each(void **state)
{
    (void)state;
    begin_runs(2 * PFL_JOB_RUNS_MAX, 6);
    missing();
    assert_int_equal(world.steps[PFL_JOB_RUNS], 3); /* the last one has none */
    assert_runs(2 * PFL_JOB_RUNS_MAX);
    world.on_step = run_before_all; /* what was replied is not counted again */
    missing();
    assert_runs(2 * PFL_JOB_RUNS_MAX);
}

/* A page has room for fewer than PFL_JOB_RUNS_MAX of them. */
static void runs_with_long_names_come_once_each(void **state)
{
    (void)state;
    begin_runs(PFL_JOB_RUNS_MAX, LONG);
    missing();
    assert_runs(PFL_JOB_RUNS_MAX);
}

/* ---- orders ---- */

static void put_large(const char *name, size_t len)
{
    static char words[300000];
    static char text[262144];
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    char why[PFL_ORDER_WHY_BYTES] = "";
    Perfleet__Order *order = NULL;

    memset(text, 'y', len);
    text[len] = '\0';
    (void)snprintf(words, sizeof(words),
                   "name: \"%s\" select { label: \"role=web\" } " CONFIG "continuous { }", name,
                   text);
    if (pfl_order_parse(pfl_span_of(words, strlen(words)), PFL_ORDER_PLAIN, &order, why) != 0)
        fail_msg("%s", why);
    q.put_order = order;
    world_ask(&q);
    pfl_proto_free(&order->base);
}

static void put_order(const char *name)
{
    put_large(name, 0);
}

enum verb { SHOW, PAUSE, RESUME, REMOVE };

static void refer(enum verb verb, const char *name)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef ref = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;

    ref.name = world_text(name);
    if (verb == SHOW)
        q.show_order = &ref;
    else if (verb == PAUSE)
        q.pause_order = &ref;
    else if (verb == RESUME)
        q.resume_order = &ref;
    else
        q.remove_order = &ref;
    world_ask(&q);
}

static void put_anothers(const char *name)
{
    Perfleet__Order order = PERFLEET__ORDER__INIT;
    uint32_t generation;

    order.name = world_text(name);
    assert_int_equal(pfl_index_put_order(world.engines.index, "bob", &order, &generation), 0);
}

static void an_order_is_put_shown_paused_and_removed(void **state)
{
    (void)state;
    refer(SHOW, "web");
    assert_int_equal(world_last()->n_order, 0);
    put_order("web");
    assert_int_equal(world_status(), 0);
    put_order("web");
    refer(SHOW, "web");
    assert_int_equal(world_last()->n_order, 1);
    assert_string_equal(world_last()->order[0]->orderer, "ann");
    assert_int_equal(world_last()->order[0]->generation, 2);
    assert_non_null(world_last()->order[0]->order->config);
    assert_non_null(world_last()->order[0]->order->continuous);
    assert_false(world_last()->order[0]->order->paused);
    refer(PAUSE, "web");
    assert_int_equal(world_status(), 0);
    refer(SHOW, "web");
    assert_true(world_last()->order[0]->order->paused);
    refer(RESUME, "web");
    refer(SHOW, "web");
    assert_false(world_last()->order[0]->order->paused);
    refer(REMOVE, "web");
    assert_int_equal(world_status(), 0);
    refer(REMOVE, "web");
    assert_int_equal(world_status(), 404);
    refer(PAUSE, "web");
    assert_int_equal(world_status(), 404);
}

static void say_of(const char *orderer, const char *host, const char *name, size_t why_len)
{
    static char why[60001];
    Perfleet__HostOrderState state = PERFLEET__HOST_ORDER_STATE__INIT;
    const struct pfl_index_state_of_order of = {name, &state};

    memset(why, 'y', sizeof(why));
    why[why_len] = '\0';
    state.has_state = 1;
    state.state = PERFLEET__HOST_ORDER_STATE__STATE__RUNNING;
    state.why = why;
    assert_int_equal(pfl_index_set_host_state(world.engines.index, host, orderer, &of), 0);
}

static void say(const char *host, const char *name, size_t why_len)
{
    say_of("ann", host, name, why_len);
}

static void a_list_of_orders_has_all_without_configs(void **state)
{
    (void)state;
    world_know("web1", "role=web", true);
    say_of("bob", "web1", "web", 1);
    put_order("web");
    put_order("db");
    put_anothers("web");
    refer(SHOW, "");
    assert_int_equal(world.replies_len, 1);
    assert_int_equal(world_last()->n_order, 3);
    assert_string_equal(world_last()->order[0]->order->name, "db");
    assert_null(world_last()->order[0]->order->config);
    assert_non_null(world_last()->order[0]->order->continuous);
    assert_string_equal(world_last()->order[2]->orderer, "bob");
    refer(SHOW, "web"); /* the own one */
    assert_int_equal(world_last()->n_order, 1);
    assert_string_equal(world_last()->order[0]->orderer, "ann");
    refer(REMOVE, "web");
    refer(SHOW, "");
    assert_int_equal(world_last()->n_order, 2);
}

static void refer_to_bobs(const char *name)
{
    Perfleet__CollectorRequest q = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef ref = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;

    ref.name = world_text(name);
    ref.orderer = world_text("bob");
    q.show_order = &ref;
    world_ask(&q);
}

static size_t count_orders(void)
{
    size_t n = 0;

    for (size_t i = 0; i < world.replies_len; i++)
        n += world.replies[i]->n_order;
    return n;
}

static void anothers_order_is_there_if_one_of_its_hosts_may_be_seen(void **state)
{
    (void)state;
    world_know("web1", "role=web", true);
    world_know("db1", "role=db", true);
    put_anothers("a-db");
    put_anothers("b-web");
    put_anothers("c-new");
    say_of("bob", "db1", "a-db", 1);
    say_of("bob", "db1", "b-web", 1);
    say_of("bob", "web1", "b-web", 1);
    put_order("mine");
    refer(SHOW, "");
    assert_int_equal(world_last()->n_order, 2);
    assert_string_equal(world_last()->order[0]->order->name, "mine");
    assert_string_equal(world_last()->order[1]->order->name, "b-web");
    assert_int_equal(world_last()->order[1]->n_host, 1);
    refer_to_bobs("b-web");
    assert_int_equal(count_orders(), 1);
    refer_to_bobs("a-db");
    assert_int_equal(count_orders(), 0);
    assert_int_equal(world_status(), 0);
    refer_to_bobs("c-new");
    assert_int_equal(count_orders(), 0);
    world_know("web1", "role=db", true); /* its label is another one */
    refer_to_bobs("b-web");
    assert_int_equal(count_orders(), 0);
}

static void who_may_everywhere_sees_all_orders(void **state)
{
    (void)state;
    put_anothers("new");
    pfl_scope_free(world.scope);
    assert_int_equal(
        world_open_scope("rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"r\" }\n"
                         "role { name: \"r\" traces: true }\n"),
        0);
    refer_to_bobs("new");
    assert_int_equal(count_orders(), 1);
    pfl_scope_free(world.scope);
    assert_int_equal(
        world_open_scope("rule { name: \"q\" operator: \"ann\" host: \"q\" role: \"none\" }\n"
                         "rule { name: \"r\" operator: \"ann\" host: \"*\" role: \"r\" }\n"
                         "role { name: \"r\" traces: true }\n"
                         "role { name: \"none\" max_streams: 1 }\n"),
        0);
    refer_to_bobs("new");
    assert_int_equal(count_orders(), 0);
}

static void an_operator_has_so_many_orders(void **state)
{
    char name[16];

    (void)state;
    for (unsigned i = 0; i < PFL_JOB_ORDERS_OF_ONE; i++) {
        (void)snprintf(name, sizeof(name), "o%u", i);
        put_order(name);
        assert_int_equal(world_status(), 0);
    }
    put_order("one-more");
    assert_int_equal(world_status(), 400);
    assert_non_null(strstr(world_last()->why, "at most 64 orders"));
    put_order("o3"); /* replaces */
    assert_int_equal(world_status(), 0);
}

static void an_operators_orders_leave_half_of_their_bytes_to_others(void **state)
{
    const size_t len = 250000;
    char name[16];
    unsigned n = 0;

    (void)state;
    do {
        (void)snprintf(name, sizeof(name), "o%u", n++);
        put_large(name, len);
    } while (world_status() == 0);
    assert_int_equal(world_status(), 400);
    assert_non_null(strstr(world_last()->why, "half of what is free"));
    assert_in_range((n - 1) * len, PFL_JOB_ORDERS_SUM_BYTES / 2 - 2 * len,
                    PFL_JOB_ORDERS_SUM_BYTES / 2);
    put_large("o3", len); /* replaces */
    assert_int_equal(world_status(), 0);
}

static void hosts_of_an_order_are_those_that_may_be_seen(void **state)
{
    (void)state;
    put_order("web");
    say("db1", "web", 1);
    say("web1", "web", 1);
    say("web2", "web", 1);
    world_know("web1", "role=web", true);
    world_know("web2", "role=web", false);
    world_know("db1", "role=db", true);
    refer(SHOW, "web");
    assert_int_equal(world_last()->order[0]->n_host, 2);
    assert_string_equal(world_last()->order[0]->host[0]->name, "web1");
    assert_true(world_last()->order[0]->host[0]->is_connected);
    assert_int_equal(world_last()->order[0]->host[0]->state->state,
                     PERFLEET__HOST_ORDER_STATE__STATE__RUNNING);
    assert_false(world_last()->order[0]->host[1]->is_connected);
}

/* Four orders of five hosts with 60 KB each: a reply has room for one. */
static void orders_with_much_to_say_come_in_parts(void **state)
{
    char host[16];
    char name[16];

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        (void)snprintf(host, sizeof(host), "web%u", i);
        world_know(host, "role=web", true);
    }
    for (unsigned k = 0; k < 4; k++) {
        (void)snprintf(name, sizeof(name), "o%u", k);
        put_order(name);
        for (unsigned i = 0; i < 5; i++) {
            (void)snprintf(host, sizeof(host), "web%u", i);
            say(host, name, 60000);
        }
    }
    refer(SHOW, "");
    assert_int_equal(world.replies_len, 4);
    for (unsigned k = 0; k < 4; k++) {
        assert_int_equal(world.replies[k]->n_order, 1);
        assert_int_equal(world.replies[k]->order[0]->order->name[1], '0' + (int)k);
        assert_int_equal(world.replies[k]->order[0]->n_host, 5);
    }
}

static void say_much(const char *prefix, unsigned len, const char *name)
{
    char host[16];

    for (unsigned i = 0; i < len; i++) {
        (void)snprintf(host, sizeof(host), "%s%02u", prefix, i);
        world_know(host, prefix[0] == 'w' ? "role=web" : "role=db", true);
        say(host, name, 60000);
    }
}

/* The hosts web00 ... of an order, each once and in this order, in all replies. */
static void assert_hosts(const char *name, unsigned len)
{
    unsigned n = 0;
    char host[16];

    for (size_t i = 0; i < world.replies_len; i++) {
        for (size_t k = 0; k < world.replies[i]->n_order; k++) {
            const Perfleet__OrderStatus *s = world.replies[i]->order[k];

            for (size_t m = 0; strcmp(s->order->name, name) == 0 && m < s->n_host; m++) {
                (void)snprintf(host, sizeof(host), "web%02u", n++);
                assert_string_equal(s->host[m]->name, host);
            }
        }
    }
    assert_int_equal(n, len);
}

/* A reply has room for seven of its hosts. */
static void an_order_with_much_to_say_comes_in_parts(void **state)
{
    (void)state;
    put_order("o1");
    put_order("o2");
    put_order("o3");
    say_much("web", 20, "o2");
    for (unsigned i = 0; i < PFL_JOB_ORDERS_STEP + 8; i++) {
        char host[16];

        (void)snprintf(host, sizeof(host), "web%02u", i);
        world_know(host, "role=web", false);
        say(host, "o3", 1);
    }
    refer(SHOW, "o2");
    assert_hosts("o2", 20);
    refer(SHOW, "");
    assert_hosts("o1", 0);
    assert_hosts("o2", 20);
    assert_hosts("o3", PFL_JOB_ORDERS_STEP + 8);
}

static void hosts_that_may_not_be_seen_hide_no_others(void **state)
{
    (void)state;
    put_order("web");
    say_much("db", 10, "web");
    say_much("web", 2, "web");
    refer(SHOW, "web");
    assert_hosts("web", 2);
}

static void remove_while_it_is_listed(unsigned n)
{
    if (n == 2)
        assert_int_equal(pfl_index_remove_order(world.engines.index, "ann", "o1"), 0);
}

static void an_order_that_is_removed_between_two_parts_ends(void **state)
{
    (void)state;
    put_order("o1");
    put_order("o2");
    say_much("web", 20, "o1");
    say_much("web", 3, "o2");
    world.on_step = remove_while_it_is_listed;
    refer(SHOW, "");
    assert_hosts("o1", 7);
    assert_hosts("o2", 3);
}

static void a_list_of_many_orders_has_each_once(void **state)
{
    unsigned n = 0;
    char name[16];

    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(name, sizeof(name), "o%02u", i);
        put_order(name);
    }
    put_anothers("o00");
    world_know("web1", "role=web", true);
    say_of("bob", "web1", "o00", 1);
    refer(SHOW, "");
    for (size_t i = 0; i < world.replies_len; i++) {
        for (size_t k = 0; k < world.replies[i]->n_order; k++, n++) {
            (void)snprintf(name, sizeof(name), "o%02u", n % 40);
            assert_string_equal(world.replies[i]->order[k]->order->name, name);
        }
    }
    assert_int_equal(n, 41);
}

static void without_the_right_no_order_is_put(void **state)
{
    (void)state;
    pfl_scope_free(world.scope);
    assert_int_equal(world_open_scope(""), 0);
    put_order("web");
    assert_int_equal(world_status(), 403);
    assert_int_equal(world.steps[PFL_JOB_SET_ORDER], 0);
}

/* ---- the allocation sweep ---- */

static int sweep_one(void *arg)
{
    int rc = world_run_request(arg);

    world_drop_replies();
    return rc;
}

static void every_allocation_may_fail(void **state)
{
    Perfleet__CollectorRequest show = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest lack = PERFLEET__COLLECTOR_REQUEST__INIT;
    Perfleet__CollectorRequest__OrderRef ref = PERFLEET__COLLECTOR_REQUEST__ORDER_REF__INIT;
    Perfleet__CollectorRequest__Empty empty = PERFLEET__COLLECTOR_REQUEST__EMPTY__INIT;

    (void)state;
    world_store_web(1, 100);
    world_know("web1", "role=web", true);
    put_order("web");
    say("web1", "web", 3);
    world_drop_replies();
    show.show_order = &ref;
    lack.missing = &empty;
    pfl_sweep(sweep_one, &show, false);
    pfl_sweep(sweep_one, &lack, false);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_begin, world_end)

static void all_of_this_is_as_recorded(void **state)
{
    (void)state;
    pfl_assert_recorded(0x35a6c60a12b456f6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(runs_are_those_of_hosts_that_may_be_seen),
        CASE(runs_of_several_pages_come_once_each),
        CASE(runs_with_long_names_come_once_each),
        CASE(an_order_is_put_shown_paused_and_removed),
        CASE(a_list_of_orders_has_all_without_configs),
        CASE(anothers_order_is_there_if_one_of_its_hosts_may_be_seen),
        CASE(who_may_everywhere_sees_all_orders),
        CASE(an_operator_has_so_many_orders),
        CASE(an_operators_orders_leave_half_of_their_bytes_to_others),
        CASE(hosts_of_an_order_are_those_that_may_be_seen),
        CASE(orders_with_much_to_say_come_in_parts),
        CASE(an_order_with_much_to_say_comes_in_parts),
        CASE(hosts_that_may_not_be_seen_hide_no_others),
        CASE(an_order_that_is_removed_between_two_parts_ends),
        CASE(a_list_of_many_orders_has_each_once),
        CASE(without_the_right_no_order_is_put),
        cmocka_unit_test(all_of_this_is_as_recorded),
        CASE(every_allocation_may_fail),
    };
    pfl_record_begin();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    pfl_sweep_assert_no_leak();
    return failed;
}
