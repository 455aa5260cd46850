/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on a loop: see rollout_port.h.
 *
 * Happy path: read the orders of the index now and then; choose hosts when a round is due; while a
 * host has a reason and a slot is free, begin a turn and perform each step that it asks for: a
 * request on the host's stream, or a call of the index on its thread. Failures: a turn that fails
 * ends, and the host waits. Ownership: a slot owns its turn and stream. Limits: slots.
 */
#include "collector/order/rollout_port.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "collector/relay/host_timeout.h"
#include "proto/unpack.h"

#define TICK_MS         1000u
#define LISTED_MAX_MS   30000u /* rounds wait so long at most for the relays' lists */
#define HOST_SILENCE_MS 60000u /* then the turn ends */
#define TURN_MAX_MS     300000u
#define SLOW_LOOK_MS    5000u /* a host that is too slow: does another one wait? */
#define NS_OF_MS        1000000u

struct slot {
    struct pfl_work work; /* first: its callbacks cast */
    struct pfl_rollout_port *port;
    struct pfl_rollout_host *host;   /* NULL: free */
    struct pfl_rollout_turn *turn;   /* owned */
    struct pfl_spool_stream *stream; /* owned */
    uv_timer_t timer;
    enum pfl_rollout_step step;
    unsigned relay;
    uint32_t request_id; /* 0: none is under way */
    uint64_t end_ms;     /* of the turn, at the latest */
    uint64_t silent_ms;  /* when the host is silent for too long */
    struct pfl_host_timeout pace;
    bool is_ready; /* the stream */
    bool is_running;
    bool is_held; /* the lease */
    int rc;       /* of the work */
    char why[PFL_INDEX_WHY_BYTES];
};

struct pfl_rollout_port {
    struct pfl_rollout_port_conf conf;
    struct pfl_rollout *rollout; /* owned */
    struct slot slots[PFL_ROLLOUT_TURNS_MAX];
    struct pfl_known_orders_port *orders; /* owned */
    uv_timer_t timer;                     /* the next turn */
    uv_timer_t tick;
    struct pfl_rollout_turn_figures turns;
    uint64_t opened_ms;
    uint64_t read_ms; /* when orders are read again */
    unsigned listed;  /* relays whose list is whole: a bit each */
    unsigned handles;
    bool is_stopped;
};

static void run(struct slot *s);
static void plan(struct pfl_rollout_port *p);

static uint64_t make_random(void)
{
    uint64_t random = 0;

    (void)!getrandom(&random, sizeof(random), 0);
    return random;
}

static uint64_t now_unix_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_REALTIME) / NS_OF_MS;
}

/* ---- orders and rounds ---- */

static void read_again(struct pfl_rollout_port *p)
{
    p->read_ms = uv_now(p->conf.loop) + PFL_ROLLOUT_POLL_MS;
    pfl_known_orders_port_read(p->orders);
}

void pfl_rollout_port_on_orders(struct pfl_rollout_port *self)
{
    read_again(self);
}

/* Hosts are chosen among all that are connected: so the relays' lists must be there. */
static bool has_hosts(const struct pfl_rollout_port *p)
{
    unsigned listed = 0;

    for (unsigned i = 0; i < PFL_RELAYS_MAX; i++)
        listed += p->listed >> i & 1u;
    return listed != 0 && (listed >= pfl_relays_count_connected(p->conf.relays) ||
                           uv_now(p->conf.loop) - p->opened_ms >= LISTED_MAX_MS);
}

static void choose_hosts(struct pfl_rollout_port *p)
{
    struct pfl_known_orders *table = pfl_rollout_get_orders(p->rollout);
    uint64_t unix_ms = now_unix_ms();

    for (size_t i = 0; i < table->len; i++) {
        struct pfl_known_orders_slot *slot = table->slots[i];
        int rc = pfl_rollout_choose(p->rollout, slot, unix_ms);

        if (rc != 0 && rc != PFL_EAGAIN)
            pfl_log_warn("round-not-chosen", "orderer=%s name=%s reason=\"%s\"",
                         slot->entry->orderer, slot->entry->name, pfl_err_str(rc));
    }
}

static void on_tick(uv_timer_t *timer)
{
    struct pfl_rollout_port *p = timer->data;

    if (has_hosts(p))
        choose_hosts(p);
    if (uv_now(p->conf.loop) >= p->read_ms)
        read_again(p);
    else
        pfl_known_orders_port_continue(p->orders);
}

