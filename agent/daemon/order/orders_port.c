/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders at work: see orders_port.h.
 *
 * Happy path: each tick decides for each order whether it is to run; one that is gets a session
 * (order_session_port.h), which is stopped when the choice ends. The session of an order on a
 * trigger is a ring; each copy of it is a run. Failures: the order waits, and its state says why.
 * Ownership: the table, a session for each order that has one, copies. Limits: the table's.
 */
#include "agent/daemon/order/orders_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "agent/daemon/order/order_copy_port.h"
#include "agent/daemon/order/order_session_port.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ulid.h"
#include "tunnel/backoff.h"

#define TICK_MS   1000u
#define NS_PER_MS UINT64_C(1000000)

#define MS_PER_HOUR 3600000u

#define WAITING PERFLEET__HOST_ORDER_STATE__STATE__WAITING
#define RUNNING PERFLEET__HOST_ORDER_STATE__STATE__RUNNING
#define REFUSED PERFLEET__HOST_ORDER_STATE__STATE__REFUSED
#define ENDED   PERFLEET__HOST_ORDER_STATE__STATE__ENDED

/* A copy of a ring; the order may be gone meanwhile. */
struct ring_copy {
    struct pfl_list node;
    struct pfl_orders *orders;
    struct pfl_order_copy *copy; /* owned until its on_closed */
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

/* When an order may be tried again. */
struct retry {
    struct pfl_backoff backoff;
    uint64_t at_ms;
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_orders {
    struct pfl_orders_conf conf;
    struct pfl_order_session_conf session_conf;
    struct pfl_host_orders host_orders;
    struct pfl_list sessions;
    struct pfl_list copies;
    struct retry retries[PFL_ORDERS_MAX]; /* one for each order, in no order */
    uv_timer_t timer;
    struct pfl_order_files files;
    uint64_t expired;
    bool is_closing;
    bool is_timer_open;
};

static uint64_t now_unix_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_REALTIME) / NS_PER_MS;
}

static void look_at(struct pfl_orders *o, struct pfl_host_order *order);

static void on_changed(struct pfl_orders *o)
{
    if (!o->is_closing && o->conf.on_changed != NULL)
        o->conf.on_changed(o->conf.user);
}

static void on_triggers(struct pfl_orders *o)
{
    if (!o->is_closing && o->conf.on_triggers != NULL)
        o->conf.on_triggers(o->conf.user);
}

static void enter(struct pfl_orders *o, struct pfl_host_order *order,
                  Perfleet__HostOrderState__State state, const char *why)
{
    if (!pfl_host_order_set_state(order, state, why, now_unix_ms()))
        return;
    pfl_log_info("order", "orderer=%s name=%s state=%s why=%s", order->kept->orderer,
                 order->kept->order->name,
                 protobuf_c_enum_descriptor_get_value(
                     &perfleet__host_order_state__state__descriptor, (int)state)
                     ->name,
                 pfl_log_quote_str(why));
    on_changed(o);
}

/* What became of it; without room on the disk a restart finds it out again. */
static void keep_state(struct pfl_orders *o, const struct pfl_host_order *order)
{
    struct pfl_order_keep *keep;

    (void)!pfl_order_files_keep(&o->files, order->kept, NULL, &keep);
}

/* ---- sessions ---- */

static void finish(struct pfl_orders *o)
{
    if (!o->is_closing || o->is_timer_open || !pfl_list_is_empty(&o->sessions) ||
        !pfl_list_is_empty(&o->copies))
        return;
    pfl_host_orders_fini(&o->host_orders);
    pfl_order_files_close(&o->files);
    o->conf.on_closed(o->conf.user);
    pfl_mem_free(o);
}

