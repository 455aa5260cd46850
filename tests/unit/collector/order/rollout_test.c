/* SPDX-License-Identifier: Apache-2.0 */
/* Orders over a model of an index and of hosts that come and go: what each host ends with. */
#include "collector/order/rollout_turn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/order/selector.h"
#include "proto/unpack.h"
#include "tests/support/recorded.h"
#include "tests/support/sweep.h"

#define HOSTS     10u
#define ORDERS    5u
#define KEPT_MAX  16u
#define ROUNDS    4096u
#define UNIX_MS   1800000000000ull
#define EVERY_MS  60000u
#define RUN_MS    20000u
#define PER_ROUND 3u

struct kept {
    bool is_others; /* another collector's */
    unsigned order;
    uint32_t generation;
};

struct model_host {
    bool is_connected;
    bool is_broken; /* its streams break */
    bool is_full;   /* answers 429 */
    bool is_leased; /* by another collector */
    bool has_no_spool;
    char label[16];
    struct kept kept[KEPT_MAX];
    unsigned kept_len;
    unsigned puts;
    unsigned refused; /* states that were saved last */
};

struct model_order {
    bool is_there;
    bool is_paused;
    bool is_scheduled;
    bool may; /* the policy lets its orderer order */
    char label[32];
    uint32_t generation;
    uint64_t version; /* of the saved rounds */
    uint8_t rounds[4096];
    size_t rounds_len;
    uint64_t had_run[ROUNDS]; /* hosts, a bit each, by round */
};

struct world {
    struct pfl_rollout *rollout;
    struct model_host hosts[HOSTS];
    struct model_order orders[ORDERS];
    uint64_t now_ms;
    uint64_t random;
    unsigned turns;
    unsigned streams;
    unsigned lists;
    bool has_error;
};

static struct world *w;
static const struct pfl_hash_key key = {{3, 5}};

static uint64_t random_below(uint64_t n)
{
    w->random = w->random * 6364136223846793005ull + 1442695040888963407ull;
    return (w->random >> 33) % n;
}

static const char *orderer_of(unsigned order)
{
    return order % 2 == 0 ? "ann" : "bob";
}

static void order_name(unsigned order, char *dst)
{
    (void)snprintf(dst, 16, "order-%u", order);
}

static unsigned find_order(const char *orderer, const char *name)
{
    unsigned order = (unsigned)(name[6] - '0');

    assert_true(order < ORDERS);
    assert_string_equal(orderer, orderer_of(order));
    return order;
}

static unsigned find_host(const char *name)
{
    return (unsigned)(name[5] - 'a');
}

/* ---- the model of the index ---- */

static int read_order(unsigned i)
{
    struct model_order *o = &w->orders[i];
    char why[PFL_ORDER_WHY_BYTES];
    char text[400];
    Perfleet__Order *order;
    struct pfl_index_order row;
    struct pfl_buf bytes;
    char name[16];
    int rc;

    order_name(i, name);
    (void)snprintf(text, sizeof(text),
                   "name: \"%s\" select { %s } config { buffers { size_kb: 64 } data_sources { "
                   "config { name: \"x\" } } } paused: %s %s",
                   name, o->label, o->is_paused ? "true" : "false",
                   o->is_scheduled
                       ? "schedule { every_ms: 60000 duration_ms: 20000 hosts_count: 3 }"
                       : "continuous { segment_ms: 60000 }");
    rc = pfl_order_parse(pfl_span_of(text, strlen(text)), PFL_ORDER_PLAIN, &order, why);
    if (rc != 0)
        return rc;
    pfl_buf_init(&bytes, 65536);
    rc = pfl_proto_pack(&order->base, &bytes);
    pfl_proto_free(&order->base);
    row = (struct pfl_index_order){orderer_of(i), name, o->generation, o->is_paused,
                                   pfl_buf_get(&bytes)};
    if (rc == 0)
        rc = pfl_known_orders_add(pfl_rollout_get_orders(w->rollout), &row, why);
    pfl_buf_fini(&bytes);
    return rc;
}

static int read_orders(void)
{
    struct pfl_known_orders *table = pfl_rollout_get_orders(w->rollout);
    int rc = 0;

    pfl_known_orders_begin(table);
    for (unsigned i = 0; rc == 0 && i < ORDERS; i++) {
        if (w->orders[i].is_there)
            rc = read_order(i);
    }
    if (pfl_known_orders_end(table, rc == 0))
        pfl_rollout_on_orders(w->rollout);
    return rc;
}

