/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/unpack.h"
#include "tests/unit/collector/index/index_cases_impl.h"

#define TEXT_BYTES 64u

struct orders {
    unsigned len;
    uint32_t generation;
    bool is_paused;
};

static bool on_order(void *user, const struct pfl_index_order *order)
{
    struct orders *orders = user;
    Perfleet__Order *unpacked;

    assert_int_equal(pfl_proto_unpack(&perfleet__order__descriptor, order->order,
                                      (ProtobufCMessage **)&unpacked),
                     0);
    assert_string_equal(unpacked->name, order->name);
    pfl_proto_free(&unpacked->base);
    orders->len++;
    orders->generation = order->generation;
    orders->is_paused = order->is_paused;
    return true;
}

static struct orders list_orders(void)
{
    struct orders orders = {0};

    assert_int_equal(pfl_index_list_orders(index_cases_get(), on_order, &orders), 0);
    return orders;
}

void an_order_has_a_generation(void **state)
{
    Perfleet__Order order = PERFLEET__ORDER__INIT;
    uint32_t generation;

    (void)state;
    order.name = "cpu";
    assert_int_equal(pfl_index_put_order(index_cases_get(), "me", &order, &generation), 0);
    assert_int_equal(generation, 1);
    assert_int_equal(pfl_index_put_order(index_cases_get(), "me", &order, &generation), 0);
    assert_int_equal(generation, 2);
    assert_int_equal(list_orders().len, 1);
    assert_int_equal(list_orders().generation, 2);
    assert_int_equal(pfl_index_pause_order(index_cases_get(), "me", "cpu", true), 0);
    assert_true(list_orders().is_paused);
    assert_int_equal(pfl_index_pause_order(index_cases_get(), "you", "cpu", true), PFL_ENOENT);
    assert_int_equal(pfl_index_remove_order(index_cases_get(), "me", "cpu"), 0);
    assert_int_equal(pfl_index_remove_order(index_cases_get(), "me", "cpu"), PFL_ENOENT);
    assert_int_equal(list_orders().len, 0);
    assert_int_equal(pfl_index_put_order(index_cases_get(), "me", &order, &generation), 0);
    assert_int_equal(generation, 3);
    assert_false(list_orders().is_paused);
}

void removed_orders_leave_a_generation_and_no_rows(void **state)
{
    Perfleet__Order order = PERFLEET__ORDER__INIT;
    uint32_t generation;
    char name[16];

    (void)state;
    order.name = "cpu";
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(pfl_index_put_order(index_cases_get(), "me", &order, &generation), 0);
    assert_int_equal(pfl_index_remove_order(index_cases_get(), "me", "cpu"), 0);
    order.name = name;
    for (unsigned i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof(name), "o%u", i);
        assert_int_equal(pfl_index_put_order(index_cases_get(), "me", &order, &generation), 0);
        assert_int_equal(pfl_index_remove_order(index_cases_get(), "me", name), 0);
    }
    assert_int_equal(index_cases_count("orders"), 1);
    order.name = "cpu";
    assert_int_equal(pfl_index_put_order(index_cases_get(), "me", &order, &generation), 0);
    assert_true(generation > 7);
    assert_int_equal(pfl_index_put_order(index_cases_get(), "you", &order, &generation), 0);
    assert_int_equal(generation, 1);
    assert_int_equal(list_orders().len, 2);
    assert_int_equal(pfl_index_remove_order(index_cases_get(), "me", ""), PFL_EINVAL);
}

static bool on_state(void *user, const struct pfl_index_host_state *state)
{
    Perfleet__HostOrderState *unpacked;

    assert_int_equal(pfl_proto_unpack(&perfleet__host_order_state__descriptor, state->state,
                                      (ProtobufCMessage **)&unpacked),
                     0);
    assert_string_equal(unpacked->why, "no right");
    pfl_proto_free(&unpacked->base);
    (*(unsigned *)user)++;
    return true;
}

static unsigned count_states(const char *name)
{
    const struct pfl_index_host_state_query query = {
        .orderer = "me", .name = name, .after_host = "", .limit = 100};
    unsigned count = 0;

    assert_int_equal(pfl_index_list_host_states(index_cases_get(), &query, on_state, &count), 0);
    return count;
}