static struct pfl_order_session *find_session(const struct pfl_orders *o, const char *orderer,
                                              const char *name)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &o->sessions) {
        struct pfl_order_session *s = PFL_CONTAINER_OF(it, struct pfl_order_session, node);

        if (strcmp(s->orderer, orderer) == 0 && strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

static struct pfl_host_order *order_of(const struct pfl_orders *o,
                                       const struct pfl_order_session *s)
{
    return pfl_host_orders_find(&o->host_orders, s->orderer, s->name);
}

/* A slot for each order; those of orders that are gone are used again. NULL: none. */
static struct retry *find_retry(struct pfl_orders *o, const char *orderer, const char *name)
{
    struct retry *free_one = NULL;

    for (size_t i = 0; i < PFL_ORDERS_MAX; i++) {
        struct retry *r = &o->retries[i];

        if (strcmp(r->orderer, orderer) == 0 && strcmp(r->name, name) == 0)
            return r;
        if (r->name[0] == '\0' ||
            pfl_host_orders_find(&o->host_orders, r->orderer, r->name) == NULL)
            free_one = r;
    }
    if (free_one != NULL) {
        *free_one = (struct retry){.at_ms = 0};
        (void)snprintf(free_one->orderer, sizeof(free_one->orderer), "%s", orderer);
        (void)snprintf(free_one->name, sizeof(free_one->name), "%s", name);
    }
    return free_one;
}

static void retry_later(struct pfl_orders *o, struct pfl_host_order *order, uint64_t lived_ms,
                        const char *why)
{
    struct retry *r = find_retry(o, order->kept->orderer, order->kept->order->name);
    uint64_t random = 0;

    (void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
    if (r != NULL) {
        if (lived_ms != 0)
            pfl_backoff_lived(&r->backoff, lived_ms);
        r->at_ms = uv_now(o->conf.loop) + pfl_backoff_next(&r->backoff, random);
    }
    enter(o, order, WAITING, why);
}

static void on_running(void *user, struct pfl_order_session *s)
{
    struct pfl_orders *o = user;
    struct pfl_host_order *order = order_of(o, s);

    if (order == NULL)
        return;
    if (s->ring[0] != '\0') {
        on_triggers(o);
        look_at(o, order);
        return;
    }
    enter(o, order, RUNNING, "");
    if (!order->has_begun) {
        pfl_host_order_begin(order, now_unix_ms(), uv_now(o->conf.loop));
        keep_state(o, order);
    }
}

static void on_session_closed(void *user, struct pfl_order_session *s)
{
    struct pfl_orders *o = user;
    struct pfl_host_order *order = order_of(o, s);
    struct pfl_host_order_decision choice;
    uint64_t lived_ms =
        s->state == PFL_ORDER_SESSION_STARTING ? 0 : uv_now(o->conf.loop) - s->begun_ms + 1;

    if (order != NULL && !o->is_closing && s->state != PFL_ORDER_SESSION_STOPPING) {
        pfl_host_order_decide(order, now_unix_ms(), uv_now(o->conf.loop), &choice);
        if (choice.state == RUNNING)
            retry_later(o, order, lived_ms,
                        s->why[0] != '\0' ? s->why : "the tracing service ended the connection");
    }
    pfl_list_remove(&s->node);
    if (s->ring[0] != '\0')
        on_triggers(o);
    pfl_order_session_free(s);
    finish(o);
}

static void start(struct pfl_orders *o, struct pfl_host_order *order, uint64_t duration_ms)
{
    struct pfl_order_session *s;
    int rc = pfl_order_session_open(&o->session_conf, order, duration_ms, &s);

    if (rc == 0)
        pfl_list_append(&o->sessions, &s->node);
    else
        retry_later(o, order, 0, pfl_order_session_explain(rc));
}

/* ---- copies of rings ---- */

static void on_copy_closed(void *user)
{
    struct ring_copy *c = user;
    struct pfl_orders *o = c->orders;

    pfl_list_remove(&c->node);
    pfl_mem_free(c);
    finish(o);
}

static int begin_copy(void *user, struct pfl_order_copy *copy,
                      const struct pfl_segments_begin *begin, char ret_id[PFL_SEGMENT_ID_BYTES],
                      struct pfl_segments_op **ret_op)
{
    struct ring_copy *c = user;
    struct pfl_host_order *order =
        pfl_host_orders_find(&c->orders->host_orders, c->orderer, c->name);
    struct pfl_order_raise raise = *pfl_order_copy_get_raise(copy);
    Perfleet__SegmentTrigger trigger = PERFLEET__SEGMENT_TRIGGER__INIT;
    Perfleet__Segment note = PERFLEET__SEGMENT__INIT;
    struct pfl_segments_begin of_copy = {.note = &note, .done = begin->done, .user = begin->user};
    int rc;

    if (order == NULL)
        return PFL_ENOENT;
    trigger.name = raise.trigger;
    trigger.host = raise.host;
    trigger.id = raise.id;
    trigger.has_unix_ns = 1;
    trigger.unix_ns = raise.unix_ms * NS_PER_MS;
    note.trigger = &trigger;
    rc = pfl_order_session_begin_run(&c->orders->session_conf, order, &of_copy, ret_id, ret_op);
    if (rc == 0)
        return 0;
    order->skipped++;
    pfl_log_warn("order-not-copied", "orderer=%s name=%s trigger=%s id=%s reason=\"%s\"",
                 c->orderer, c->name, raise.trigger, raise.id,
                 rc == PFL_ELIMIT ? "too many copies wait for a collector" : pfl_err_str(rc));
    return rc;
}

static void on_copied(void *user, struct pfl_order_copy *copy, const char *why)
{
    struct ring_copy *c = user;
    struct pfl_host_order *order =
        pfl_host_orders_find(&c->orders->host_orders, c->orderer, c->name);
    const struct pfl_order_raise *raise = pfl_order_copy_get_raise(copy);

    if (order != NULL && why[0] == '\0')
        order->copies++;
    if (why[0] == '\0')
        pfl_log_info("order-copied", "orderer=%s name=%s trigger=%s raised_at=%s id=%s", c->orderer,
                     c->name, raise->trigger, raise->host, raise->id);
    else
        pfl_log_warn("order-copy-failed",
                     "orderer=%s name=%s trigger=%s raised_at=%s id=%s reason=%s", c->orderer,
                     c->name, raise->trigger, raise->host, raise->id, pfl_log_quote_str(why));
}

/* At most one of an order is under way. */
static bool is_copying(const struct pfl_orders *o, const struct pfl_host_order *order)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &o->copies) {
        const struct ring_copy *c = PFL_CONTAINER_OF(it, struct ring_copy, node);

        if (strcmp(c->orderer, order->kept->orderer) == 0 &&
            strcmp(c->name, order->kept->order->name) == 0)
            return true;
    }
    return false;
}

static uint64_t max_bytes_of(const struct pfl_orders *o, const struct pfl_host_order *order)
{
    uint64_t all = pfl_segments_get_quota_bytes(o->conf.segments);

    return all != 0 && all < order->terms.quota_bytes ? all : order->terms.quota_bytes;
}

static int open_copy(struct pfl_orders *o, const struct pfl_host_order *order,
                     const struct pfl_order_session *s, const struct pfl_order_raise *raise)
{
    uint64_t ago_ms = uv_now(o->conf.loop) - raise->at_ms;
    struct pfl_order_copy_conf conf = {
        .loop = o->conf.loop,
        .socket = o->conf.socket,
        .segments = o->conf.segments,
        .session = s->ring,
        .raise = raise,
        .ring_ns = s->begun_ns,
        .max_bytes = max_bytes_of(o, order),
        .delay_ms = order->terms.after_ms > ago_ms ? order->terms.after_ms - ago_ms : 0,
        .begin_run = begin_copy,
        .on_done = on_copied,
        .on_closed = on_copy_closed,
    };
    struct ring_copy *c = pfl_mem_zalloc(sizeof(*c));
    int rc;

    if (c == NULL)
        return PFL_ENOMEM;
    c->orders = o;
    (void)snprintf(c->orderer, sizeof(c->orderer), "%s", order->kept->orderer);
    (void)snprintf(c->name, sizeof(c->name), "%s", order->kept->order->name);
    conf.user = c;
    rc = pfl_order_copy_open(&conf, &c->copy);
    if (rc != 0) {
        pfl_mem_free(c);
        return rc;
    }
    pfl_list_append(&o->copies, &c->node);
    return 0;
}

/* NULL: it copies. */
static const char *copy_for(struct pfl_orders *o, struct pfl_host_order *order,
                            const struct pfl_order_raise *raise)
{
    const struct pfl_order_session *s =
        find_session(o, order->kept->orderer, order->kept->order->name);
    const char *why;

    if (s == NULL || s->state != PFL_ORDER_SESSION_RUNNING || s->ring[0] == '\0' ||
        s->generation != order->kept->generation)
        return "its ring does not run";
    if (is_copying(o, order)) {
        order->skipped += pfl_host_order_has_trigger(order, raise->trigger);
        return "it is making a copy";
    }
    why = pfl_host_order_take_trigger(order, raise, s->begun_ms);
    if (why == NULL && open_copy(o, order, s, raise) != 0) {
        order->skipped++;
        return "the agent is out of memory";
    }
    return why;
}

void pfl_orders_add_triggers(const struct pfl_orders *self, struct pfl_alarm_watch_set *set)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->sessions) {
        const struct pfl_order_session *s = PFL_CONTAINER_OF(it, struct pfl_order_session, node);
        const struct pfl_host_order *order = order_of(self, s);

        for (size_t i = 0; s->ring[0] != '\0' && s->state == PFL_ORDER_SESSION_RUNNING &&
                           order != NULL && i < order->terms.triggers_len;
             i++)
            pfl_alarm_watch_set_add(set, order->terms.triggers[i]);
    }
}