static int save_rounds(struct pfl_known_orders_slot *slot, struct model_order *o)
{
    struct pfl_buf bytes;
    int rc;

    pfl_buf_init(&bytes, sizeof(o->rounds));
    rc = pfl_schedule_save(slot->schedule, &bytes);
    if (rc == 0 && slot->version != o->version) {
        slot->rounds = PFL_KNOWN_ROUNDS_UNREAD; /* another collector saved it */
    } else if (rc == 0) {
        memcpy(o->rounds, pfl_buf_get(&bytes).data, bytes.len);
        o->rounds_len = bytes.len;
        slot->version = ++o->version;
        slot->rounds = PFL_KNOWN_ROUNDS_SAVED;
        pfl_rollout_on_rounds(w->rollout, slot, UNIX_MS + w->now_ms);
    }
    pfl_buf_fini(&bytes);
    return rc;
}

static int do_rounds(void)
{
    struct pfl_known_orders *table = pfl_rollout_get_orders(w->rollout);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < table->len; i++) {
        struct pfl_known_orders_slot *slot = table->slots[i];
        struct model_order *o = &w->orders[find_order(slot->entry->orderer, slot->entry->name)];

        if (slot->rounds == PFL_KNOWN_ROUNDS_UNREAD)
            rc = pfl_known_orders_set_rounds(
                slot, o->version, pfl_span_of(o->rounds, o->rounds_len), 7, UNIX_MS + w->now_ms);
        if (rc == 0 && slot->rounds == PFL_KNOWN_ROUNDS_SAVED)
            rc = pfl_rollout_choose(w->rollout, slot, UNIX_MS + w->now_ms);
        if (rc == PFL_EAGAIN)
            rc = 0;
        if (rc == 0 && slot->rounds == PFL_KNOWN_ROUNDS_UNSAVED)
            rc = save_rounds(slot, o);
    }
    return rc;
}

/* ---- the model of hosts ---- */

static bool fits(const struct model_host *h, const struct model_order *o)
{
    return o->is_there && !o->is_paused &&
           (o->label[0] == '\0' || strstr(o->label, h->label) != NULL);
}

static struct kept *find_kept(struct model_host *h, unsigned order)
{
    for (unsigned i = 0; i < h->kept_len; i++) {
        if (h->kept[i].order == order)
            return &h->kept[i];
    }
    return NULL;
}

static void forget_kept(struct model_host *h, struct kept *kept)
{
    *kept = h->kept[--h->kept_len];
}

static void make_claim(const struct model_host *h, char *dst)
{
    struct pfl_order_key keys[KEPT_MAX];
    char names[KEPT_MAX][16];

    for (unsigned i = 0; i < h->kept_len; i++) {
        order_name(h->kept[i].order, names[i]);
        keys[i] =
            (struct pfl_order_key){orderer_of(h->kept[i].order), names[i], h->kept[i].generation};
    }
    pfl_order_set_write(pfl_order_set_hash(keys, h->kept_len), dst);
}

static int report(unsigned i, bool is_from_start)
{
    struct model_host *h = &w->hosts[i];
    char label[32];
    char *labels[] = {label};
    char claim[PFL_ORDER_SET_TEXT_BYTES];
    char name[16];
    struct pfl_rollout_state state = {.name = name,
                                      .relay = i % 3,
                                      .is_connected = h->is_connected,
                                      .is_from_start = is_from_start,
                                      .labels = labels,
                                      .labels_len = 1,
                                      .orders = claim};

    (void)snprintf(name, sizeof(name), "host-%c", 'a' + (char)i);
    (void)snprintf(label, sizeof(label), "env=%s", h->label);
    make_claim(h, claim);
    if (h->has_no_spool)
        claim[0] = '\0';
    return pfl_rollout_set_host(w->rollout, &state);
}

static int report_all(bool is_from_start)
{
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < HOSTS; i++)
        rc = report(i, is_from_start);
    return rc;
}

