/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders of this host: see host_orders.h.
 *
 * Happy path: an order is put, asked each second whether it is to run, and removed. Failures: what
 * is not valid, not permitted or too much is refused with a sentence; the order before it stays.
 * Owns the orders. Limits: PFL_ORDERS_MAX, PFL_ORDERS_OF_ORDERER, PFL_ORDER_FILE_BYTES.
 */
#include "agent/daemon/order/host_orders.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/message.h"
#include "perfetto/consumer_port.fields.h"
#include "perfetto/trace_config.fields.h"
#include "proto/gate/judge.h"
#include "proto/gate/role.h"
#include "proto/order/order_set.h"
#include "proto/tunnel/identity.h"
#include "proto/unpack.h"

#define UNPUT_HERE_MS   3600000u /* the agent must have missed the collector for so long itself */
#define WRITE_PERIOD_MS 1000u
#define CONFIG_BYTES    (PFL_ORDER_MAX_BYTES + 8192u)

_Static_assert(PFL_ORDER_REASON_BYTES >= PFL_ORDER_WHY_BYTES, "a reason is a why");

static void free_order(struct pfl_host_order *order)
{
    pfl_proto_free(&order->kept->base);
    pfl_mem_free(order);
}

void pfl_host_orders_fini(struct pfl_host_orders *self)
{
    for (size_t i = 0; i < self->len; i++)
        free_order(self->orders[i]);
    self->len = 0;
}

struct pfl_host_order *pfl_host_orders_find(const struct pfl_host_orders *self, const char *orderer,
                                            const char *name)
{
    for (size_t i = 0; i < self->len; i++) {
        struct pfl_host_order *o = self->orders[i];

        if (strcmp(o->kept->orderer, orderer) == 0 && strcmp(o->kept->order->name, name) == 0)
            return o;
    }
    return NULL;
}

void pfl_host_orders_remove(struct pfl_host_orders *self, struct pfl_host_order *order)
{
    for (size_t i = 0; i < self->len; i++) {
        if (self->orders[i] != order)
            continue;
        self->orders[i] = self->orders[--self->len];
        free_order(order);
        return;
    }
}

uint64_t pfl_host_orders_hash(const struct pfl_host_orders *self)
{
    struct pfl_order_key keys[PFL_ORDERS_MAX];
    struct pfl_hash_key key = {{0}};

    for (size_t i = 0; i < self->len; i++)
        keys[i] = (struct pfl_order_key){.orderer = self->orders[i]->kept->orderer,
                                         .name = self->orders[i]->kept->order->name,
                                         .generation = self->orders[i]->kept->generation};
    key.words[0] = pfl_order_set_hash(keys, self->len);
    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_host_order *o = self->orders[i];

        key.words[1] = (uint64_t)o->state;
        key.words[0] = pfl_hash_keyed(&key, pfl_span_of(o->why, strlen(o->why)));
    }
    return key.words[0];
}

/* ---- what an order may be ---- */

static int refuse(char *ret_why, int rc, const char *why)
{
    (void)snprintf(ret_why, PFL_ORDER_REASON_BYTES, "%s", why);
    return rc;
}

static bool is_name(const char *text)
{
    return text != NULL && pfl_identity_is_name(text);
}

static int check(const Perfleet__HostOrder *order, char *ret_why)
{
    if (order->order == NULL || !is_name(order->orderer) || !is_name(order->collector))
        return refuse(ret_why, PFL_EINVAL,
                      "an order has an orderer, a collector and what is ordered");
    if (order->n_run > PFL_ORDER_RUNS_MAX)
        return refuse(ret_why, PFL_EINVAL, "an order has at most 16 runs that are to come");
    if (order->has_role && order->role.len != 0 &&
        pfl_role_check(pfl_span_of(order->role.data, order->role.len), false) != NULL)
        return refuse(ret_why, PFL_EINVAL, "the role of the orderer is none");
    return pfl_order_check(order->order, PFL_ORDER_PLAIN, ret_why);
}

static int encode_request(const struct pfl_host_order *order, struct pfl_span more,
                          struct pfl_buf *out)
{
    struct pfl_message m = pfl_message_of(out);
    struct pfl_buf config;
    size_t mark;
    int rc;

    pfl_buf_init(&config, CONFIG_BYTES);
    rc = pfl_proto_pack(&order->kept->order->config->base, &config);
    if (rc == 0) {
        mark = pfl_message_begin(&m, ENABLE_TRACING_REQUEST__TRACE_CONFIG);
        pfl_message_raw(&m, pfl_buf_get(&config));
        pfl_message_raw(&m, more);
        pfl_message_end(&m, mark);
        rc = m.rc;
    }
    pfl_buf_fini(&config);
    return rc;
}

