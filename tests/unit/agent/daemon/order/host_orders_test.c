/* SPDX-License-Identifier: Apache-2.0 */
/* The orders of this host: what is refused, what replaces what, and when an order is to run. */
#include "agent/daemon/order/host_orders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/unpack.h"
#include "tests/support/sweep.h"

#define CONFIG                                                                                     \
    "select {} config { buffers { size_kb: 64 } data_sources { config { name: \"x\" } } } "

static struct pfl_host_orders host_orders;
static char why[PFL_ORDER_REASON_BYTES];

static Perfleet__HostOrder *make(const char *orderer, const char *text, uint32_t generation)
{
    Perfleet__HostOrder *order = pfl_mem_zalloc(sizeof(*order));
    char order_why[PFL_ORDER_WHY_BYTES];

    assert_non_null(order);
    perfleet__host_order__init(order);
    assert_int_equal(
        pfl_order_parse(pfl_span_of(text, strlen(text)), PFL_ORDER_PLAIN, &order->order, order_why),
        0);
    order->orderer = pfl_mem_strdup(orderer);
    order->collector = pfl_mem_strdup("keeper");
    order->has_generation = 1;
    order->generation = generation;
    return order;
}

static int put(const char *orderer, const char *text, uint32_t generation, bool *ret_is_new)
{
    struct pfl_host_order *order;

    return pfl_host_orders_put(&host_orders, make(orderer, text, generation), why, &order,
                               ret_is_new);
}

static int teardown(void **state)
{
    (void)state;
    pfl_host_orders_fini(&host_orders);
    pfl_sweep_assert_no_leak();
    return 0;
}

static struct pfl_host_order_decision choice_of(const char *name, uint64_t now_unix_ms,
                                                uint64_t now_ms)
{
    struct pfl_host_order_decision choice;

    pfl_host_order_decide(pfl_host_orders_find(&host_orders, "ann", name), now_unix_ms, now_ms,
                          &choice);
    return choice;
}

/* Both clocks say the same. */
static struct pfl_host_order_decision choice_at(const char *name, uint64_t now_ms)
{
    return choice_of(name, now_ms, now_ms);
}

static void an_order_replaces_that_of_its_name(void **state)
{
    bool is_new;
    uint64_t hash;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" continuous {} " CONFIG, 1, &is_new), 0);
    assert_true(is_new);
    hash = pfl_host_orders_hash(&host_orders);
    assert_int_equal(put("ann", "name: \"a\" continuous {} " CONFIG, 1, &is_new), 0);
    assert_false(is_new);
    assert_true(pfl_host_orders_hash(&host_orders) == hash);
    assert_int_equal(put("ann", "name: \"a\" continuous {} " CONFIG, 2, &is_new), 0);
    assert_true(is_new);
    assert_false(pfl_host_orders_hash(&host_orders) == hash);
    assert_int_equal(put("bob", "name: \"a\" continuous {} " CONFIG, 2, &is_new), 0);
    assert_int_equal(host_orders.len, 2);
    pfl_host_orders_remove(&host_orders, pfl_host_orders_find(&host_orders, "ann", "a"));
    assert_null(pfl_host_orders_find(&host_orders, "ann", "a"));
    assert_non_null(pfl_host_orders_find(&host_orders, "bob", "a"));
}

/* The wall clock may jump, and runs without the agent, too. */
static void both_clocks_say_how_long_an_order_was_not_put(void **state)
{
    static const uint64_t hour = 3600000;
    struct pfl_host_order *order;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" continuous {} " CONFIG, 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    pfl_host_order_note_put(order, 1000 * hour, 5 * hour);
    assert_int_equal(pfl_host_order_get_unput_ms(order, 1000 * hour, 5 * hour), 0);
    /* A clock that is set forward does not count before the agent has waited for an hour. */
    assert_int_equal(pfl_host_order_get_unput_ms(order, 9000 * hour, 5 * hour + 10), 10);
    assert_int_equal(pfl_host_order_get_unput_ms(order, 9000 * hour, 6 * hour), 8000 * hour);
    /* One that is set back does not make it less than the agent has waited. */
    assert_int_equal(pfl_host_order_get_unput_ms(order, 10, 8 * hour), 3 * hour);
    order->put_ms = 0; /* another process */
    assert_int_equal(pfl_host_order_get_unput_ms(order, 1090 * hour, 2 * hour), 90 * hour);
}