/* ---- calls of the index about a host ---- */

static int save_states(struct slot *s, struct pfl_index *index)
{
    const char *host = pfl_rollout_host_get_name(s->host);
    size_t len = pfl_rollout_turn_count_saved(s->turn);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < len; i++) {
        struct pfl_rollout_saved saved;
        struct pfl_index_state_of_order of;

        pfl_rollout_turn_get_saved(s->turn, i, &saved);
        of = (struct pfl_index_state_of_order){saved.name, saved.state};
        rc = pfl_index_set_host_state(index, host, saved.orderer, &of);
    }
    return rc;
}

static void run_work(struct pfl_work *work)
{
    struct slot *s = (struct slot *)(void *)work;
    struct pfl_index *index = s->port->conf.engines->index;

    if (s->step == PFL_ROLLOUT_LEASE)
        s->rc = pfl_index_lease(index, pfl_rollout_host_get_name(s->host), &s->is_held);
    else
        s->rc = save_states(s, index);
    if (s->rc != 0)
        (void)snprintf(s->why, sizeof(s->why), "%s", pfl_index_get_error(index));
}

static void give_result(struct slot *s)
{
    if (s->step == PFL_ROLLOUT_LEASE)
        pfl_rollout_turn_on_lease(s->turn, s->rc, s->is_held);
    else
        pfl_rollout_turn_on_saved(s->turn, s->rc);
}

static void on_work_done(struct pfl_work *work)
{
    struct slot *s = (struct slot *)(void *)work;

    if (s->rc != 0)
        pfl_log_warn("index-failed", "host=%s reason=%s", pfl_rollout_host_get_name(s->host),
                     pfl_log_quote_reason(s->why));
    give_result(s);
    run(s);
}

static void begin_work(struct slot *s)
{
    (void)uv_timer_stop(&s->timer);
    pfl_host_timeout_end(&s->pace, uv_now(s->port->conf.loop), 0);
    s->rc = pfl_worker_submit(s->port->conf.engines->index_worker, &s->work);
    if (s->rc != 0)
        give_result(s);
}

/* ---- the host's stream ---- */

static void drop_stream(struct slot *s)
{
    pfl_spool_stream_close(s->stream);
    s->stream = NULL;
    s->is_ready = false;
    s->request_id = 0;
}

static void lose_stream(struct slot *s)
{
    drop_stream(s);
    pfl_rollout_turn_on_lost(s->turn);
}

static void watch(struct slot *s);

/* Others wait for the slot. */
static void on_late(uv_timer_t *timer)
{
    struct slot *s = timer->data;
    uint64_t now_ms = uv_now(s->port->conf.loop);
    bool is_silent = now_ms >= s->silent_ms;

    if (!is_silent && (pfl_host_timeout_get_left_ms(&s->pace, now_ms) != 0 ||
                       !pfl_rollout_is_wanted(s->port->rollout, s->host))) {
        watch(s);
        return;
    }
    pfl_log_warn(is_silent ? "host-silent" : "host-slow", "host=%s effect=\"the turn ends\"",
                 pfl_rollout_host_get_name(s->host));
    lose_stream(s);
    run(s);
}

static void watch(struct slot *s)
{
    uint64_t now_ms = uv_now(s->port->conf.loop);
    uint64_t silent_ms = s->silent_ms > now_ms ? s->silent_ms - now_ms : 0;
    uint64_t wait_ms = pfl_host_timeout_get_left_ms(&s->pace, now_ms);

    if (wait_ms == 0)
        wait_ms = SLOW_LOOK_MS;
    (void)uv_timer_start(&s->timer, on_late, wait_ms < silent_ms ? wait_ms : silent_ms, 0);
}

static void await(struct slot *s)
{
    uint64_t now_ms = uv_now(s->port->conf.loop);

    pfl_host_timeout_begin(&s->pace, now_ms);
    s->silent_ms = now_ms + HOST_SILENCE_MS < s->end_ms ? now_ms + HOST_SILENCE_MS : s->end_ms;
    watch(s);
}

static void on_ready(void *user)
{
    struct slot *s = user;

    s->is_ready = true;
    pfl_rollout_turn_on_connect(s->turn, 0);
    run(s);
}

