/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders at work: see orders_port.h.
 *
 *     tick: choice of each order --> IDLE --> STARTING --> RUNNING --> STOPPING --> IDLE
 *
 * Happy path: an order that is to run gets a run in the folder of segments and a connection to the
 * service: EnableTracing, and GetTraceStats as a fence. When the choice ends: DisableTracing, and
 * the connection is closed when the session has ended. An order on a trigger has no run but a ring;
 * each copy of it is a run. Failures: the order waits and is tried again
 * after a growing time; its state has the reason. Ownership: the book, a session for each order
 * that has one, until its connection is closed. Limits: the book's.
 */
#include "agent/daemon/order/orders_port.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "agent/daemon/order/copy_port.h"
#include "agent/daemon/order/order_files_port.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ulid.h"
#include "perfetto/consumer_port.fields.h"
#include "tunnel/backoff.h"
#include "tunnel/service_conn.h"

#define TICK_MS         1000u
#define NS_PER_MS       UINT64_C(1000000)
#define REQUEST_BYTES   (PFL_ORDER_MAX_BYTES + 16384u)
#define LABELS_MAX      64u
#define RING_NAME_BYTES (2 * PFL_IDENTITY_NAME_BYTES + PFL_ULID_BYTES + 8)

#define WAITING PERFLEET__HOST_ORDER_STATE__STATE__WAITING
#define RUNNING PERFLEET__HOST_ORDER_STATE__STATE__RUNNING
#define REFUSED PERFLEET__HOST_ORDER_STATE__STATE__REFUSED
#define ENDED   PERFLEET__HOST_ORDER_STATE__STATE__ENDED

enum session_state {
    SESSION_STARTING, /* waits for the fence */
    SESSION_RUNNING,  /* waits for its end */
    SESSION_STOPPING, /* waits for the answer to DisableTracing */
};

/* Of an order; the order may be gone while it stops. */
struct session {
    struct pfl_list node;
    struct pfl_orders *orders;
    enum session_state state;
    struct pfl_service_conn *conn; /* owned until its on_closed */
    struct pfl_buf request;
    uint64_t begun_ms;
    uint64_t stop_ms; /* closed then */
    uint32_t generation;
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
    char id[PFL_SEGMENT_ID_BYTES];    /* of the run; "": a ring */
    char ring[RING_NAME_BYTES];       /* its unique_session_name; "": a run */
    uint64_t begun_ns;                /* of a ring: the boot clock */
    char why[PFL_ORDER_REASON_BYTES]; /* it ended */
};

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
    struct pfl_order_book book;
    struct pfl_list sessions;
    struct pfl_list copies;
    struct retry retries[PFL_ORDERS_MAX]; /* as the book's orders fill it */
    uv_timer_t timer;
    struct pfl_order_files files;
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
    if (!pfl_order_enter(order, state, why, now_unix_ms()))
        return;
    pfl_log_info("order", "orderer=%s name=%s state=%s why=%s", order->kept->orderer,
                 order->kept->order->name,
                 protobuf_c_enum_descriptor_get_value(
                     &perfleet__host_order_state__state__descriptor, (int)state)
                     ->name,
                 pfl_log_quote_str(why));
    on_changed(o);
}

/* ---- sessions ---- */

static void finish(struct pfl_orders *o)
{
    if (!o->is_closing || o->is_timer_open || !pfl_list_is_empty(&o->sessions) ||
        !pfl_list_is_empty(&o->copies))
        return;
    pfl_order_book_fini(&o->book);
    pfl_order_files_close(&o->files);
    o->conf.on_closed(o->conf.user);
    pfl_mem_free(o);
}

static struct session *find_session(const struct pfl_orders *o, const char *orderer,
                                    const char *name)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &o->sessions) {
        struct session *s = PFL_CONTAINER_OF(it, struct session, node);

        if (strcmp(s->orderer, orderer) == 0 && strcmp(s->name, name) == 0)
            return s;
    }
    return NULL;
}