void pfl_orders_on_trigger(struct pfl_orders *self, const char *trigger)
{
    struct pfl_order_raise r = {.at_ms = uv_now(self->conf.loop), .unix_ms = now_unix_ms()};
    char why[PFL_ORDER_REASON_BYTES];

    (void)snprintf(r.trigger, sizeof(r.trigger), "%s", trigger);
    (void)snprintf(r.host, sizeof(r.host), "%s", self->conf.host);
    for (size_t i = 0; !self->is_closing && i < self->host_orders.len; i++) {
        struct pfl_host_order *order = self->host_orders.orders[i];

        (void)pfl_ulid_make(r.unix_ms, r.id);
        if (pfl_host_order_has_trigger(order, trigger) && pfl_host_order_is_allowed(order, why) &&
            copy_for(self, order, &r) == NULL)
            self->conf.on_raised(self->conf.user, order, &r);
    }
}

int pfl_orders_raise(struct pfl_orders *self, const struct pfl_orders_raised *raised,
                     char ret_why[PFL_ORDER_REASON_BYTES])
{
    struct pfl_host_order *order =
        pfl_host_orders_find(&self->host_orders, raised->orderer, raised->name);
    const char *why = "this host has no such order";

    if (order != NULL && !pfl_host_order_is_allowed_by(order, raised->role, ret_why))
        return PFL_EPERM;
    if (order != NULL)
        why = copy_for(self, order, &raised->event);
    if (why != NULL)
        (void)snprintf(ret_why, PFL_ORDER_REASON_BYTES, "%s", why);
    return why == NULL ? 0 : PFL_ENOENT;
}