static void on_closed(void *user, int err, const char *why)
{
    struct slot *s = user;
    bool was_ready = s->is_ready;

    s->stream = NULL;
    drop_stream(s);
    pfl_log_debug("spool-stream-lost", "host=%s reason=%s", pfl_rollout_host_get_name(s->host),
                  pfl_log_quote_reason(why));
    if (was_ready)
        pfl_rollout_turn_on_lost(s->turn);
    else
        pfl_rollout_turn_on_connect(s->turn, err == PFL_EPERM ? PFL_EPERM : PFL_ECLOSED);
    run(s);
}

static void on_reply(void *user, Perfleet__SpoolReply *reply)
{
    struct slot *s = user;

    if (s->request_id == 0 || reply->id != s->request_id) {
        pfl_proto_free(&reply->base);
        lose_stream(s); /* nothing was asked for */
        run(s);
        return;
    }
    s->request_id = 0;
    pfl_host_timeout_end(&s->pace, uv_now(s->port->conf.loop), 0);
    s->pace.answers++;
    if (s->step == PFL_ROLLOUT_LIST) {
        pfl_rollout_turn_on_list(s->turn, reply);
    } else {
        pfl_rollout_turn_on_status(s->turn, reply->status, reply->why);
        pfl_proto_free(&reply->base);
    }
    run(s);
}

static uint32_t make_request_id(void)
{
    static uint32_t last;

    last = last == UINT32_MAX ? 1 : last + 1;
    return last;
}

static int send_request(struct slot *s)
{
    Perfleet__SpoolRequest request = PERFLEET__SPOOL_REQUEST__INIT;
    Perfleet__SpoolRequest__Empty list = PERFLEET__SPOOL_REQUEST__EMPTY__INIT;
    Perfleet__SpoolRequest__OrderName name;
    struct pfl_rollout_put put;

    s->request_id = make_request_id();
    request.has_id = true;
    request.id = s->request_id;
    if (s->step == PFL_ROLLOUT_LIST) {
        request.list_orders = &list;
    } else if (s->step == PFL_ROLLOUT_PUT) {
        pfl_rollout_turn_get_put(s->turn, &put);
        request.put_order = &put.order;
    } else {
        pfl_rollout_turn_get_remove(s->turn, &name);
        request.remove_order = &name;
    }
    return pfl_spool_stream_send(s->stream, &request);
}

/* The last reply was used: the next one may come. */
static void ask(struct slot *s)
{
    await(s);
    pfl_spool_stream_resume(s->stream);
    if (s->stream != NULL && send_request(s) != 0)
        lose_stream(s);
}

static void connect_stream(struct slot *s)
{
    struct pfl_rollout_port *p = s->port;
    struct pfl_spool_stream_conf conf = {
        .loop = p->conf.loop,
        .client = pfl_relays_get_client(p->conf.relays, s->relay),
        .host = pfl_rollout_host_get_name(s->host),
        .orderer = pfl_rollout_turn_get_orderer(s->turn),
        .on_ready = on_ready,
        .on_reply = on_reply,
        .on_closed = on_closed,
        .user = s,
    };
    int rc = PFL_ECLOSED;

    drop_stream(s);
    if (conf.client != NULL)
        rc = pfl_spool_stream_open(&conf, &s->stream);
    if (rc == 0)
        await(s);
    else
        pfl_rollout_turn_on_connect(s->turn, PFL_ECLOSED);
}

/* ---- turns ---- */

static void log_turn(const struct slot *s, const struct pfl_rollout_turn_figures *f)
{
    const char *host = pfl_rollout_host_get_name(s->host);
    const char *why = pfl_rollout_turn_get_why(s->turn);

    if (f->put + f->removed != 0)
        pfl_log_info("orders-set", "host=%s put=%llu removed=%llu", host,
                     (unsigned long long)f->put, (unsigned long long)f->removed);
    if (why[0] != '\0')
        pfl_log_warn("orders-not-set", "host=%s reason=%s", host, pfl_log_quote_reason(why));
}