static uint32_t on_put(struct model_host *h, const struct pfl_rollout_turn *turn)
{
    unsigned host = (unsigned)(h - w->hosts);
    struct pfl_rollout_put put;
    struct model_order *o;
    struct kept *kept;
    unsigned order;

    pfl_rollout_turn_get_put(turn, &put);
    order = find_order(pfl_rollout_turn_get_orderer(turn), put.order.order->name);
    o = &w->orders[order];
    pfl_record("put %u.%u paused %d, %zu runs", order, put.order.generation,
               put.order.order->paused, put.order.n_run);
    assert_true(fits(h, o) || w->has_error);
    assert_false(put.order.order->paused);
    h->puts++;
    if (h->is_full)
        return 429;
    for (size_t i = 0; i < put.order.n_run; i++) {
        uint64_t id = put.order.run[i]->id;
        unsigned count = 0;

        pfl_record("run %llu", (unsigned long long)id);
        assert_true(id < ROUNDS);
        o->had_run[id] |= 1ull << host;
        for (uint64_t hosts = o->had_run[id]; hosts != 0; hosts &= hosts - 1)
            count++;
        assert_true(count <= PER_ROUND);
    }
    kept = find_kept(h, order);
    if (kept == NULL)
        kept = &h->kept[h->kept_len++];
    *kept = (struct kept){.order = order, .generation = put.order.generation};
    return 0;
}

static uint32_t on_remove(struct model_host *h, const struct pfl_rollout_turn *turn)
{
    Perfleet__SpoolRequest__OrderName name;
    struct kept *kept;

    pfl_rollout_turn_get_remove(turn, &name);
    assert_null(pfl_rollout_turn_get_orderer(turn));
    kept = find_kept(h, find_order(name.orderer, name.name));
    if (kept == NULL || kept->is_others)
        return 404;
    forget_kept(h, kept);
    return 0;
}

/* What it says goes over the wire: its bytes are the turn's. */
static int list(const struct model_host *h, struct pfl_rollout_turn *turn)
{
    Perfleet__SpoolReply reply = PERFLEET__SPOOL_REPLY__INIT;
    Perfleet__HostOrderState states[KEPT_MAX];
    Perfleet__HostOrderState *pointers[KEPT_MAX];
    char names[KEPT_MAX][16];
    ProtobufCMessage *copy = NULL;
    struct pfl_buf bytes;
    int rc;

    reply.has_status = h->has_no_spool;
    reply.status = h->has_no_spool ? 503u : 0u;
    for (unsigned i = 0; !h->has_no_spool && i < h->kept_len; i++) {
        Perfleet__HostOrderState *s = &states[reply.n_order];

        if (h->kept[i].is_others)
            continue;
        perfleet__host_order_state__init(s);
        order_name(h->kept[i].order, names[i]);
        s->orderer = (char *)(uintptr_t)orderer_of(h->kept[i].order);
        s->name = names[i];
        s->has_generation = true;
        s->generation = h->kept[i].generation;
        pointers[reply.n_order++] = s;
    }
    reply.order = pointers;
    w->lists++;
    pfl_buf_init(&bytes, 65536);
    rc = pfl_proto_pack(&reply.base, &bytes);
    if (rc == 0)
        rc = pfl_proto_unpack(&perfleet__spool_reply__descriptor, pfl_buf_get(&bytes), &copy);
    pfl_buf_fini(&bytes);
    if (rc == 0)
        pfl_rollout_turn_on_list(turn, (Perfleet__SpoolReply *)copy);
    else
        pfl_rollout_turn_on_lost(turn);
    return rc;
}

static void connect_stream(const struct model_host *h, struct pfl_rollout_turn *turn)
{
    const char *orderer = pfl_rollout_turn_get_orderer(turn);
    int rc = 0;

    w->streams++;
    if (h->is_broken || !h->is_connected)
        rc = PFL_ECLOSED;
    for (unsigned i = 0; rc == 0 && orderer != NULL && i < ORDERS; i++) {
        if (!w->orders[i].may && strcmp(orderer, orderer_of(i)) == 0)
            rc = PFL_EPERM;
    }
    pfl_rollout_turn_on_connect(turn, rc);
}

/* ---- turns ---- */

static void save(struct model_host *h, const struct pfl_rollout_turn *turn)
{
    h->refused = 0;
    for (size_t i = 0; i < pfl_rollout_turn_count_saved(turn); i++) {
        struct pfl_rollout_saved saved;

        pfl_rollout_turn_get_saved(turn, i, &saved);
        pfl_record("saved %s %d", saved.name, saved.state != NULL ? (int)saved.state->state : -1);
        (void)find_order(saved.orderer, saved.name);
        if (saved.state != NULL &&
            saved.state->state == PERFLEET__HOST_ORDER_STATE__STATE__REFUSED) {
            assert_true(saved.state->why != NULL && saved.state->why[0] != '\0');
            h->refused++;
        }
    }
}