/* ---- the tick ---- */

static void start_if_due(struct pfl_orders *o, struct pfl_host_order *order,
                         const struct pfl_host_order_decision *choice)
{
    char why[PFL_ORDER_REASON_BYTES] = "";
    struct retry *r = find_retry(o, order->kept->orderer, order->kept->order->name);

    if (!pfl_host_order_is_allowed(order, why))
        enter(o, order, REFUSED, why);
    else if (order->terms.when != PFL_ORDER_ON_TRIGGER && !pfl_segments_has_room(o->conf.segments))
        enter(o, order, WAITING, "the disk of the segments is full");
    else if (r == NULL || r->at_ms <= uv_now(o->conf.loop))
        start(o, order, choice->left_ms);
}

/* A ring that runs, but whose triggers nobody would notice, waits. */
static void enter_ring(struct pfl_orders *o, struct pfl_host_order *order)
{
    char why[PFL_ORDER_REASON_BYTES];

    for (size_t i = 0; i < order->terms.triggers_len; i++) {
        const char *unwatched = o->conf.why_unwatched(o->conf.user, order->terms.triggers[i]);

        if (unwatched == NULL)
            continue;
        (void)snprintf(why, sizeof(why), "its triggers are not watched yet%s%.200s",
                       unwatched[0] != '\0' ? ": " : "", unwatched);
        enter(o, order, WAITING, why);
        return;
    }
    enter(o, order, RUNNING, "");
}