static struct pfl_host_order *order_of(const struct session *s)
{
    return pfl_order_book_find(&s->orders->book, s->orderer, s->name);
}

/* A slot for each order; those of orders that are gone are used again. NULL: none. */
static struct retry *find_retry(struct pfl_orders *o, const char *orderer, const char *name)
{
    struct retry *free_one = NULL;

    for (size_t i = 0; i < PFL_ORDERS_MAX; i++) {
        struct retry *r = &o->retries[i];

        if (strcmp(r->orderer, orderer) == 0 && strcmp(r->name, name) == 0)
            return r;
        if (r->name[0] == '\0' || pfl_order_book_find(&o->book, r->orderer, r->name) == NULL)
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

static void on_conn_closed(void *user)
{
    struct session *s = user;
    struct pfl_orders *o = s->orders;
    struct pfl_host_order *order = order_of(s);
    struct pfl_order_choice choice;
    uint64_t lived_ms = s->state == SESSION_STARTING ? 0 : uv_now(o->conf.loop) - s->begun_ms + 1;

    if (s->id[0] != '\0')
        pfl_segments_end_run(o->conf.segments, s->id);
    if (order != NULL && !o->is_closing && s->state != SESSION_STOPPING) {
        pfl_order_choice(order, now_unix_ms(), &choice);
        if (choice.state == RUNNING)
            retry_later(o, order, lived_ms,
                        s->why[0] != '\0' ? s->why : "the tracing service ended the connection");
    }
    pfl_list_remove(&s->node);
    if (s->ring[0] != '\0')
        on_triggers(o);
    pfl_buf_fini(&s->request);
    pfl_mem_free(s);
    finish(o);
}

static int on_ended(void *user, const struct pfl_rpc_reply *reply)
{
    struct session *s = user;
    struct pfl_reader r = pfl_reader_of(reply->body);
    struct pfl_field f;

    if (!reply->success)
        (void)snprintf(s->why, sizeof(s->why), "the service refuses the session: %.200s",
                       pfl_log_quote((const char *)reply->why.data, reply->why.len));
    while (pfl_reader_field(&r, &f)) {
        if (f.id == ENABLE_TRACING_RESPONSE__ERROR && f.type == PFL_WIRE_BYTES && f.bytes.len != 0)
            (void)snprintf(s->why, sizeof(s->why), "the service ended the session: %.300s",
                           pfl_log_quote((const char *)f.bytes.data, f.bytes.len));
    }
    if (s->why[0] == '\0')
        (void)snprintf(s->why, sizeof(s->why), "the service ended the session");
    pfl_service_conn_close(s->conn);
    return 0;
}

static int on_fence(void *user, const struct pfl_rpc_reply *reply)
{
    struct session *s = user;
    struct pfl_host_order *order = order_of(s);

    if (s->state != SESSION_STARTING || !reply->success || order == NULL)
        return 0;
    s->state = SESSION_RUNNING;
    s->begun_ms = uv_now(s->orders->conf.loop);
    if (s->ring[0] != '\0') {
        s->begun_ns = pfl_clock_now_ns(PFL_CLOCK_BOOTTIME);
        on_triggers(s->orders);
        look_at(s->orders, order);
        return 0;
    }
    enter(s->orders, order, RUNNING, "");
    if (!order->kept->has_begun_unix_ms) {
        order->kept->has_begun_unix_ms = 1;
        order->kept->begun_unix_ms = now_unix_ms();
        (void)!pfl_order_files_keep(&s->orders->files, order->kept);
    }
    return 0;
}

static void on_bound(void *user)
{
    struct session *s = user;
    int rc;

    if (s->ring[0] != '\0' && !pfl_service_conn_has_method(s->conn, "CloneSession")) {
        (void)snprintf(s->why, sizeof(s->why),
                       "this host's tracing service is too old to clone "
                       "sessions, so nothing can be copied on a trigger");
        pfl_service_conn_close(s->conn);
        return;
    }
    rc = pfl_service_conn_invoke(s->conn, "EnableTracing", pfl_buf_get(&s->request), on_ended, s);
    pfl_buf_fini(&s->request);
    if (rc == 0)
        rc = pfl_service_conn_invoke(s->conn, "GetTraceStats", pfl_span_of(NULL, 0), on_fence, s);
    if (rc == 0)
        return;
    (void)snprintf(s->why, sizeof(s->why), "%s",
                   rc == PFL_ELIMIT ? "its config is too large for the service's protocol"
                                    : "the service lacks a method, or the agent has no memory");
    pfl_service_conn_close(s->conn);
}

static int on_disabled(void *user, const struct pfl_rpc_reply *reply)
{
    (void)user;
    (void)reply; /* the answer to EnableTracing follows, when the files are written */
    return 0;
}

static void stop(struct session *s)
{
    if (s->state == SESSION_STOPPING)
        return;
    if (s->state == SESSION_STARTING ||
        pfl_service_conn_invoke(s->conn, "DisableTracing", pfl_span_of(NULL, 0), on_disabled, s) !=
            0)
        pfl_service_conn_close(s->conn);
    s->state = SESSION_STOPPING;
    s->stop_ms = uv_now(s->orders->conf.loop) + PFL_ORDERS_STOP_MS;
}

/* The note that all segments of the run have in common. `trigger`: of a copy; else NULL. */
static int begin_run(struct pfl_orders *o, const struct pfl_host_order *order,
                     Perfleet__SegmentTrigger *trigger, char ret_id[PFL_SEGMENT_ID_BYTES])
{
    struct pfl_segment_quota quota = {order->terms.quota_bytes, order->terms.quota_age_ms};
    Perfleet__Segment note = PERFLEET__SEGMENT__INIT;
    char *labels[LABELS_MAX];
    char version[] = PFL_VERSION;

    note.orderer = order->kept->orderer;
    note.order = order->kept->order->name;
    note.collector = order->kept->collector;
    note.retention = order->kept->order->retention;
    note.has_priority = note.has_generation = 1;
    note.priority = order->terms.priority;
    note.generation = order->kept->generation;
    note.agent_version = version;
    note.label = labels;
    for (; note.n_label < o->conf.labels_len && note.n_label < LABELS_MAX; note.n_label++)
        memcpy(&labels[note.n_label], &o->conf.labels[note.n_label], sizeof(labels[0]));
    note.trigger = trigger;
    return pfl_segments_begin_run(o->conf.segments, &note, &quota, ret_id);
}

static void make_ulid(uint64_t unix_ms, char ret_id[PFL_ULID_BYTES])
{
    uint8_t random[PFL_ULID_RANDOM_BYTES] = {0};

    (void)!getrandom(random, sizeof(random), 0);
    pfl_ulid_write(unix_ms, random, ret_id);
}

/* Nobody can guess the name, and take it before. */
static int encode_ring(const struct pfl_host_order *order, struct session *s)
{
    char id[PFL_ULID_BYTES];

    make_ulid(now_unix_ms(), id);
    (void)snprintf(s->ring, sizeof(s->ring), "order.%s.%s.%s", s->orderer, s->name, id);
    return pfl_order_encode_ring(order, s->ring, &s->request);
}

static int encode_run(struct pfl_orders *o, const struct pfl_host_order *order,
                      uint64_t duration_ms, struct session *s)
{
    char path[640];
    int rc = begin_run(o, order, NULL, s->id);

    if (rc != 0)
        return rc;
    pfl_segments_get_path(o->conf.segments, s->id, path, sizeof(path));
    return pfl_order_encode_run(order, path, duration_ms, &s->request);
}

static int open_session(struct pfl_orders *o, const struct pfl_host_order *order,
                        uint64_t duration_ms, struct session *s)
{
    struct pfl_service_conn_conf conf = {.loop = o->conf.loop,
                                         .socket = o->conf.socket,
                                         .on_bound = on_bound,
                                         .on_closed = on_conn_closed,
                                         .user = s};
    int rc = order->terms.when == PFL_ORDER_ON_TRIGGER ? encode_ring(order, s)
                                                       : encode_run(o, order, duration_ms, s);

    if (rc == 0)
        rc = pfl_service_conn_open(&conf, &s->conn);
    if (rc != 0 && s->id[0] != '\0')
        pfl_segments_end_run(o->conf.segments, s->id);
    return rc;
}

static void start(struct pfl_orders *o, struct pfl_host_order *order, uint64_t duration_ms)
{
    struct session *s = pfl_mem_zalloc(sizeof(*s));
    int rc = PFL_ENOMEM;

    if (s != NULL) {
        s->orders = o;
        s->generation = order->kept->generation;
        (void)snprintf(s->orderer, sizeof(s->orderer), "%s", order->kept->orderer);
        (void)snprintf(s->name, sizeof(s->name), "%s", order->kept->order->name);
        pfl_buf_init(&s->request, REQUEST_BYTES);
        rc = open_session(o, order, duration_ms, s);
    }
    if (rc == 0) {
        pfl_list_append(&o->sessions, &s->node);
        return;
    }
    if (s != NULL)
        pfl_buf_fini(&s->request);
    pfl_mem_free(s);
    retry_later(o, order, 0,
                rc == PFL_ELIMIT   ? "the folder of segments is full"
                : rc == PFL_ENOMEM ? "the agent is out of memory"
                                   : "the tracing service does not answer");
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

static int begin_copy(void *user, struct pfl_order_copy *copy, char ret_id[PFL_SEGMENT_ID_BYTES])
{
    struct ring_copy *c = user;
    struct pfl_host_order *order = pfl_order_book_find(&c->orders->book, c->orderer, c->name);
    struct pfl_order_raise raise = *pfl_order_copy_get_raise(copy);
    Perfleet__SegmentTrigger trigger = PERFLEET__SEGMENT_TRIGGER__INIT;
    int rc;

    if (order == NULL)
        return PFL_ENOENT;
    trigger.name = raise.trigger;
    trigger.host = raise.host;
    trigger.id = raise.id;
    trigger.has_unix_ns = 1;
    trigger.unix_ns = raise.unix_ms * NS_PER_MS;
    rc = begin_run(c->orders, order, &trigger, ret_id);
    if (rc == 0)
        return 0;
    order->skipped++;
    pfl_log_warn("order-not-copied", "orderer=%s name=%s trigger=%s id=%s reason=\"%s\"",
                 c->orderer, c->name, raise.trigger, raise.id,
                 rc == PFL_ELIMIT ? "too many copies wait for a collector, or the disk is full"
                                  : pfl_err_str(rc));
    return rc;
}

static void on_copied(void *user, struct pfl_order_copy *copy, const char *why)
{
    struct ring_copy *c = user;
    struct pfl_host_order *order = pfl_order_book_find(&c->orders->book, c->orderer, c->name);
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
                     const struct session *s, const struct pfl_order_raise *raise)
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
    const struct session *s = find_session(o, order->kept->orderer, order->kept->order->name);
    const char *why;

    if (s == NULL || s->state != SESSION_RUNNING || s->ring[0] == '\0' ||
        s->generation != order->kept->generation)
        return "its ring does not run";
    if (is_copying(o, order)) {
        order->skipped += pfl_order_has_trigger(order, raise->trigger);
        return "it is making a copy";
    }
    why = pfl_order_take_trigger(order, raise, s->begun_ms);
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
        const struct session *s = PFL_CONTAINER_OF(it, struct session, node);
        const struct pfl_host_order *order = order_of(s);

        for (size_t i = 0; s->ring[0] != '\0' && s->state == SESSION_RUNNING && order != NULL &&
                           i < order->terms.triggers_len;
             i++)
            pfl_alarm_watch_set_add(set, order->terms.triggers[i]);
    }
}

void pfl_orders_hit(struct pfl_orders *self, const char *trigger)
{
    struct pfl_order_raise r = {.at_ms = uv_now(self->conf.loop), .unix_ms = now_unix_ms()};
    char why[PFL_ORDER_REASON_BYTES];

    (void)snprintf(r.trigger, sizeof(r.trigger), "%s", trigger);
    (void)snprintf(r.host, sizeof(r.host), "%s", self->conf.host);
    for (size_t i = 0; !self->is_closing && i < self->book.len; i++) {
        struct pfl_host_order *order = self->book.orders[i];

        make_ulid(r.unix_ms, r.id);
        if (pfl_order_has_trigger(order, trigger) && pfl_order_is_allowed(order, why) &&
            copy_for(self, order, &r) == NULL)
            self->conf.on_raised(self->conf.user, order, &r);
    }
}

int pfl_orders_raise(struct pfl_orders *self, const struct pfl_orders_raised *raised,
                     char ret_why[PFL_ORDER_REASON_BYTES])
{
    struct pfl_host_order *order = pfl_order_book_find(&self->book, raised->orderer, raised->name);
    const char *why = "this host has no such order";

    if (order != NULL && !pfl_order_is_allowed_by(order, raised->role, ret_why))
        return PFL_EPERM;
    if (order != NULL)
        why = copy_for(self, order, &raised->event);
    if (why != NULL)
        (void)snprintf(ret_why, PFL_ORDER_REASON_BYTES, "%s", why);
    return why == NULL ? 0 : PFL_ENOENT;
}

/* ---- the tick ---- */

static void start_if_due(struct pfl_orders *o, struct pfl_host_order *order,
                         const struct pfl_order_choice *choice)
{
    char why[PFL_ORDER_REASON_BYTES] = "";
    struct retry *r = find_retry(o, order->kept->orderer, order->kept->order->name);
    uint64_t now_ms = now_unix_ms();

    if (!pfl_order_is_allowed(order, why))
        enter(o, order, REFUSED, why);
    else if (order->terms.when != PFL_ORDER_ON_TRIGGER && !pfl_segments_has_room(o->conf.segments))
        enter(o, order, WAITING, "the disk of the segments is full");
    else if (r == NULL || r->at_ms <= uv_now(o->conf.loop))
        start(o, order, choice->end_unix_ms > now_ms ? choice->end_unix_ms - now_ms : 0);
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
    struct session *s = find_session(o, order->kept->orderer, order->kept->order->name);
    struct pfl_order_choice choice;

    pfl_order_choice(order, now_unix_ms(), &choice);
    if (choice.state == ENDED && !order->kept->is_done) {
        order->kept->has_is_done = order->kept->is_done = 1;
        (void)!pfl_order_files_keep(&o->files, order->kept);
    }
    if (s != NULL && (choice.state != RUNNING || s->generation != order->kept->generation ||
                      (s->ring[0] == '\0' && !pfl_segments_has_room(o->conf.segments))))
        stop(s);
    if (choice.state != RUNNING)
        enter(o, order, choice.state, choice.why);
    else if (s == NULL)
        start_if_due(o, order, &choice);
    else if (s->state == SESSION_STOPPING)
        enter(o, order, WAITING, "its session before is ending");
    else if (s->state == SESSION_RUNNING && s->ring[0] != '\0')
        enter_ring(o, order);
}

static void on_tick(uv_timer_t *timer)
{
    struct pfl_orders *o = timer->data;
    struct pfl_list *it;

    for (size_t i = 0; i < o->book.len; i++)
        look_at(o, o->book.orders[i]);
    PFL_LIST_EACH (it, &o->sessions) {
        struct session *s = PFL_CONTAINER_OF(it, struct session, node);

        if (order_of(s) == NULL)
            stop(s);
        if (s->state == SESSION_STOPPING && uv_now(o->conf.loop) >= s->stop_ms)
            pfl_service_conn_close(s->conn);
    }
}

/* ---- from outside ---- */

static void set_quota(struct pfl_orders *o, const struct pfl_host_order *order)
{
    struct pfl_segment_quota quota = {order->terms.quota_bytes, order->terms.quota_age_ms};

    pfl_segments_set_quota(o->conf.segments, order->kept->orderer, order->kept->order->name,
                           &quota);
}

int pfl_orders_put(struct pfl_orders *self, Perfleet__HostOrder *order, char *ret_why)
{
    struct pfl_host_order *in_book;
    struct session *s;
    bool is_new;
    int rc = pfl_order_book_put(&self->book, order, ret_why, &in_book, &is_new);

    if (rc != 0)
        return rc;
    set_quota(self, in_book);
    rc = pfl_order_files_keep(&self->files, in_book->kept);
    if (rc != 0) {
        (void)snprintf(ret_why, PFL_ORDER_REASON_BYTES,
                       "the host's agent cannot keep the order on its disk");
        s = find_session(self, in_book->kept->orderer, in_book->kept->order->name);
        if (s != NULL)
            stop(s);
        pfl_order_book_remove(&self->book, in_book);
        return rc;
    }
    if (is_new) {
        pfl_log_info("order-put", "orderer=%s name=%s generation=%u collector=%s",
                     in_book->kept->orderer, in_book->kept->order->name, in_book->kept->generation,
                     in_book->kept->collector);
        on_changed(self);
    }
    look_at(self, in_book);
    return 0;
}

int pfl_orders_remove(struct pfl_orders *self, const char *collector, const char *orderer,
                      const char *name)
{
    struct pfl_host_order *order = pfl_order_book_find(&self->book, orderer, name);
    struct session *s = find_session(self, orderer, name);

    if (order == NULL)
        return PFL_ENOENT;
    if (strcmp(order->kept->collector, collector) != 0)
        return PFL_EPERM;
    pfl_order_files_remove(&self->files, order->kept);
    pfl_log_info("order-removed", "orderer=%s name=%s", orderer, name);
    pfl_order_book_remove(&self->book, order);
    if (s != NULL)
        stop(s);
    on_changed(self);
    return 0;
}

int pfl_orders_each(const struct pfl_orders *self, const char *collector,
                    int (*each)(void *user, const Perfleet__HostOrderState *state), void *user)
{
    uint64_t now_ms = now_unix_ms();
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < self->book.len; i++) {
        struct pfl_host_order *o = self->book.orders[i];
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
    return pfl_order_book_hash(&self->book);
}

void pfl_orders_count(const struct pfl_orders *self, unsigned *ret_all, unsigned *ret_running)
{
    *ret_all = (unsigned)self->book.len;
    *ret_running = 0;
    for (size_t i = 0; i < self->book.len; i++)
        *ret_running += self->book.orders[i]->state == RUNNING;
}

/* ---- opening ---- */

int pfl_orders_open(const struct pfl_orders_conf *conf, struct pfl_orders **ret_orders)
{
    struct pfl_orders *o = pfl_mem_zalloc(sizeof(*o));
    int rc;

    if (o == NULL)
        return PFL_ENOMEM;
    o->conf = *conf;
    pfl_list_init(&o->sessions);
    pfl_list_init(&o->copies);
    rc = pfl_order_files_open(&o->files, conf->dir);
    if (rc == 0)
        rc = pfl_order_files_read(&o->files, &o->book);
    if (rc != 0) {
        pfl_order_book_fini(&o->book);
        pfl_order_files_close(&o->files);
        pfl_mem_free(o);
        return rc;
    }
    for (size_t i = 0; i < o->book.len; i++)
        set_quota(o, o->book.orders[i]);
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
        pfl_service_conn_close(PFL_CONTAINER_OF(it, struct session, node)->conn);
    PFL_LIST_EACH (it, &self->copies)
        pfl_order_copy_close(PFL_CONTAINER_OF(it, struct ring_copy, node)->copy);
}