bool pfl_host_order_is_allowed_by(const struct pfl_host_order *order, struct pfl_span role,
                                  char *ret_why)
{
    char why[PFL_JUDGE_WHY_BYTES] = "the agent is out of memory";
    struct pfl_buf request;
    bool is_so;

    if (role.len == 0)
        return true;
    pfl_buf_init(&request, CONFIG_BYTES + 64);
    is_so = encode_request(order, pfl_span_of(NULL, 0), &request) == 0 &&
            pfl_judge_request(role, PFL_METHOD_ENABLE_TRACING, pfl_buf_get(&request), why);
    pfl_buf_fini(&request);
    if (!is_so)
        (void)snprintf(ret_why, PFL_ORDER_REASON_BYTES, "%.380s", why);
    return is_so;
}

bool pfl_host_order_is_allowed(const struct pfl_host_order *order, char *ret_why)
{
    size_t len = order->kept->has_role ? order->kept->role.len : 0;

    return pfl_host_order_is_allowed_by(order, pfl_span_of(order->kept->role.data, len), ret_why);
}

/* ---- putting ---- */

static bool has_room(const struct pfl_host_orders *self, const char *orderer)
{
    unsigned count = 0;

    for (size_t i = 0; i < self->len; i++)
        count += strcmp(self->orders[i]->kept->orderer, orderer) == 0;
    return self->len < PFL_ORDERS_MAX && count < PFL_ORDERS_OF_ORDERER;
}

static bool is_same(const struct pfl_host_order *old, const Perfleet__HostOrder *order)
{
    return old != NULL && old->kept->generation == order->generation &&
           strcmp(old->kept->collector, order->collector) == 0;
}

/* Another generation copies no sooner than this one would have. */
static void keep_what_was_raised(const struct pfl_host_order *old, struct pfl_host_order *fresh)
{
    fresh->has_raised = old->has_raised;
    fresh->raised_ms = old->raised_ms;
    memcpy(fresh->raised_id, old->raised_id, sizeof(fresh->raised_id));
    fresh->copies = old->copies;
    fresh->skipped = old->skipped;
}

static void keep_what_was_done(const struct pfl_host_order *old, struct pfl_host_order *fresh)
{
    fresh->kept->has_begun_unix_ms = old->kept->has_begun_unix_ms;
    fresh->kept->begun_unix_ms = old->kept->begun_unix_ms;
    fresh->has_begun = old->has_begun;
    fresh->end_ms = old->end_ms;
    fresh->kept->has_is_done = old->kept->has_is_done;
    fresh->kept->is_done = old->kept->is_done;
    fresh->state = old->state;
    fresh->since_unix_ms = old->since_unix_ms;
    memcpy(fresh->why, old->why, sizeof(fresh->why));
}

static int judge(const struct pfl_host_orders *self, const struct pfl_host_order *old,
                 const struct pfl_host_order *fresh, char *ret_why)
{
    if (old == NULL && !has_room(self, fresh->kept->orderer))
        return refuse(ret_why, PFL_ELIMIT, "this host keeps as many orders as it may");
    return pfl_host_order_is_allowed(fresh, ret_why) ? 0 : PFL_EPERM;
}

int pfl_host_orders_put(struct pfl_host_orders *self, Perfleet__HostOrder *order, char *ret_why,
                        struct pfl_host_order **ret_order, bool *ret_is_new)
{
    struct pfl_host_order *fresh = pfl_mem_zalloc(sizeof(*fresh));
    struct pfl_host_order *old = NULL;
    int rc = fresh != NULL ? check(order, ret_why) : PFL_ENOMEM;

    if (rc != 0) {
        pfl_proto_free(&order->base);
        pfl_mem_free(fresh);
        return rc;
    }
    fresh->kept = order;
    pfl_order_get_terms(order->order, &fresh->terms);
    old = pfl_host_orders_find(self, order->orderer, order->order->name);
    rc = judge(self, old, fresh, ret_why);
    if (rc != 0) {
        free_order(fresh);
        return rc;
    }
    *ret_is_new = !is_same(old, order);
    if (old == NULL) {
        self->orders[self->len++] = fresh;
        *ret_order = fresh;
        return 0;
    }
    keep_what_was_raised(old, fresh);
    if (!*ret_is_new)
        keep_what_was_done(old, fresh);
    pfl_proto_free(&old->kept->base); /* the pointer to the order stays valid */
    *old = *fresh;
    pfl_mem_free(fresh);
    *ret_order = old;
    return 0;
}

/* ---- when ---- */