/* So collectors learn that an order runs, or why it does not. */
static void the_hash_is_another_one_when_a_state_is(void **state)
{
    struct pfl_host_order *order;
    uint64_t waiting;
    uint64_t running;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" continuous {} " CONFIG, 1, &is_new), 0);
    assert_int_equal(put("ann", "name: \"b\" continuous {} " CONFIG, 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    (void)pfl_host_order_set_state(order, PERFLEET__HOST_ORDER_STATE__STATE__WAITING, "no room", 1);
    waiting = pfl_host_orders_hash(&host_orders);
    (void)pfl_host_order_set_state(order, PERFLEET__HOST_ORDER_STATE__STATE__WAITING, "no room", 2);
    assert_true(pfl_host_orders_hash(&host_orders) == waiting);
    (void)pfl_host_order_set_state(order, PERFLEET__HOST_ORDER_STATE__STATE__WAITING, "no service",
                                   3);
    assert_false(pfl_host_orders_hash(&host_orders) == waiting);
    (void)pfl_host_order_set_state(order, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING, "", 4);
    running = pfl_host_orders_hash(&host_orders);
    assert_false(running == waiting);
    order = pfl_host_orders_find(&host_orders, "ann", "b");
    (void)pfl_host_order_set_state(order, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING, "", 4);
    assert_false(pfl_host_orders_hash(&host_orders) == running);
}

static void one_orderer_has_a_part_and_all_have_a_maximum(void **state)
{
    unsigned count = 0;
    bool is_new;

    (void)state;
    for (char orderer = 'a'; orderer < 'a' + 6; orderer++) {
        char who[2] = {orderer, '\0'};

        for (unsigned i = 0; i < 20; i++) {
            char text[200];

            (void)snprintf(text, sizeof(text), "name: \"n%u\" continuous {} " CONFIG, i);
            if (put(who, text, 1, &is_new) == 0)
                count++;
        }
        assert_true(count <= (unsigned)(orderer - 'a' + 1) * PFL_ORDERS_OF_ORDERER);
    }
    assert_int_equal(count, PFL_ORDERS_MAX);
    assert_non_null(strstr(why, "as many orders"));
    assert_int_equal(put("a", "name: \"n0\" continuous {} " CONFIG, 2, &is_new), 0);
}

static void an_order_without_names_or_with_a_role_that_is_none_is_refused(void **state)
{
    struct pfl_host_order *order;
    Perfleet__HostOrder *bad = make("ann", "name: \"a\" continuous {} " CONFIG, 1);
    bool is_new;

    (void)state;
    pfl_mem_free(bad->orderer);
    bad->orderer = NULL;
    assert_int_equal(pfl_host_orders_put(&host_orders, bad, why, &order, &is_new), PFL_EINVAL);
    bad = make("not a name", "name: \"a\" continuous {} " CONFIG, 1);
    assert_int_equal(pfl_host_orders_put(&host_orders, bad, why, &order, &is_new), PFL_EINVAL);
    bad = make("ann", "name: \"a\" continuous {} " CONFIG, 1);
    bad->has_role = 1;
    bad->role.data = pfl_mem_memdup("\xff\xff", 2);
    bad->role.len = 2;
    assert_int_equal(pfl_host_orders_put(&host_orders, bad, why, &order, &is_new), PFL_EINVAL);
    assert_int_equal(host_orders.len, 0);
}

static void once_runs_for_its_time_and_is_then_over(void **state)
{
    struct pfl_host_order *order;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" once { duration_ms: 1000 } " CONFIG, 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    assert_int_equal(choice_at("a", 5000).state, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING);
    assert_int_equal(choice_at("a", 5000).left_ms, 1000);
    pfl_host_order_begin(order, 5000, 5000);
    assert_int_equal(order->kept->begun_unix_ms, 5000);
    assert_int_equal(choice_at("a", 5400).left_ms, 600);
    assert_int_equal(choice_at("a", 5999).state, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING);
    assert_int_equal(choice_at("a", 6000).state, PERFLEET__HOST_ORDER_STATE__STATE__ENDED);
    /* The same order again is not another one. */
    assert_int_equal(put("ann", "name: \"a\" once { duration_ms: 1000 } " CONFIG, 1, &is_new), 0);
    assert_int_equal(choice_at("a", 6000).state, PERFLEET__HOST_ORDER_STATE__STATE__ENDED);
    assert_int_equal(put("ann", "name: \"a\" once { duration_ms: 1000 } " CONFIG, 2, &is_new), 0);
    assert_int_equal(choice_at("a", 6000).state, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING);
}

static void once_takes_its_time_when_the_clock_is_set(void **state)
{
    const uint64_t now = 1000000000;
    const uint64_t days = 8 * 86400 * UINT64_C(1000);
    struct pfl_host_order *order;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" once { duration_ms: 1000 } " CONFIG, 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    pfl_host_order_begin(order, now, 5000);
    assert_int_equal(choice_of("a", now + days, 5100).left_ms, 900);
    assert_int_equal(choice_of("a", now - days, 5200).left_ms, 800);
    assert_int_equal(choice_of("a", now - days, 6000).state,
                     PERFLEET__HOST_ORDER_STATE__STATE__ENDED);
    /* In an agent that begins again, it is as its file says, and no longer than its time. */
    order->has_begun = false;
    pfl_host_order_begin(order, now + 300, 100);
    assert_int_equal(choice_of("a", now + 300, 100).left_ms, 700);
    order->has_begun = false;
    pfl_host_order_begin(order, now - days, 100);
    assert_int_equal(choice_of("a", now - days, 100).left_ms, 1000);
    order->has_begun = false;
    pfl_host_order_begin(order, now + 2000, 100);
    assert_int_equal(choice_of("a", now + 2000, 100).state,
                     PERFLEET__HOST_ORDER_STATE__STATE__ENDED);
    assert_int_equal(order->kept->begun_unix_ms, now);
}

static void a_paused_order_does_not_run(void **state)
{
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" paused: true continuous {} " CONFIG, 1, &is_new), 0);
    assert_int_equal(choice_at("a", 1).state, PERFLEET__HOST_ORDER_STATE__STATE__PAUSED);
}