static void finish(struct slot *s)
{
    struct pfl_rollout_port *p = s->port;
    struct pfl_rollout_turn_figures figures;
    struct pfl_rollout_result result;

    pfl_rollout_turn_get_result(s->turn, &result);
    pfl_rollout_turn_get_figures(s->turn, &figures);
    result.was_slow = pfl_host_timeout_was_slow(&s->pace, uv_now(p->conf.loop));
    if (!p->is_stopped && result.end != PFL_ROLLOUT_LEASED)
        log_turn(s, &figures);
    p->turns.put += figures.put;
    p->turns.removed += figures.removed;
    p->turns.refused += figures.refused;
    (void)uv_timer_stop(&s->timer);
    drop_stream(s);
    pfl_rollout_turn_free(s->turn);
    s->turn = NULL;
    pfl_rollout_give(p->rollout, s->host, &result, uv_now(p->conf.loop), make_random());
    s->host = NULL;
    s->is_running = false;
    plan(p);
}

static void begin_step(struct slot *s)
{
    if (s->step == PFL_ROLLOUT_CONNECT) {
        connect_stream(s);
    } else if (s->step == PFL_ROLLOUT_LEASE || s->step == PFL_ROLLOUT_SAVE) {
        drop_stream(s); /* it is needed no more */
        begin_work(s);
    } else {
        ask(s);
    }
}

static void run(struct slot *s)
{
    if (s->is_running || s->turn == NULL)
        return;
    s->is_running = true;
    for (;;) {
        enum pfl_rollout_step step = pfl_rollout_turn_take(s->turn);

        if (step == PFL_ROLLOUT_WAIT)
            break;
        s->step = step;
        if (step == PFL_ROLLOUT_END) {
            finish(s);
            return;
        }
        begin_step(s);
    }
    s->is_running = false;
}

static int begin_turn(struct slot *s, struct pfl_rollout_host *host)
{
    int rc = pfl_rollout_turn_new(s->port->rollout, host, now_unix_ms(), &s->turn);

    if (rc != 0)
        return rc;
    s->host = host;
    s->end_ms = uv_now(s->port->conf.loop) + TURN_MAX_MS;
    s->pace = (struct pfl_host_timeout){.bytes = 0};
    s->relay = pfl_rollout_host_get_relay(host, (unsigned)(make_random() % PFL_RELAYS_MAX));
    run(s);
    return 0;
}

static struct slot *find_slot(struct pfl_rollout_port *p)
{
    for (unsigned i = 0; i < p->conf.turns_max; i++) {
        if (p->slots[i].host == NULL)
            return &p->slots[i];
    }
    return NULL;
}

static void on_timer(uv_timer_t *timer)
{
    static const struct pfl_rollout_result no_memory = {.end = PFL_ROLLOUT_AGAIN};
    struct pfl_rollout_port *p = timer->data;
    struct pfl_rollout_now now = {uv_now(p->conf.loop), now_unix_ms()};
    struct pfl_rollout_host *host;
    struct slot *s;

    while ((s = find_slot(p)) != NULL && (host = pfl_rollout_take(p->rollout, &now)) != NULL) {
        if (begin_turn(s, host) != 0)
            pfl_rollout_give(p->rollout, host, &no_memory, now.now_ms, make_random());
    }
    plan(p);
}

/* Turns begin in the loop's next turn, however one ended. Before the orders were read nobody has
 * one: what hosts have would not fit. */