static int do_step(struct model_host *h, struct pfl_rollout_turn *turn, enum pfl_rollout_step step)
{
    if (step == PFL_ROLLOUT_LEASE) {
        pfl_rollout_turn_on_lease(turn, 0, !h->is_leased);
    } else if (step == PFL_ROLLOUT_CONNECT) {
        connect_stream(h, turn);
    } else if (step == PFL_ROLLOUT_LIST) {
        return list(h, turn);
    } else if (step == PFL_ROLLOUT_PUT) {
        pfl_rollout_turn_on_status(turn, on_put(h, turn), "no room");
    } else if (step == PFL_ROLLOUT_REMOVE) {
        pfl_rollout_turn_on_status(turn, on_remove(h, turn), NULL);
    } else {
        save(h, turn);
        pfl_rollout_turn_on_saved(turn, 0);
    }
    return 0;
}

static int do_turn(struct pfl_rollout_host *host)
{
    struct model_host *h = &w->hosts[find_host(pfl_rollout_host_get_name(host))];
    struct pfl_rollout_result result = {.end = PFL_ROLLOUT_LOST};
    struct pfl_rollout_turn *turn = NULL;
    enum pfl_rollout_step step;
    unsigned steps = 0;
    int rc = pfl_rollout_turn_new(w->rollout, host, UNIX_MS + w->now_ms, &turn);

    w->turns++;
    pfl_record("%s at %u, refreshed %d, wanted %d", pfl_rollout_host_get_name(host),
               pfl_rollout_host_get_relay(host, 0), pfl_rollout_host_is_refreshed(host),
               pfl_rollout_is_wanted(w->rollout, host));
    while (turn != NULL && (step = pfl_rollout_turn_take(turn)) != PFL_ROLLOUT_END) {
        int step_rc = do_step(h, turn, step);

        pfl_record("step %d: %d", (int)step, step_rc);
        assert_true(++steps < 200);
        rc = rc != 0 ? rc : step_rc;
    }
    if (turn != NULL)
        pfl_rollout_turn_get_result(turn, &result);
    pfl_rollout_turn_free(turn);
    pfl_rollout_give(w->rollout, host, &result, w->now_ms, random_below(1u << 30));
    return rc;
}

static int do_turns(void)
{
    struct pfl_rollout_host *host;
    int rc = 0;

    for (unsigned i = 0; i < 1000; i++) {
        struct pfl_rollout_now now = {w->now_ms, UNIX_MS + w->now_ms};
        int turn_rc;

        host = pfl_rollout_take(w->rollout, &now);
        if (host == NULL)
            return rc;
        turn_rc = do_turn(host);
        rc = rc != 0 ? rc : turn_rc;
    }
    return rc;
}

static void record_figures(void)
{
    struct pfl_rollout_figures f;

    pfl_rollout_get_figures(w->rollout, &f);
    pfl_record_bytes("figures", pfl_span_of(&f, sizeof(f))); /* 64 bits each */
    pfl_record("%llu", (unsigned long long)pfl_rollout_get_next_ms(w->rollout));
}

/* A second. */
static int tick(void)
{
    int rc;

    record_figures();
    w->now_ms += 1000;
    rc = read_orders();
    if (rc == 0)
        rc = report_all(false);
    if (rc == 0)
        rc = do_rounds();
    record_figures();
    return rc != 0 ? rc : do_turns();
}

/* ---- what holds ---- */

static bool should_have(const struct model_host *h, unsigned order)
{
    const struct model_order *o = &w->orders[order];
    bool may = true;

    for (unsigned i = 0; i < ORDERS; i++)
        may = may && (w->orders[i].may || strcmp(orderer_of(i), orderer_of(order)) != 0);
    return may && fits(h, o);
}

static void assert_converged(void)
{
    for (unsigned i = 0; i < HOSTS; i++) {
        struct model_host *h = &w->hosts[i];

        for (unsigned k = 0; h->is_connected && k < ORDERS; k++) {
            struct kept *kept = find_kept(h, k);

            if (kept != NULL && kept->is_others)
                continue;
            assert_int_equal(kept != NULL, should_have(h, k));
            if (kept != NULL)
                assert_int_equal(kept->generation, w->orders[k].generation);
        }
    }
}