static const Perfleet__HostOrder__Run *find_run(const Perfleet__HostOrder *order, uint64_t now_ms)
{
    for (size_t i = 0; i < order->n_run; i++) {
        const Perfleet__HostOrder__Run *run = order->run[i];

        if (now_ms >= run->begin_unix_ms && now_ms - run->begin_unix_ms < run->duration_ms)
            return run;
    }
    return NULL;
}

static void choice_once(const struct pfl_host_order *order, uint64_t now_ms,
                        struct pfl_host_order_decision *choice)
{
    uint64_t end_ms = order->has_begun ? order->end_ms : now_ms + order->terms.duration_ms;

    if (order->kept->is_done || now_ms >= end_ms)
        choice->state = PERFLEET__HOST_ORDER_STATE__STATE__ENDED;
    else
        choice->left_ms = end_ms - now_ms;
}

void pfl_host_order_begin(struct pfl_host_order *order, uint64_t now_unix_ms, uint64_t now_ms)
{
    uint64_t begun_unix_ms = order->kept->begun_unix_ms;
    uint64_t passed_ms = 0;

    if (order->has_begun)
        return;
    if (!order->kept->has_begun_unix_ms)
        order->kept->begun_unix_ms = now_unix_ms;
    else if (now_unix_ms > begun_unix_ms)
        passed_ms = now_unix_ms - begun_unix_ms;
    if (passed_ms > order->terms.duration_ms)
        passed_ms = order->terms.duration_ms;
    order->kept->has_begun_unix_ms = 1;
    order->has_begun = true;
    order->end_ms = now_ms + order->terms.duration_ms - passed_ms;
}

void pfl_host_order_note_put(struct pfl_host_order *order, uint64_t now_unix_ms, uint64_t now_ms)
{
    order->kept->has_put_unix_ms = 1;
    order->kept->put_unix_ms = now_unix_ms;
    order->put_ms = now_ms;
}

uint64_t pfl_host_order_get_unput_ms(const struct pfl_host_order *order, uint64_t now_unix_ms,
                                     uint64_t now_ms)
{
    uint64_t here_ms = now_ms - order->put_ms;
    uint64_t put_unix_ms = order->kept->put_unix_ms;
    uint64_t unix_ms = now_unix_ms > put_unix_ms ? now_unix_ms - put_unix_ms : 0;

    return here_ms < UNPUT_HERE_MS || unix_ms < here_ms ? here_ms : unix_ms;
}

void pfl_host_order_decide(const struct pfl_host_order *order, uint64_t now_unix_ms,
                           uint64_t now_ms, struct pfl_host_order_decision *ret_choice)
{
    struct pfl_host_order_decision choice = {.state = PERFLEET__HOST_ORDER_STATE__STATE__RUNNING,
                                             .why = ""};
    const Perfleet__HostOrder__Run *run;

    if (order->terms.is_paused) {
        choice.state = PERFLEET__HOST_ORDER_STATE__STATE__PAUSED;
    } else if (order->terms.when == PFL_ORDER_ONCE) {
        choice_once(order, now_ms, &choice);
    } else if (order->terms.when == PFL_ORDER_SCHEDULE) {
        run = find_run(order->kept, now_unix_ms);
        if (run != NULL)
            choice.left_ms = run->begin_unix_ms + run->duration_ms - now_unix_ms;
        else
            choice.state = PERFLEET__HOST_ORDER_STATE__STATE__WAITING;
    }
    *ret_choice = choice;
}

bool pfl_host_order_has_trigger(const struct pfl_host_order *order, const char *trigger)
{
    for (size_t i = 0; i < order->terms.triggers_len; i++) {
        if (strcmp(order->terms.triggers[i], trigger) == 0)
            return true;
    }
    return false;
}

const char *pfl_host_order_take_trigger(struct pfl_host_order *order,
                                        const struct pfl_order_raise *raise, uint64_t ring_ms)
{
    if (!pfl_host_order_has_trigger(order, raise->trigger))
        return "that is none of its triggers";
    if (raise->at_ms < ring_ms)
        return "its ring began after that";
    if (order->has_raised && strcmp(order->raised_id, raise->id) == 0)
        return "it copied for that";
    if (order->has_raised && raise->at_ms < order->raised_ms + order->terms.min_interval_ms) {
        order->skipped++;
        return "it copied less than min_interval_ms before";
    }
    order->has_raised = true;
    order->raised_ms = raise->at_ms;
    memcpy(order->raised_id, raise->id, sizeof(order->raised_id));
    return NULL;
}