static void plan(struct pfl_rollout_port *p)
{
    uint64_t next_ms = pfl_rollout_get_next_ms(p->rollout);
    uint64_t now_ms = uv_now(p->conf.loop);

    if (p->is_stopped || !pfl_known_orders_port_is_read(p->orders) || next_ms == UINT64_MAX)
        return;
    (void)uv_timer_start(&p->timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

/* ---- what relays say ---- */

void pfl_rollout_port_on_host(struct pfl_rollout_port *self, unsigned relay,
                              const struct pfl_spool_host *host)
{
    struct pfl_rollout_state state = {
        .name = host->name,
        .relay = relay,
        .is_connected = host->is_connected,
        .is_from_start = host->is_from_start,
        .labels = host->labels,
        .labels_len = host->labels_len,
        .orders = host->orders,
    };
    int rc = pfl_rollout_set_host(self->rollout, &state);

    if (rc != 0)
        pfl_log_warn("host-without-orders", "host=%s reason=\"%s\"", pfl_log_quote_str(host->name),
                     pfl_err_str(rc));
}

void pfl_rollout_port_on_listed(struct pfl_rollout_port *self, unsigned relay, bool is_whole)
{
    if (is_whole)
        self->listed |= 1u << relay;
    plan(self);
}

void pfl_rollout_port_on_relay_lost(struct pfl_rollout_port *self, unsigned relay)
{
    self->listed &= ~(1u << relay);
    pfl_rollout_forget_relay(self->rollout, relay);
}

void pfl_rollout_port_on_collector_lost(struct pfl_rollout_port *self)
{
    pfl_rollout_on_collector_lost(self->rollout);
    plan(self);
}

void pfl_rollout_port_on_visited(struct pfl_rollout_port *self, const char *host)
{
    pfl_rollout_on_visited(self->rollout, host);
    plan(self);
}

void pfl_rollout_port_get_figures(const struct pfl_rollout_port *self,
                                  struct pfl_rollout_port_figures *ret_figures)
{
    pfl_rollout_get_figures(self->rollout, &ret_figures->rollout);
    ret_figures->turns = self->turns;
}

/* ---- opening and the end ---- */

static void init_slots(struct pfl_rollout_port *p)
{
    for (unsigned i = 0; i < PFL_ROLLOUT_TURNS_MAX; i++) {
        struct slot *s = &p->slots[i];

        s->port = p;
        s->work.run = run_work;
        s->work.on_done = on_work_done;
        s->work.who = i + 1;
        (void)uv_timer_init(p->conf.loop, &s->timer);
        s->timer.data = s;
    }
}

static void init_timers(struct pfl_rollout_port *p)
{
    (void)uv_timer_init(p->conf.loop, &p->timer);
    p->timer.data = p;
    (void)uv_timer_init(p->conf.loop, &p->tick);
    p->tick.data = p;
    (void)uv_timer_start(&p->tick, on_tick, 0, TICK_MS);
    p->opened_ms = uv_now(p->conf.loop);
    p->handles = PFL_ROLLOUT_TURNS_MAX + 2;
}

static void on_orders_changed(void *user)
{
    plan(user);
}

static int open_orders(struct pfl_rollout_port *p)
{
    struct pfl_known_orders_port_conf orders = {
        .engines = p->conf.engines,
        .rollout = p->rollout,
        .on_changed = on_orders_changed,
        .user = p,
    };

    return pfl_known_orders_port_new(&orders, &p->orders);
}

int pfl_rollout_port_open(const struct pfl_rollout_port_conf *conf,
                          struct pfl_rollout_port **ret_port)
{
    struct pfl_rollout_port *p = pfl_mem_zalloc(sizeof(*p));
    const struct pfl_hash_key key = {{make_random(), make_random()}};
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    rc = pfl_rollout_new(conf->turns_max, &key, &p->rollout);
    if (rc == 0)
        rc = open_orders(p);
    if (rc != 0) {
        pfl_rollout_free(p->rollout);
        pfl_mem_free(p);
        return rc;
    }
    init_slots(p);
    init_timers(p);
    *ret_port = p;
    return 0;
}

void pfl_rollout_port_stop(struct pfl_rollout_port *self)
{
    if (self == NULL)
        return;
    self->is_stopped = true;
    pfl_known_orders_port_stop(self->orders);
    (void)uv_timer_stop(&self->timer);
    (void)uv_timer_stop(&self->tick);
    for (unsigned i = 0; i < PFL_ROLLOUT_TURNS_MAX; i++) {
        struct slot *s = &self->slots[i];

        if (s->turn == NULL)
            continue;
        lose_stream(s);
        run(s);
    }
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_rollout_port *p = handle->data;

    if (--p->handles != 0)
        return;
    pfl_known_orders_port_free(p->orders);
    pfl_rollout_free(p->rollout);
    pfl_mem_free(p);
}

void pfl_rollout_port_close(struct pfl_rollout_port *self)
{
    if (self == NULL)
        return;
    for (unsigned i = 0; i < PFL_ROLLOUT_TURNS_MAX; i++) {
        assert(self->slots[i].turn == NULL);
        self->slots[i].timer.data = self;
        uv_close((uv_handle_t *)&self->slots[i].timer, on_handle_closed);
    }
    uv_close((uv_handle_t *)&self->timer, on_handle_closed);
    uv_close((uv_handle_t *)&self->tick, on_handle_closed);
}