static void restart(void)
{
    pfl_rollout_free(w->rollout);
    w->rollout = NULL;
    assert_int_equal(pfl_rollout_new(2, &key, &w->rollout), 0);
    assert_int_equal(report_all(true), 0);
}

static int setup(void **state)
{
    (void)state;
    w = pfl_mem_zalloc(sizeof(*w));
    if (w == NULL)
        return -1;
    for (unsigned i = 0; i < HOSTS; i++) {
        w->hosts[i].is_connected = true;
        (void)snprintf(w->hosts[i].label, sizeof(w->hosts[i].label), "%s", i < 5 ? "dev" : "prod");
    }
    for (unsigned i = 0; i < ORDERS; i++) {
        w->orders[i].may = true;
        w->orders[i].generation = 1;
    }
    return pfl_rollout_new(2, &key, &w->rollout);
}

static int teardown(void **state)
{
    (void)state;
    pfl_rollout_free(w->rollout);
    pfl_mem_free(w);
    pfl_sweep_assert_no_leak();
    return 0;
}

static void set_label(unsigned order, const char *label)
{
    struct model_order *o = &w->orders[order];

    o->label[0] = '\0';
    if (label != NULL)
        (void)snprintf(o->label, sizeof(o->label), "%s", label);
}

static void a_host_gets_what_fits_and_loses_what_does_not(void **state)
{
    (void)state;
    w->orders[0].is_there = w->orders[1].is_there = true;
    set_label(0, "label: \"env=prod\"");
    assert_int_equal(tick(), 0);
    assert_converged();
    assert_int_equal(w->hosts[0].kept_len, 1);
    assert_int_equal(w->hosts[9].kept_len, 2);
    (void)snprintf(w->hosts[9].label, sizeof(w->hosts[9].label), "dev");
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[9].kept_len, 1);
    w->orders[1].is_paused = true;
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[9].kept_len, 0);
    w->orders[1].is_paused = false;
    w->orders[1].generation = 2;
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[9].kept[0].generation, 2);
    assert_converged();
}

static void a_host_that_has_all_is_left_alone_until_the_refresh(void **state)
{
    unsigned puts;
    unsigned turns;

    (void)state;
    w->orders[0].is_there = true;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(tick(), 0);
    puts = w->hosts[0].puts;
    turns = w->turns;
    assert_int_equal(puts, 1);
    for (unsigned i = 0; i < 400; i++)
        assert_int_equal(tick(), 0);
    assert_int_equal(w->turns, turns);
    for (unsigned i = 0; i < 400; i++)
        assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].puts, puts + 1);
    assert_int_equal(report_all(true), 0); /* the policy was loaded again */
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].puts, puts + 2);
}

static void a_host_whose_segments_are_taken_is_asked_now_and_then(void **state)
{
    unsigned turns;

    (void)state;
    w->orders[0].is_there = true;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(tick(), 0);
    turns = w->turns;
    for (unsigned i = 0; i < 300; i++) {
        pfl_rollout_on_visited(w->rollout, "host-a");
        pfl_rollout_on_visited(w->rollout, "nobody");
        assert_int_equal(tick(), 0);
    }
    assert_true(w->turns >= turns + 9 && w->turns <= turns + 11);
    w->orders[0].is_paused = true;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(tick(), 0);
    turns = w->turns;
    for (unsigned i = 0; i < 100; i++) {
        pfl_rollout_on_visited(w->rollout, "host-a"); /* which should have no orders now */
        assert_int_equal(tick(), 0);
    }
    assert_int_equal(w->turns, turns);
}

static void orders_of_another_collector_are_left_and_cost_one_look(void **state)
{
    unsigned turns;

    (void)state;
    w->orders[0].is_there = true;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(tick(), 0);
    turns = w->turns;
    w->hosts[0].kept[w->hosts[0].kept_len++] =
        (struct kept){.is_others = true, .order = 3, .generation = 9};
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(tick(), 0);
    assert_int_equal(w->turns, turns + 1);
    assert_int_equal(w->hosts[0].kept_len, 2);
    assert_int_equal(w->hosts[0].puts, 1);
}