bool pfl_host_order_set_state(struct pfl_host_order *order, Perfleet__HostOrderState__State state,
                              const char *why, uint64_t now_unix_ms)
{
    if (order->since_unix_ms != 0 && order->state == state && strcmp(order->why, why) == 0)
        return false;
    if (order->since_unix_ms == 0 || order->state != state)
        order->since_unix_ms = now_unix_ms;
    order->state = state;
    (void)snprintf(order->why, sizeof(order->why), "%s", why);
    return true;
}

static bool has_text(char *const *texts, size_t len, const char *text)
{
    for (size_t i = 0; i < len; i++) {
        if (strcmp(texts[i], text) == 0)
            return true;
    }
    return false;
}

size_t pfl_host_order_list_sources(const struct pfl_host_order *order,
                                   char *dst[PFL_ORDER_SOURCES_MAX])
{
    const Perfetto__Protos__TraceConfig *config = order->kept->order->config;
    size_t len = 0;

    for (size_t i = 0; i < config->n_data_sources && len < PFL_ORDER_SOURCES_MAX; i++) {
        const Perfetto__Protos__DataSourceConfig *source = config->data_sources[i]->config;

        if (source != NULL && source->name != NULL && source->name[0] != '\0' &&
            strlen(source->name) < PFL_ORDER_SOURCE_BYTES && !has_text(dst, len, source->name))
            dst[len++] = source->name;
    }
    return len;
}

/* With zstd, a service before v58, which does not know it, compresses with deflate. */
static void encode_compression(struct pfl_message *m, const struct pfl_host_order *order)
{
    bool is_zstd = order->terms.compression == PERFLEET__ORDER__COMPRESSION__ZSTD;
    size_t mark;

    if (order->terms.compression == PERFLEET__ORDER__COMPRESSION__NONE)
        return;
    pfl_message_varint(m, TRACE_CONFIG__COMPRESSION_TYPE, TRACE_CONFIG__COMPRESSION_TYPE_DEFLATE);
    mark = pfl_message_begin(m, TRACE_CONFIG__COMPRESSION);
    pfl_message_bytes(m,
                      is_zstd ? TRACE_CONFIG__COMPRESSION_CONFIG__ZSTD
                              : TRACE_CONFIG__COMPRESSION_CONFIG__DEFLATE,
                      pfl_span_of(NULL, 0));
    pfl_message_end(m, mark);
}

int pfl_host_order_encode_run(const struct pfl_host_order *order, const char *path,
                              uint64_t duration_ms, struct pfl_buf *out)
{
    struct pfl_message m;
    struct pfl_buf more;
    size_t mark;
    int rc;

    pfl_buf_init(&more, 1024);
    m = pfl_message_of(&more);
    pfl_message_varint(&m, TRACE_CONFIG__WRITE_INTO_FILE, 1);
    pfl_message_str(&m, TRACE_CONFIG__OUTPUT_PATH, path);
    pfl_message_varint(&m, TRACE_CONFIG__FILE_WRITE_PERIOD_MS, WRITE_PERIOD_MS);
    encode_compression(&m, order);
    if (duration_ms != 0)
        pfl_message_varint(&m, TRACE_CONFIG__DURATION_MS, duration_ms);
    mark = pfl_message_begin(&m, TRACE_CONFIG__PERFLEET_ROTATION);
    if (order->terms.segment_bytes != 0)
        pfl_message_varint(&m, TRACE_CONFIG__PERFLEET_ROTATION__MAX_SEGMENT_BYTES,
                           order->terms.segment_bytes);
    if (order->terms.segment_ms != 0)
        pfl_message_varint(&m, TRACE_CONFIG__PERFLEET_ROTATION__SEGMENT_PERIOD_MS,
                           order->terms.segment_ms);
    pfl_message_varint(&m, TRACE_CONFIG__PERFLEET_ROTATION__SHORTEN_INDEX_EVERY,
                       PFL_HOST_ORDER_INDEX_LINES);
    pfl_message_end(&m, mark);
    rc = m.rc;
    if (rc == 0)
        rc = encode_request(order, pfl_buf_get(&more), out);
    pfl_buf_fini(&more);
    return rc;
}

int pfl_host_order_encode_ring(const struct pfl_host_order *order, const char *session,
                               struct pfl_buf *out)
{
    struct pfl_message m;
    struct pfl_buf more;
    int rc;

    pfl_buf_init(&more, 1024);
    m = pfl_message_of(&more);
    pfl_message_str(&m, TRACE_CONFIG__UNIQUE_SESSION_NAME, session);
    encode_compression(&m, order);
    rc = m.rc;
    if (rc == 0)
        rc = encode_request(order, pfl_buf_get(&more), out);
    pfl_buf_fini(&more);
    return rc;
}