static void look_at(struct pfl_orders *o, struct pfl_host_order *order)
{
    struct pfl_order_session *s = find_session(o, order->kept->orderer, order->kept->order->name);
    struct pfl_host_order_decision choice;

    pfl_host_order_decide(order, now_unix_ms(), uv_now(o->conf.loop), &choice);
    if (choice.state == ENDED && !order->kept->is_done) {
        order->kept->has_is_done = order->kept->is_done = 1;
        keep_state(o, order);
    }
    if (s != NULL && (choice.state != RUNNING || s->generation != order->kept->generation ||
                      (s->ring[0] == '\0' && !pfl_segments_has_room(o->conf.segments))))
        pfl_order_session_stop(s);
    if (choice.state != RUNNING)
        enter(o, order, choice.state, choice.why);
    else if (s == NULL)
        start_if_due(o, order, &choice);
    else if (s->state == PFL_ORDER_SESSION_STOPPING)
        enter(o, order, WAITING, "its session before is ending");
    else if (s->state == PFL_ORDER_SESSION_RUNNING && s->ring[0] != '\0')
        enter_ring(o, order);
}

static void forget(struct pfl_orders *o, struct pfl_host_order *order);

/* Its collector has not been here for so long that it will not come again. If it does, it finds the
 * order missing, and puts it. */
static bool expire(struct pfl_orders *o, struct pfl_host_order *order)
{
    uint64_t unput_ms = pfl_host_order_get_unput_ms(order, now_unix_ms(), uv_now(o->conf.loop));

    if (o->conf.expire_ms == 0 || unput_ms < o->conf.expire_ms ||
        pfl_order_files_remove(&o->files, order->kept) != 0)
        return false;
    pfl_log_warn("order-expired", "orderer=%s name=%s collector=%s unput_h=%llu",
                 order->kept->orderer, order->kept->order->name, order->kept->collector,
                 (unsigned long long)(unput_ms / MS_PER_HOUR));
    o->expired++;
    forget(o, order);
    return true;
}

static void on_tick(uv_timer_t *timer)
{
    struct pfl_orders *o = timer->data;
    struct pfl_list *it;

    for (size_t i = 0; i < o->host_orders.len;) {
        if (expire(o, o->host_orders.orders[i]))
            continue;
        look_at(o, o->host_orders.orders[i++]);
    }
    PFL_LIST_EACH (it, &o->sessions) {
        struct pfl_order_session *s = PFL_CONTAINER_OF(it, struct pfl_order_session, node);

        if (order_of(o, s) == NULL)
            pfl_order_session_stop(s);
        if (s->state == PFL_ORDER_SESSION_STOPPING && uv_now(o->conf.loop) >= s->stop_ms)
            pfl_order_session_close(s);
    }
}

/* ---- from outside ---- */

static void set_quota(struct pfl_orders *o, const struct pfl_host_order *order)
{
    struct pfl_segment_quota quota = {order->terms.quota_bytes, order->terms.quota_age_ms};

    pfl_segments_set_quota(o->conf.segments, order->kept->orderer, order->kept->order->name,
                           &quota);
}

/* Without a file it would not be there after a restart, or in the generation before. */
static void forget(struct pfl_orders *o, struct pfl_host_order *order)
{
    struct pfl_order_session *s = find_session(o, order->kept->orderer, order->kept->order->name);

    pfl_host_orders_remove(&o->host_orders, order);
    if (s != NULL)
        pfl_order_session_stop(s);
    on_changed(o);
}