static void what_the_policy_refuses_is_removed_by_the_collectors_own_right(void **state)
{
    (void)state;
    w->orders[0].is_there = w->orders[1].is_there = true;
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].kept_len, 2);
    assert_int_equal(w->hosts[0].refused, 0);
    w->orders[1].may = false; /* so bob may not */
    assert_int_equal(report_all(true), 0);
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].kept_len, 1);
    assert_int_equal(w->hosts[0].refused, 1);
    assert_converged();
}

static void a_host_that_forgets_again_and_again_is_asked_less_often(void **state)
{
    (void)state;
    w->orders[0].is_there = true;
    for (unsigned i = 0; i < 500; i++) {
        w->hosts[0].kept_len = 0;
        assert_int_equal(tick(), 0);
    }
    assert_true(w->hosts[0].puts > 3);
    assert_true(w->hosts[0].puts < 60);
}

static void a_host_of_another_collector_is_left_until_its_lease_is_void(void **state)
{
    (void)state;
    w->orders[0].is_there = true;
    w->hosts[0].is_leased = true;
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].puts, 0);
    w->hosts[0].is_leased = false;
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].puts, 1);
}

static void hosts_of_a_collector_that_is_lost_are_taken_over_at_once(void **state)
{
    (void)state;
    w->orders[0].is_there = true;
    w->hosts[0].is_leased = true;
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(tick(), 0);
    w->hosts[0].is_leased = false;
    pfl_rollout_on_collector_lost(w->rollout);
    assert_true(pfl_rollout_get_next_ms(w->rollout) == 0);
    assert_int_equal(do_turns(), 0);
    assert_int_equal(w->hosts[0].puts, 1);
}

static void while_all_turns_are_taken_nothing_is_due(void **state)
{
    const struct pfl_rollout_result lost = {.end = PFL_ROLLOUT_LOST};
    const struct pfl_rollout_now now = {0, UNIX_MS};
    struct pfl_rollout_host *hosts[2];

    (void)state;
    w->orders[0].is_there = true;
    assert_int_equal(read_orders(), 0);
    assert_true(pfl_rollout_get_next_ms(w->rollout) == UINT64_MAX);
    assert_int_equal(report_all(false), 0);
    assert_true(pfl_rollout_get_next_ms(w->rollout) == 0);
    for (unsigned i = 0; i < 2; i++) {
        hosts[i] = pfl_rollout_take(w->rollout, &now);
        assert_non_null(hosts[i]);
    }
    assert_null(pfl_rollout_take(w->rollout, &now));
    assert_true(pfl_rollout_get_next_ms(w->rollout) == UINT64_MAX);
    for (unsigned i = 0; i < 2; i++)
        pfl_rollout_give(w->rollout, hosts[i], &lost, 0, 0);
    assert_true(pfl_rollout_get_next_ms(w->rollout) == 0);
}

static void a_host_without_a_spool_is_asked_only_once_it_should_have_an_order(void **state)
{
    (void)state;
    w->orders[0].is_there = true;
    w->orders[0].is_paused = true;
    w->hosts[0].has_no_spool = true;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(tick(), 0);
    assert_int_equal(w->turns, HOSTS - 1);
    w->orders[0].is_paused = false;
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].refused, 1); /* and it is known why */
    w->hosts[0].has_no_spool = false;
    assert_int_equal(tick(), 0);
    assert_int_equal(w->hosts[0].kept_len, 1);
}

static void rounds_that_cannot_be_read_begin_anew(void **state)
{
    struct pfl_known_orders_slot *slot;

    (void)state;
    w->orders[0].is_there = w->orders[0].is_scheduled = true;
    w->orders[0].version = 3;
    w->orders[0].rounds_len = 5;
    memset(w->orders[0].rounds, 0xff, 5);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(tick(), 0);
    slot = pfl_known_orders_find(pfl_rollout_get_orders(w->rollout), "ann", "order-0");
    assert_non_null(slot);
    assert_int_equal(slot->rounds, PFL_KNOWN_ROUNDS_SAVED);
    assert_int_equal(slot->version, 4); /* the first round was chosen, and saved */
}

static void each_host_of_a_round_is_given_its_run_once(void **state)
{
    unsigned puts = 0;

    (void)state;
    w->orders[0].is_there = w->orders[0].is_scheduled = true;
    for (unsigned i = 0; i < 290; i++)
        assert_int_equal(tick(), 0);
    for (unsigned i = 0; i < HOSTS; i++)
        puts += w->hosts[i].puts;
    /* Once without a run at first, unless it was chosen at once; then three in each of 5 rounds. */
    assert_true(puts >= HOSTS + 4 * PER_ROUND && puts <= HOSTS + 6 * PER_ROUND);
}