static const char *take(const char *trigger, const char *id, uint64_t at_ms, uint64_t ring_ms)
{
    struct pfl_order_raise raise = {.at_ms = at_ms};

    (void)snprintf(raise.trigger, sizeof(raise.trigger), "%s", trigger);
    (void)snprintf(raise.id, sizeof(raise.id), "%s", id);
    return pfl_host_order_take_trigger(pfl_host_orders_find(&host_orders, "ann", "a"), &raise,
                                       ring_ms);
}

#define ON_TRIGGER(more)                                                                           \
    "name: \"a\" on_trigger { trigger: \"boom\" trigger: \"bang\" min_interval_ms: 1000 } " CONFIG \
        more

static void a_trigger_is_copied_for_once_in_an_interval(void **state)
{
    const struct pfl_host_order *order;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", ON_TRIGGER(""), 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    assert_int_equal(choice_at("a", 1).state, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING);
    assert_non_null(take("pong", "1", 5000, 0));
    assert_int_equal(order->skipped, 0);
    assert_non_null(strstr(take("boom", "1", 5000, 5001), "its ring began after that"));
    assert_null(take("boom", "1", 5000, 5000));
    assert_non_null(strstr(take("bang", "2", 5999, 0), "min_interval_ms"));
    assert_int_equal(order->skipped, 1);
    assert_null(take("bang", "2", 6000, 0));
    /* Reported again, however late, it is no other event. */
    assert_non_null(take("bang", "2", 9000, 0));
    assert_non_null(take("boom", "1", 5000, 0));
    /* Another generation, or paused in between, copies no sooner. */
    assert_int_equal(put("ann", ON_TRIGGER("paused: true "), 2, &is_new), 0);
    assert_int_equal(choice_at("a", 1).state, PERFLEET__HOST_ORDER_STATE__STATE__PAUSED);
    assert_int_equal(put("ann", ON_TRIGGER(""), 3, &is_new), 0);
    assert_non_null(take("boom", "3", 6999, 0));
    assert_null(take("boom", "3", 7000, 0));
}

static void a_ring_has_a_name_and_no_file(void **state)
{
    struct pfl_buf out;
    bool is_new;

    (void)state;
    pfl_buf_init(&out, 4096);
    assert_int_equal(put("ann", ON_TRIGGER(""), 1, &is_new), 0);
    assert_int_equal(pfl_host_order_encode_ring(pfl_host_orders_find(&host_orders, "ann", "a"),
                                                "order.ann.a.7", &out),
                     0);
    assert_non_null(memmem(out.data + out.start, out.len, "order.ann.a.7", 13));
    assert_null(memmem(out.data + out.start, out.len, ".pftrace", 8));
    pfl_buf_fini(&out);
}

/* Field 24 is for services that do not know 47. */
static size_t list_sources(const char *sources, char *dst[PFL_ORDER_SOURCES_MAX])
{
    static char text[64u << 10];
    bool is_new;

    (void)snprintf(text, sizeof(text),
                   "name: \"a\" continuous {} select {} config { buffers { size_kb: 64 } %s }",
                   sources);
    assert_int_equal(put("ann", text, 1, &is_new), 0);
    return pfl_host_order_list_sources(pfl_host_orders_find(&host_orders, "ann", "a"), dst);
}

