/* SPDX-License-Identifier: Apache-2.0 */
/* One turn at a host, whose answers are given here. */
#include "collector/order/rollout_turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "proto/unpack.h"
#include "tests/support/sweep.h"

static const struct pfl_hash_key key = {{3, 5}};

#define UNIX_MS 1800000000000ull

static const char order_text[] =
    "name: \"web\" select { } config { buffers { size_kb: 64 } data_sources { config { name: \"x\" "
    "} } } continuous { segment_ms: 60000 }";

static const struct pfl_rollout_now start = {0, UNIX_MS};

/* ann's order `web`, for one host. */
static struct pfl_rollout *make_rollout(void)
{
    struct pfl_rollout_state state = {.name = "one", .is_connected = true, .orders = "0"};
    struct pfl_rollout *rollout = NULL;
    struct pfl_index_order row = {.orderer = "ann", .name = "web", .generation = 1};
    char why[PFL_ORDER_WHY_BYTES];
    Perfleet__Order *order = NULL;
    struct pfl_buf bytes;

    assert_int_equal(pfl_rollout_new(2, &key, &rollout), 0);
    assert_int_equal(pfl_order_parse(pfl_span_of(order_text, sizeof(order_text) - 1),
                                     PFL_ORDER_PLAIN, &order, why),
                     0);
    pfl_buf_init(&bytes, 65536);
    assert_int_equal(pfl_proto_pack(&order->base, &bytes), 0);
    pfl_proto_free(&order->base);
    row.order = pfl_buf_get(&bytes);
    pfl_known_orders_begin(pfl_rollout_get_orders(rollout));
    assert_int_equal(pfl_known_orders_add(pfl_rollout_get_orders(rollout), &row, why), 0);
    pfl_buf_fini(&bytes);
    assert_true(pfl_known_orders_end(pfl_rollout_get_orders(rollout), true));
    pfl_rollout_on_orders(rollout);
    assert_int_equal(pfl_rollout_set_host(rollout, &state), 0);
    return rollout;
}

/* It has `web`, and an order that nobody put, each with a reason of 2000 bytes. */
static void say_much(struct pfl_rollout_turn *turn)
{
    static char why[2001];
    char *names[] = {"web", "nobodys"};
    Perfleet__SpoolReply reply = PERFLEET__SPOOL_REPLY__INIT;
    Perfleet__HostOrderState states[2];
    Perfleet__HostOrderState *list[] = {&states[0], &states[1]};
    ProtobufCMessage *copy = NULL;
    struct pfl_buf bytes;

    memset(why, 'x', sizeof(why) - 1);
    for (unsigned i = 0; i < 2; i++) {
        perfleet__host_order_state__init(&states[i]);
        states[i].orderer = "ann";
        states[i].name = names[i];
        states[i].has_generation = true;
        states[i].generation = 1;
        states[i].why = why;
    }
    reply.order = list;
    reply.n_order = 2;
    pfl_buf_init(&bytes, 65536);
    assert_int_equal(pfl_proto_pack(&reply.base, &bytes), 0);
    assert_int_equal(
        pfl_proto_unpack(&perfleet__spool_reply__descriptor, pfl_buf_get(&bytes), &copy), 0);
    pfl_buf_fini(&bytes);
    pfl_rollout_turn_on_list(turn, (Perfleet__SpoolReply *)copy);
}

static void assert_saved_is_bounded(const struct pfl_rollout_turn *turn)
{
    unsigned states = 0;

    for (size_t i = 0; i < pfl_rollout_turn_count_saved(turn); i++) {
        struct pfl_rollout_saved saved;

        pfl_rollout_turn_get_saved(turn, i, &saved);
        if (saved.state == NULL)
            continue;
        assert_string_equal(saved.name, "web");
        assert_int_equal(strlen(saved.state->why), PFL_ROLLOUT_WHY_BYTES - 1);
        states++;
    }
    assert_int_equal(states, 1);
}

static void do_step(struct pfl_rollout_turn *turn, enum pfl_rollout_step step)
{
    switch (step) {
    case PFL_ROLLOUT_LEASE:
        pfl_rollout_turn_on_lease(turn, 0, true);
        break;
    case PFL_ROLLOUT_CONNECT:
        pfl_rollout_turn_on_connect(turn, 0);
        break;
    case PFL_ROLLOUT_LIST:
        say_much(turn);
        break;
    case PFL_ROLLOUT_REMOVE:
        pfl_rollout_turn_on_status(turn, 404, NULL);
        break;
    case PFL_ROLLOUT_SAVE:
        assert_saved_is_bounded(turn);
        pfl_rollout_turn_on_saved(turn, 0);
        break;
    default:
        fail();
    }
}

static void what_a_host_says_of_other_orders_is_not_kept(void **state)
{
    struct pfl_rollout *rollout = make_rollout();
    struct pfl_rollout_host *host = pfl_rollout_take(rollout, &start);
    struct pfl_rollout_result result;
    struct pfl_rollout_turn *turn = NULL;
    enum pfl_rollout_step step;
    unsigned steps = 0;

    (void)state;
    assert_non_null(host);
    assert_int_equal(pfl_rollout_turn_new(rollout, host, UNIX_MS, &turn), 0);
    while ((step = pfl_rollout_turn_take(turn)) != PFL_ROLLOUT_END) {
        do_step(turn, step);
        assert_true(++steps < 20);
    }
    pfl_rollout_turn_get_result(turn, &result);
    pfl_rollout_turn_free(turn);
    pfl_rollout_give(rollout, host, &result, 0, 0);
    assert_int_equal(result.end, PFL_ROLLOUT_DONE);
    pfl_rollout_free(rollout);
    pfl_sweep_assert_no_leak();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_host_says_of_other_orders_is_not_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