/* ---- any order of events ---- */

static void change_host(struct model_host *h)
{
    switch (random_below(9)) {
    case 0:
        h->is_connected = !h->is_connected;
        break;
    case 1:
        (void)snprintf(h->label, sizeof(h->label), "%s", random_below(2) != 0 ? "dev" : "prod");
        break;
    case 2:
        h->is_broken = !h->is_broken;
        break;
    case 3:
        h->is_full = !h->is_full;
        break;
    case 4:
        h->kept_len = 0; /* a new disk */
        break;
    case 5:
        h->is_leased = !h->is_leased;
        break;
    case 6:
        h->has_no_spool = !h->has_no_spool;
        break;
    default:
        break;
    }
}

static void change_order(struct model_order *o, unsigned order)
{
    switch (random_below(6)) {
    case 0:
        o->is_there = !o->is_there;
        o->generation++;
        break;
    case 1:
        o->is_paused = !o->is_paused;
        break;
    case 2:
        set_label(order, random_below(2) != 0 ? "label: \"env=dev\"" : NULL);
        o->generation++;
        break;
    case 3:
        o->may = !o->may;
        (void)report_all(true);
        break;
    default:
        break;
    }
}

static void mend(void)
{
    for (unsigned i = 0; i < HOSTS; i++)
        w->hosts[i].is_broken = w->hosts[i].is_full = w->hosts[i].is_leased =
            w->hosts[i].has_no_spool = false;
}

static void whatever_happens_each_host_ends_with_what_it_should_have(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        w->random = seed;
        for (unsigned i = 0; i < ORDERS; i++)
            w->orders[i].is_scheduled = i >= 3;
        for (unsigned i = 0; i < 150; i++) {
            unsigned order = (unsigned)random_below(ORDERS);

            change_host(&w->hosts[random_below(HOSTS)]);
            change_order(&w->orders[order], order);
            if (random_below(20) == 0)
                restart();
            for (uint64_t n = random_below(20); n > 0; n--)
                assert_int_equal(tick(), 0);
        }
        mend();
        for (unsigned i = 0; i < 1300; i++)
            assert_int_equal(tick(), 0);
        assert_converged();
    }
    pfl_assert_recorded(0xb44d0928d0e7b63b); /* and in the tests before */
}

static int sweep_body(void *arg)
{
    void *state = NULL;
    int rc = setup(&state);

    (void)arg;
    if (rc == 0) {
        w->has_error = true;
        w->orders[0].is_there = w->orders[3].is_there = w->orders[3].is_scheduled = true;
        for (unsigned i = 0; rc == 0 && i < 3; i++)
            rc = tick();
        w->orders[0].is_there = false;
        if (rc == 0)
            rc = tick();
    }
    if (w != NULL)
        pfl_rollout_free(w->rollout);
    pfl_mem_free(w);
    return rc == -1 ? PFL_ENOMEM : rc;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    pfl_sweep(sweep_body, NULL, true);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_host_gets_what_fits_and_loses_what_does_not),
        WORLD_TEST(a_host_that_has_all_is_left_alone_until_the_refresh),
        WORLD_TEST(a_host_whose_segments_are_taken_is_asked_now_and_then),
        WORLD_TEST(orders_of_another_collector_are_left_and_cost_one_look),
        WORLD_TEST(what_the_policy_refuses_is_removed_by_the_collectors_own_right),
        WORLD_TEST(a_host_that_forgets_again_and_again_is_asked_less_often),
        WORLD_TEST(a_host_of_another_collector_is_left_until_its_lease_is_void),
        WORLD_TEST(hosts_of_a_collector_that_is_lost_are_taken_over_at_once),
        WORLD_TEST(while_all_turns_are_taken_nothing_is_due),
        WORLD_TEST(a_host_without_a_spool_is_asked_only_once_it_should_have_an_order),
        WORLD_TEST(rounds_that_cannot_be_read_begin_anew),
        WORLD_TEST(each_host_of_a_round_is_given_its_run_once),
        WORLD_TEST(whatever_happens_each_host_ends_with_what_it_should_have),
        cmocka_unit_test(every_allocation_may_fail),
    };

    pfl_record_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