static void each_data_source_is_listed_once(void **state)
{
    char *names[PFL_ORDER_SOURCES_MAX];

    (void)state;
    assert_int_equal(list_sources("data_sources { config { name: \"b\" } }"
                                  "data_sources { config { name: \"a\" target_buffer: 0 } }"
                                  "data_sources { config { name: \"b\" target_buffer: 0 } }",
                                  names),
                     2);
    assert_string_equal(names[0], "b");
    assert_string_equal(names[1], "a");
}

static void data_sources_are_listed_within_their_bounds(void **state)
{
    char *names[PFL_ORDER_SOURCES_MAX];
    char sources[8192];
    char longest[PFL_ORDER_SOURCE_BYTES + 1];
    size_t len = 0;

    (void)state;
    for (size_t i = 0; i <= PFL_ORDER_SOURCES_MAX; i++)
        len += (size_t)snprintf(sources + len, sizeof(sources) - len,
                                "data_sources { config { name: \"s%zu\" } }", i);
    assert_int_equal(list_sources(sources, names), PFL_ORDER_SOURCES_MAX);
    memset(longest, 'x', PFL_ORDER_SOURCE_BYTES);
    longest[PFL_ORDER_SOURCE_BYTES] = '\0';
    (void)snprintf(
        sources, sizeof(sources),
        "data_sources { config { name: \"%s\" } } data_sources { config { name: \"%s\" } }",
        longest, longest + 1);
    pfl_host_orders_fini(&host_orders);
    assert_int_equal(list_sources(sources, names), 1);
    assert_string_equal(names[0], longest + 1);
}

static void what_runs_is_compressed_as_the_order_says(void **state)
{
    static const struct {
        const char *text;
        const char *bytes; /* of the request */
        size_t len;
    } cases[] = {
        {"", "\xc0\x01\x01\xfa\x02\x02\x12\x00", 8},
        {"compression: ZSTD", "\xc0\x01\x01\xfa\x02\x02\x12\x00", 8},
        {"compression: DEFLATE", "\xc0\x01\x01\xfa\x02\x02\x0a\x00", 8},
        {"compression: NONE", NULL, 0},
    };
    const struct pfl_host_order *order;
    char text[256];
    struct pfl_buf out;
    bool is_new;

    (void)state;
    pfl_buf_init(&out, 4096);
    for (uint32_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(text, sizeof(text), "name: \"a\" %s %s " CONFIG,
                       i % 2 != 0 ? "continuous {}" : "on_trigger { trigger: \"t\" }",
                       cases[i / 2].text);
        assert_int_equal(put("ann", text, i + 1, &is_new), 0);
        order = pfl_host_orders_find(&host_orders, "ann", "a");
        assert_int_equal(i % 2 != 0 ? pfl_host_order_encode_run(order, "/p", 0, &out)
                                    : pfl_host_order_encode_ring(order, "ring", &out),
                         0);
        if (cases[i / 2].bytes != NULL)
            assert_non_null(memmem(out.data, out.len, cases[i / 2].bytes, cases[i / 2].len));
        else
            assert_null(memmem(out.data, out.len, "\xc0\x01\x01", 3));
        pfl_buf_fini(&out);
    }
}

static void the_role_of_the_moment_is_asked_too(void **state)
{
    static const uint8_t role[] = "\x0a\x01r\x12\x01Q"; /* name: "r" method: "Q" */
    const struct pfl_host_order *order;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", ON_TRIGGER(""), 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    assert_true(pfl_host_order_is_allowed(order, why));
    assert_true(pfl_host_order_is_allowed_by(order, pfl_span_of(NULL, 0), why));
    assert_false(pfl_host_order_is_allowed_by(order, pfl_span_of(role, sizeof(role) - 1), why));
}

static void a_role_judges_what_the_order_records(void **state)
{
    static const uint8_t other[] = "\x0a\x01r\x1a\x01y"; /* name: "r" data_source: "y" */
    static const uint8_t same[] = "\x0a\x01r\x1a\x01x";
    const struct pfl_host_order *order;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" continuous {} " CONFIG, 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    assert_true(pfl_host_order_is_allowed_by(order, pfl_span_of(same, sizeof(same) - 1), why));
    assert_false(pfl_host_order_is_allowed_by(order, pfl_span_of(other, sizeof(other) - 1), why));
    assert_non_null(strstr(why, "\"x\""));
}