static void on_kept(void *user, const struct pfl_order_kept *kept)
{
    struct pfl_orders *o = user;
    struct pfl_host_order *order = pfl_host_orders_find(&o->host_orders, kept->orderer, kept->name);
    int rc = kept->rc != 0 ? PFL_EIO : order == NULL ? PFL_ENOENT : 0;
    const char *why = kept->rc == PFL_ELIMIT ? "the host's disk, which is to keep orders, is full"
                      : kept->rc != 0        ? "the host's agent cannot keep the order on its disk"
                                             : "the order was removed meanwhile";

    if (!kept->is_put)
        return;
    if (rc == PFL_EIO)
        pfl_log_warn("order-not-kept", "orderer=%s name=%s reason=\"%s\"", kept->orderer,
                     kept->name, why);
    /* One of another generation was put meanwhile, and is judged when it is written. */
    if (kept->rc != 0 && order != NULL && order->kept->generation == kept->generation) {
        (void)!pfl_order_files_remove(&o->files, order->kept);
        forget(o, order);
    }
    if (kept->answer.done != NULL)
        kept->answer.done(kept->answer.user, rc, why);
}

int pfl_orders_put(struct pfl_orders *self, Perfleet__HostOrder *order,
                   const struct pfl_order_answer *answer, char *ret_why,
                   struct pfl_order_keep **ret_keep)
{
    struct pfl_host_order *found;
    bool is_new;
    int rc = pfl_host_orders_put(&self->host_orders, order, ret_why, &found, &is_new);

    if (rc != 0)
        return rc;
    set_quota(self, found);
    pfl_host_order_note_put(found, now_unix_ms(), uv_now(self->conf.loop));
    rc = pfl_order_files_keep(&self->files, found->kept, answer, ret_keep);
    if (rc != 0) {
        (void)!pfl_order_files_remove(&self->files, found->kept);
        forget(self, found);
        return rc;
    }
    if (is_new) {
        pfl_log_info("order-put", "orderer=%s name=%s generation=%u collector=%s",
                     found->kept->orderer, found->kept->order->name, found->kept->generation,
                     found->kept->collector);
        on_changed(self);
    }
    look_at(self, found);
    return 0;
}

int pfl_orders_remove(struct pfl_orders *self, const char *collector, const char *orderer,
                      const char *name)
{
    struct pfl_host_order *order = pfl_host_orders_find(&self->host_orders, orderer, name);
    int rc = PFL_ENOENT;

    if (order != NULL)
        rc = strcmp(order->kept->collector, collector) != 0
                 ? PFL_EPERM
                 : pfl_order_files_remove(&self->files, order->kept);
    if (rc != 0)
        return rc;
    pfl_log_info("order-removed", "orderer=%s name=%s", orderer, name);
    forget(self, order);
    return 0;
}

int pfl_orders_each(const struct pfl_orders *self, const char *collector,
                    int (*each)(void *user, const Perfleet__HostOrderState *state), void *user)
{
    uint64_t now_ms = now_unix_ms();
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < self->host_orders.len; i++) {
        struct pfl_host_order *o = self->host_orders.orders[i];
        Perfleet__HostOrderState state = PERFLEET__HOST_ORDER_STATE__INIT;
        struct pfl_segment_sums sums;

        if (strcmp(o->kept->collector, collector) != 0)
            continue;
        pfl_segments_sum(self->conf.segments, o->kept->orderer, o->kept->order->name, &sums);
        state.orderer = o->kept->orderer;
        state.name = o->kept->order->name;
        state.has_generation = state.has_state = state.has_since_unix_ms = 1;
        state.generation = o->kept->generation;
        state.state = o->state;
        state.why = o->why;
        state.since_unix_ms = o->since_unix_ms;
        state.has_behind_segments = state.has_behind_bytes = state.has_behind_ms = 1;
        state.behind_segments = sums.segments;
        state.behind_bytes = sums.bytes;
        if (sums.oldest_unix_ns != 0 && now_ms > sums.oldest_unix_ns / NS_PER_MS)
            state.behind_ms = now_ms - sums.oldest_unix_ns / NS_PER_MS;
        state.has_copies = state.has_skipped = o->terms.when == PFL_ORDER_ON_TRIGGER;
        state.copies = o->copies;
        state.skipped = o->skipped;
        rc = each(user, &state);
    }
    return rc;
}