void what_hosts_say_of_orders_is_kept(void **state)
{
    Perfleet__HostOrderState says = PERFLEET__HOST_ORDER_STATE__INIT;
    Perfleet__Order order = PERFLEET__ORDER__INIT;
    struct pfl_index_state_of_order of = {"cpu", &says};
    uint32_t generation;

    (void)state;
    says.why = "no right";
    order.name = "cpu";
    assert_int_equal(pfl_index_put_order(index_cases_get(), "me", &order, &generation), 0);
    assert_int_equal(pfl_index_set_host_state(index_cases_get(), "a", "me", &of), 0);
    assert_int_equal(pfl_index_set_host_state(index_cases_get(), "a", "me", &of), 0);
    assert_int_equal(pfl_index_set_host_state(index_cases_get(), "b", "me", &of), 0);
    of.name = "mem";
    assert_int_equal(pfl_index_set_host_state(index_cases_get(), "b", "me", &of), 0);
    assert_int_equal(count_states("cpu"), 2);
    assert_int_equal(count_states("mem"), 1);
    of = (struct pfl_index_state_of_order){"cpu", NULL};
    assert_int_equal(pfl_index_set_host_state(index_cases_get(), "a", "me", &of), 0);
    assert_int_equal(count_states("cpu"), 1);
    assert_int_equal(pfl_index_remove_order(index_cases_get(), "me", "cpu"), 0);
    assert_int_equal(count_states("cpu"), 0);
    assert_int_equal(count_states("mem"), 1);
}

static void append(char *text, const char *first, const char *second)
{
    size_t len = strlen(text);

    (void)snprintf(text + len, TEXT_BYTES - len, "%s%s ", first, second);
}

static bool on_name(void *user, const struct pfl_index_order *order)
{
    append(user, order->orderer, order->name);
    return true;
}

static bool on_host(void *user, const struct pfl_index_host_state *state)
{
    append(user, state->host, "");
    return true;
}

void orders_and_their_hosts_come_in_pages(void **state)
{
    static const char *const names[][2] = {{"b", "1"}, {"a", "2"}, {"a", "1"}, {"c", "1"}};
    Perfleet__HostOrderState says = PERFLEET__HOST_ORDER_STATE__INIT;
    Perfleet__Order order = PERFLEET__ORDER__INIT;
    const struct pfl_index_state_of_order of = {"1", &says};
    struct pfl_index_order_query query = {.from_orderer = "a", .from_name = "2", .limit = 2};
    struct pfl_index_host_state_query states = {
        .orderer = "a", .name = "1", .after_host = "x", .limit = 2};
    char text[TEXT_BYTES] = "";
    uint32_t generation;

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        order.name = (char *)(uintptr_t)names[i][1];
        assert_int_equal(pfl_index_put_order(index_cases_get(), names[i][0], &order, &generation),
                         0);
    }
    assert_int_equal(pfl_index_list_orders_from(index_cases_get(), &query, on_name, text), 0);
    assert_string_equal(text, "a2 b1 ");
    for (const char *host = "zyxw"; *host != '\0'; host++) {
        const char name[2] = {*host, '\0'};

        assert_int_equal(pfl_index_set_host_state(index_cases_get(), name, "a", &of), 0);
    }
    text[0] = '\0';
    assert_int_equal(pfl_index_list_host_states(index_cases_get(), &states, on_host, text), 0);
    assert_string_equal(text, "y z ");
}

static void on_rounds(void *user, uint64_t version, struct pfl_span rounds)
{
    assert_int_equal(rounds.len, 5);
    *(uint64_t *)user = version;
}

void one_collector_saves_a_schedule_at_a_time(void **state)
{
    struct pfl_span rounds = pfl_span_of("a\0b\xff\x80", 5);
    uint64_t version = 0;

    (void)state;
    assert_int_equal(pfl_index_get_rounds(index_cases_get(), "me", "cpu", on_rounds, &version),
                     PFL_ENOENT);
    assert_int_equal(pfl_index_set_rounds(index_cases_get(), "me", "cpu", 0, rounds), 0);
    assert_int_equal(pfl_index_set_rounds(index_cases_get(), "me", "cpu", 0, rounds), PFL_EEXIST);
    assert_int_equal(pfl_index_get_rounds(index_cases_get(), "me", "cpu", on_rounds, &version), 0);
    assert_int_equal(pfl_index_set_rounds(index_cases_get(), "me", "cpu", version, rounds), 0);
    assert_int_equal(pfl_index_set_rounds(index_cases_get(), "me", "cpu", version, rounds),
                     PFL_EEXIST);
}