static int put_one(void *arg)
{
    struct pfl_host_order *order;
    bool is_new;
    int rc;

    (void)arg;
    memset(&host_orders, 0, sizeof(host_orders));
    rc = pfl_host_orders_put(&host_orders, make("ann", "name: \"a\" continuous {} " CONFIG, 1), why,
                             &order, &is_new);
    pfl_host_orders_fini(&host_orders);
    return rc;
}

static void what_is_put_is_owned(void **state)
{
    (void)state;
    assert_int_equal(put_one(NULL), 0);
}

static void a_role_of_one_byte_is_judged_and_an_empty_one_is_none(void **state)
{
    struct pfl_host_order *order;
    Perfleet__HostOrder *with_role = make("ann", "name: \"a\" continuous {} " CONFIG, 1);
    bool is_new;

    (void)state;
    with_role->has_role = 1;
    with_role->role.data = pfl_mem_memdup("\xff", 1);
    with_role->role.len = 1;
    assert_int_equal(pfl_host_orders_put(&host_orders, with_role, why, &order, &is_new),
                     PFL_EINVAL);
    with_role = make("ann", "name: \"a\" continuous {} " CONFIG, 1);
    with_role->has_role = 1;
    assert_int_equal(pfl_host_orders_put(&host_orders, with_role, why, &order, &is_new), 0);
}

static void an_order_that_is_put_again_is_still_done(void **state)
{
    struct pfl_host_order *order;
    bool is_new;

    (void)state;
    assert_int_equal(put("ann", "name: \"a\" once { duration_ms: 1000 } " CONFIG, 1, &is_new), 0);
    order = pfl_host_orders_find(&host_orders, "ann", "a");
    order->kept->has_is_done = order->kept->is_done = 1;
    assert_int_equal(choice_at("a", 5000).state, PERFLEET__HOST_ORDER_STATE__STATE__ENDED);
    assert_int_equal(put("ann", "name: \"a\" once { duration_ms: 1000 } " CONFIG, 1, &is_new), 0);
    assert_false(is_new);
    assert_int_equal(choice_at("a", 5000).state, PERFLEET__HOST_ORDER_STATE__STATE__ENDED);
}

static void the_first_state_is_a_change_whatever_it_is(void **state)
{
    struct pfl_host_order order = {0};
    Perfleet__HostOrderState__State none = order.state;

    (void)state;
    assert_true(pfl_host_order_set_state(&order, none, "", 1));
    assert_true(order.since_unix_ms == 1);
    assert_false(pfl_host_order_set_state(&order, none, "", 2));
    assert_true(pfl_host_order_set_state(&order, none, "why", 3)); /* the same state since then */
    assert_true(order.since_unix_ms == 1);
    assert_true(pfl_host_order_set_state(&order, none + 1, "why", 4));
    assert_true(order.since_unix_ms == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_order_replaces_that_of_its_name, teardown),
        cmocka_unit_test_teardown(both_clocks_say_how_long_an_order_was_not_put, teardown),
        cmocka_unit_test_teardown(the_hash_is_another_one_when_a_state_is, teardown),
        cmocka_unit_test_teardown(one_orderer_has_a_part_and_all_have_a_maximum, teardown),
        cmocka_unit_test_teardown(an_order_without_names_or_with_a_role_that_is_none_is_refused,
                                  teardown),
        cmocka_unit_test_teardown(once_runs_for_its_time_and_is_then_over, teardown),
        cmocka_unit_test_teardown(once_takes_its_time_when_the_clock_is_set, teardown),
        cmocka_unit_test_teardown(a_paused_order_does_not_run, teardown),
        cmocka_unit_test_teardown(a_trigger_is_copied_for_once_in_an_interval, teardown),
        cmocka_unit_test_teardown(a_ring_has_a_name_and_no_file, teardown),
        cmocka_unit_test_teardown(each_data_source_is_listed_once, teardown),
        cmocka_unit_test_teardown(data_sources_are_listed_within_their_bounds, teardown),
        cmocka_unit_test_teardown(what_runs_is_compressed_as_the_order_says, teardown),
        cmocka_unit_test_teardown(the_role_of_the_moment_is_asked_too, teardown),
        cmocka_unit_test_teardown(a_role_judges_what_the_order_records, teardown),
        cmocka_unit_test_teardown(what_is_put_is_owned, teardown),
        cmocka_unit_test_teardown(a_role_of_one_byte_is_judged_and_an_empty_one_is_none, teardown),
        cmocka_unit_test_teardown(an_order_that_is_put_again_is_still_done, teardown),
        cmocka_unit_test(the_first_state_is_a_change_whatever_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