uint64_t pfl_orders_hash(const struct pfl_orders *self)
{
    return pfl_host_orders_hash(&self->host_orders);
}

void pfl_orders_get_figures(const struct pfl_orders *self, struct pfl_orders_figures *ret_figures)
{
    struct pfl_orders_figures f = {.all = (unsigned)self->host_orders.len,
                                   .expired = self->expired};

    for (size_t i = 0; i < self->host_orders.len; i++) {
        const struct pfl_host_order *order = self->host_orders.orders[i];
        uint64_t unput_ms =
            pfl_host_order_get_unput_ms(order, now_unix_ms(), uv_now(self->conf.loop));

        f.running += order->state == RUNNING;
        f.unput_ms = unput_ms > f.unput_ms ? unput_ms : f.unput_ms;
    }
    *ret_figures = f;
}

/* ---- opening ---- */

/* One that a version before wrote has no time of its put. */
static void set_up(struct pfl_orders *o, struct pfl_host_order *order)
{
    set_quota(o, order);
    order->put_ms = uv_now(o->conf.loop);
    if (order->kept->has_begun_unix_ms)
        pfl_host_order_begin(order, now_unix_ms(), uv_now(o->conf.loop));
    if (order->kept->has_put_unix_ms)
        return;
    pfl_host_order_note_put(order, now_unix_ms(), uv_now(o->conf.loop));
    keep_state(o, order);
}

int pfl_orders_open(const struct pfl_orders_conf *conf, struct pfl_orders **ret_orders)
{
    struct pfl_orders *o = pfl_mem_zalloc(sizeof(*o));
    struct pfl_order_files_conf files = {
        .path = conf->dir, .segments = conf->segments, .on_kept = on_kept, .user = o};
    int rc;

    if (o == NULL)
        return PFL_ENOMEM;
    o->conf = *conf;
    o->session_conf = (struct pfl_order_session_conf){.loop = conf->loop,
                                                      .socket = conf->socket,
                                                      .segments = conf->segments,
                                                      .labels = conf->labels,
                                                      .labels_len = conf->labels_len,
                                                      .on_running = on_running,
                                                      .on_closed = on_session_closed,
                                                      .user = o};
    pfl_list_init(&o->sessions);
    pfl_list_init(&o->copies);
    rc = pfl_order_files_open(&o->files, &files);
    if (rc == 0)
        rc = pfl_order_files_read(&o->files, &o->host_orders);
    if (rc != 0) {
        pfl_host_orders_fini(&o->host_orders);
        pfl_order_files_close(&o->files);
        pfl_mem_free(o);
        return rc;
    }
    for (size_t i = 0; i < o->host_orders.len; i++)
        set_up(o, o->host_orders.orders[i]);
    (void)uv_timer_init(conf->loop, &o->timer);
    o->timer.data = o;
    o->is_timer_open = true;
    (void)uv_timer_start(&o->timer, on_tick, 0, conf->tick_ms != 0 ? conf->tick_ms : TICK_MS);
    *ret_orders = o;
    return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct pfl_orders *o = handle->data;

    o->is_timer_open = false;
    finish(o);
}

void pfl_orders_close(struct pfl_orders *self)
{
    struct pfl_list *it;

    if (self->is_closing)
        return;
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->timer, on_timer_closed);
    PFL_LIST_EACH (it, &self->sessions)
        pfl_order_session_close(PFL_CONTAINER_OF(it, struct pfl_order_session, node));
    PFL_LIST_EACH (it, &self->copies)
        pfl_order_copy_close(PFL_CONTAINER_OF(it, struct ring_copy, node)->copy);
}
