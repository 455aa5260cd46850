/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A turn: see rollout_turn.h.
 *
 * Happy path:
 *
 *     LEASE -> own stream: LIST, REMOVE... -> each orderer's stream: PUT...
 *           -> own stream: REMOVE what was refused..., LIST -> SAVE -> END
 *
 * A turn that changes nothing has one stream and one LIST. Failures: a host that another collector
 * has, a stream that breaks, and an answer that is none end the turn; an order that is refused is
 * noted with the reason and removed if it is there; what the host cannot do now is tried again in a
 * later turn. Ownership: owns items, the wanted orders and the host's last answer. Limits: those of
 * the header.
 */
#include "collector/order/rollout_turn.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "proto/unpack.h"

enum todo {
    TODO_NOTHING = 0,
    TODO_PUT,
    TODO_REMOVE,
};

/* An order that the host should have, or has. */
struct item {
    const struct pfl_wanted_order *wanted; /* NULL: it should not have it */
    enum todo todo;
    bool is_there;
    bool is_refused;
    Perfleet__HostOrderState state; /* as it is saved */
    bool has_state;
    char orderer[PFL_IDENTITY_NAME_BYTES];
    char name[PFL_IDENTITY_NAME_BYTES];
    char why[PFL_ROLLOUT_WHY_BYTES]; /* of a refusal */
};

enum stream {
    STREAM_NONE = 0,
    STREAM_OWN,
    STREAM_FOR, /* an orderer */
};

struct pfl_rollout_turn {
    struct pfl_rollout_host *host; /* borrowed */
    struct pfl_wanted wanted;
    struct item *items; /* owned; NULL before the first answer */
    size_t items_len;
    struct item *current;         /* of PUT and REMOVE */
    Perfleet__SpoolReply *listed; /* owned; the last answer */
    enum pfl_rollout_step step;
    enum stream stream;
    const char *orderer; /* of the stream */
    uint64_t now_unix_ms;
    bool is_leased;
    bool is_under_way;
    bool is_list_old; /* something was put or removed since */
    bool is_saved;
    bool is_over;
    enum pfl_rollout_end end;
    struct pfl_rollout_turn_figures figures;
    char why[PFL_ROLLOUT_WHY_BYTES];
};

int pfl_rollout_turn_new(const struct pfl_rollout *rollout, struct pfl_rollout_host *host,
                         uint64_t now_unix_ms, struct pfl_rollout_turn **ret_turn)
{
    struct pfl_rollout_turn *t = pfl_mem_zalloc(sizeof(*t));
    int rc;

    if (t == NULL)
        return PFL_ENOMEM;
    t->host = host;
    t->now_unix_ms = now_unix_ms;
    rc = pfl_rollout_get_wanted(rollout, host, now_unix_ms, &t->wanted);
    if (rc != 0) {
        pfl_mem_free(t);
        return rc;
    }
    *ret_turn = t;
    return 0;
}

static void drop_list(struct pfl_rollout_turn *t)
{
    if (t->listed != NULL)
        pfl_proto_free(&t->listed->base);
    t->listed = NULL;
}

void pfl_rollout_turn_free(struct pfl_rollout_turn *self)
{
    if (self == NULL)
        return;
    drop_list(self);
    pfl_wanted_fini(&self->wanted);
    pfl_mem_free(self->items);
    pfl_mem_free(self);
}

static void end(struct pfl_rollout_turn *t, enum pfl_rollout_end how, const char *why)
{
    if (t->is_over)
        return;
    t->is_over = true;
    t->end = how;
    (void)snprintf(t->why, sizeof(t->why), "%s", why);
}

/* ---- steps ---- */

static struct item *find_todo(struct pfl_rollout_turn *t, enum todo todo)
{
    for (size_t i = 0; i < t->items_len; i++) {
        if (t->items[i].todo == todo)
            return &t->items[i];
    }
    return NULL;
}

static enum pfl_rollout_step on_own(struct pfl_rollout_turn *t, enum pfl_rollout_step step)
{
    t->orderer = NULL;
    return t->stream == STREAM_OWN ? step : PFL_ROLLOUT_CONNECT;
}

static enum pfl_rollout_step put(struct pfl_rollout_turn *t, struct item *item)
{
    bool is_for_him =
        t->stream == STREAM_FOR && t->orderer != NULL && strcmp(t->orderer, item->orderer) == 0;

    t->current = item;
    t->orderer = item->orderer;
    return is_for_him ? PFL_ROLLOUT_PUT : PFL_ROLLOUT_CONNECT;
}

/* What the stream can do first, so that few streams are opened. */
static enum pfl_rollout_step choose(struct pfl_rollout_turn *t)
{
    struct item *to_put = find_todo(t, TODO_PUT);
    struct item *to_remove = find_todo(t, TODO_REMOVE);

    if (t->is_over)
        return PFL_ROLLOUT_END;
    if (!t->is_leased)
        return PFL_ROLLOUT_LEASE;
    if (t->listed == NULL)
        return on_own(t, PFL_ROLLOUT_LIST);
    if (to_put != NULL && (to_remove == NULL || t->stream != STREAM_OWN))
        return put(t, to_put);
    t->current = to_remove;
    if (to_remove != NULL)
        return on_own(t, PFL_ROLLOUT_REMOVE);
    if (t->is_list_old)
        return on_own(t, PFL_ROLLOUT_LIST);
    if (!t->is_saved && t->items_len != 0)
        return PFL_ROLLOUT_SAVE;
    t->is_over = true;
    return PFL_ROLLOUT_END;
}

/* ---- states ---- */

static Perfleet__HostOrderState *find_listed(const struct pfl_rollout_turn *t, const char *orderer,
                                             const char *name)
{
    for (size_t i = 0; i < t->listed->n_order; i++) {
        Perfleet__HostOrderState *o = t->listed->order[i];

        if (strcmp(o->orderer, orderer) == 0 && strcmp(o->name, name) == 0)
            return o;
    }
    return NULL;
}

static void set_refused(const struct pfl_rollout_turn *t, struct item *item)
{
    Perfleet__HostOrderState *s = &item->state;

    perfleet__host_order_state__init(s);
    s->orderer = item->orderer;
    s->name = item->name;
    s->has_generation = s->has_state = s->has_since_unix_ms = true;
    s->generation = item->wanted->entry->generation;
    s->state = PERFLEET__HOST_ORDER_STATE__STATE__REFUSED;
    s->since_unix_ms = t->now_unix_ms;
    s->why = item->why;
}

/* What the host says, in bounds. */
static void set_said(struct item *item, const Perfleet__HostOrderState *said)
{
    Perfleet__HostOrderState *s = &item->state;

    *s = *said;
    s->base.n_unknown_fields = 0;
    s->base.unknown_fields = NULL;
    s->orderer = item->orderer;
    s->name = item->name;
    (void)snprintf(item->why, sizeof(item->why), "%s", said->why != NULL ? said->why : "");
    s->why = item->why;
}

/* Of orders that it should have: a host cannot fill the index with others. */
static void set_states(struct pfl_rollout_turn *t)
{
    for (size_t i = 0; i < t->items_len; i++) {
        struct item *item = &t->items[i];
        const Perfleet__HostOrderState *said = find_listed(t, item->orderer, item->name);

        item->has_state = item->wanted != NULL && (item->is_refused || said != NULL);
        if (item->has_state && item->is_refused)
            set_refused(t, item);
        else if (item->has_state)
            set_said(item, said);
    }
}

enum pfl_rollout_step pfl_rollout_turn_take(struct pfl_rollout_turn *self)
{
    if (self->is_under_way)
        return PFL_ROLLOUT_WAIT;
    self->step = choose(self);
    self->is_under_way = true;
    if (self->step == PFL_ROLLOUT_CONNECT)
        self->stream = STREAM_NONE;
    if (self->step == PFL_ROLLOUT_SAVE)
        set_states(self);
    return self->step;
}

/* ---- the lease and streams ---- */

void pfl_rollout_turn_on_lease(struct pfl_rollout_turn *self, int rc, bool is_held)
{
    assert(self->step == PFL_ROLLOUT_LEASE);
    self->is_under_way = false;
    self->is_leased = rc == 0 && is_held;
    if (rc != 0)
        end(self, PFL_ROLLOUT_AGAIN, pfl_err_str(rc));
    else if (!is_held)
        end(self, PFL_ROLLOUT_LEASED, "another collector has this host");
}

static void refuse(struct pfl_rollout_turn *t, struct item *item, const char *why)
{
    item->is_refused = true;
    item->todo = item->is_there ? TODO_REMOVE : TODO_NOTHING;
    (void)snprintf(item->why, sizeof(item->why), "%s", why);
    (void)snprintf(t->why, sizeof(t->why), "%s", why);
    t->figures.refused++;
    pfl_rollout_host_on_given(t->host, item->wanted);
}

/* The relay does not let this operator order here. */
static void refuse_all(struct pfl_rollout_turn *t, const char *orderer)
{
    char why[PFL_ROLLOUT_WHY_BYTES];

    (void)snprintf(why, sizeof(why), "the policy does not let operator %s order here", orderer);
    for (size_t i = 0; i < t->items_len; i++) {
        if (t->items[i].todo == TODO_PUT && strcmp(t->items[i].orderer, orderer) == 0)
            refuse(t, &t->items[i], why);
    }
}

void pfl_rollout_turn_on_connect(struct pfl_rollout_turn *self, int rc)
{
    assert(self->step == PFL_ROLLOUT_CONNECT);
    self->is_under_way = false;
    if (rc == 0)
        self->stream = self->orderer == NULL ? STREAM_OWN : STREAM_FOR;
    else if (rc == PFL_EPERM && self->orderer != NULL)
        refuse_all(self, self->orderer);
    else
        end(self, PFL_ROLLOUT_LOST, pfl_err_str(rc));
}

void pfl_rollout_turn_on_lost(struct pfl_rollout_turn *self)
{
    self->stream = STREAM_NONE;
    end(self, PFL_ROLLOUT_LOST, "the stream is lost");
    if (self->step != PFL_ROLLOUT_LEASE && self->step != PFL_ROLLOUT_SAVE &&
        self->step != PFL_ROLLOUT_END)
        self->is_under_way = false;
}

/* ---- what the host has ---- */

static bool is_list(const Perfleet__SpoolReply *reply)
{
    if (reply->n_order > PFL_ROLLOUT_LISTED_MAX)
        return false;
    for (size_t i = 0; i < reply->n_order; i++) {
        const Perfleet__HostOrderState *o = reply->order[i];

        if (o->orderer == NULL || o->name == NULL || !pfl_identity_is_name(o->orderer) ||
            !pfl_identity_is_name(o->name))
            return false;
    }
    return true;
}

static void name_item(struct item *item, const char *orderer, const char *name)
{
    (void)snprintf(item->orderer, sizeof(item->orderer), "%s", orderer);
    (void)snprintf(item->name, sizeof(item->name), "%s", name);
}

static void add_wanted(struct pfl_rollout_turn *t, const struct pfl_wanted_order *wanted)
{
    struct item *item = &t->items[t->items_len++];
    const Perfleet__HostOrderState *said;

    name_item(item, wanted->entry->orderer, wanted->entry->name);
    said = find_listed(t, item->orderer, item->name);
    item->wanted = wanted;
    item->is_there = said != NULL;
    if (said == NULL || said->generation != wanted->entry->generation || wanted->is_new_run ||
        pfl_rollout_host_is_refreshed(t->host))
        item->todo = TODO_PUT;
}

static bool has_item(const struct pfl_rollout_turn *t, const char *orderer, const char *name)
{
    for (size_t i = 0; i < t->items_len; i++) {
        if (strcmp(t->items[i].orderer, orderer) == 0 && strcmp(t->items[i].name, name) == 0)
            return true;
    }
    return false;
}

static int make_items(struct pfl_rollout_turn *t)
{
    t->items = pfl_mem_calloc(t->wanted.len + t->listed->n_order + 1, sizeof(*t->items));
    if (t->items == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < t->wanted.len; i++)
        add_wanted(t, &t->wanted.list[i]);
    for (size_t i = 0; i < t->listed->n_order; i++) {
        const Perfleet__HostOrderState *o = t->listed->order[i];
        struct item *item = &t->items[t->items_len];

        if (has_item(t, o->orderer, o->name))
            continue;
        name_item(item, o->orderer, o->name);
        item->is_there = true;
        item->todo = TODO_REMOVE;
        t->items_len++;
    }
    return 0;
}

/* Not now: the next turn tries again. */
static void leave(struct pfl_rollout_turn *t, struct item *item, const char *why)
{
    if (item->todo == TODO_PUT) {
        item->is_refused = true;
        (void)snprintf(item->why, sizeof(item->why), "%s", why);
    }
    item->todo = TODO_NOTHING;
    (void)snprintf(t->why, sizeof(t->why), "%s", why);
    t->end = PFL_ROLLOUT_AGAIN;
}

static void leave_all(struct pfl_rollout_turn *t, const char *why)
{
    for (size_t i = 0; i < t->items_len; i++)
        leave(t, &t->items[i], why);
    (void)snprintf(t->why, sizeof(t->why), "%s", why);
    t->end = PFL_ROLLOUT_AGAIN;
}

void pfl_rollout_turn_on_list(struct pfl_rollout_turn *self, Perfleet__SpoolReply *reply)
{
    const char *why = reply->why != NULL ? reply->why : "the host says nothing of its orders";
    bool is_first = self->items == NULL;

    assert(self->step == PFL_ROLLOUT_LIST);
    self->is_under_way = false;
    drop_list(self);
    self->listed = reply;
    self->is_list_old = false;
    if (!is_list(reply))
        end(self, PFL_ROLLOUT_LOST, "the host's answer is no list of orders");
    else if (is_first && make_items(self) != 0)
        end(self, PFL_ROLLOUT_AGAIN, pfl_err_str(PFL_ENOMEM));
    else if (reply->status != 0 && is_first)
        leave_all(self, why);
    else if (reply->status != 0)
        end(self, PFL_ROLLOUT_AGAIN, why);
}

/* ---- what is put and removed ---- */

const char *pfl_rollout_turn_get_orderer(const struct pfl_rollout_turn *self)
{
    return self->orderer;
}

void pfl_rollout_turn_get_put(const struct pfl_rollout_turn *self, struct pfl_rollout_put *ret_put)
{
    const struct pfl_wanted_order *w = self->current->wanted;

    perfleet__host_order__init(&ret_put->order);
    ret_put->order.order = w->entry->order;
    ret_put->order.has_generation = true;
    ret_put->order.generation = w->entry->generation;
    for (unsigned i = 0; i < w->runs_len; i++) {
        Perfleet__HostOrder__Run *run = &ret_put->runs[i];

        perfleet__host_order__run__init(run);
        run->has_id = run->has_begin_unix_ms = run->has_duration_ms = true;
        run->id = w->runs[i].id;
        run->begin_unix_ms = w->runs[i].begin_unix_ms;
        run->duration_ms = w->runs[i].duration_ms;
        ret_put->list[i] = run;
    }
    ret_put->order.n_run = w->runs_len;
    ret_put->order.run = ret_put->list;
}

void pfl_rollout_turn_get_remove(const struct pfl_rollout_turn *self,
                                 Perfleet__SpoolRequest__OrderName *ret_name)
{
    perfleet__spool_request__order_name__init(ret_name);
    ret_name->orderer = self->current->orderer;
    ret_name->name = self->current->name;
}

/* For today, or for good. */
static bool is_final(uint32_t status)
{
    return status == 400 || status == 403 || status == 404 || status == 409;
}

static void on_put(struct pfl_rollout_turn *t, struct item *item, uint32_t status, const char *why)
{
    if (status == 0) {
        item->todo = TODO_NOTHING;
        item->is_there = true;
        t->figures.put++;
        pfl_rollout_host_on_given(t->host, item->wanted);
    } else if (is_final(status)) {
        refuse(t, item, why);
    } else {
        leave(t, item, why);
    }
}

static void on_remove(struct pfl_rollout_turn *t, struct item *item, uint32_t status,
                      const char *why)
{
    if (status != 0 && status != 404) {
        leave(t, item, why);
        return;
    }
    item->todo = TODO_NOTHING;
    item->is_there = false;
    t->figures.removed++;
}

void pfl_rollout_turn_on_status(struct pfl_rollout_turn *self, uint32_t status, const char *why)
{
    const char *text = why != NULL ? why : "the host gives no reason";

    assert(self->step == PFL_ROLLOUT_PUT || self->step == PFL_ROLLOUT_REMOVE);
    self->is_under_way = false;
    self->is_list_old = true;
    if (self->step == PFL_ROLLOUT_PUT)
        on_put(self, self->current, status, text);
    else
        on_remove(self, self->current, status, text);
}

/* ---- the end ---- */

size_t pfl_rollout_turn_count_saved(const struct pfl_rollout_turn *self)
{
    return self->items_len;
}

void pfl_rollout_turn_get_saved(const struct pfl_rollout_turn *self, size_t index,
                                struct pfl_rollout_saved *ret_saved)
{
    const struct item *item = &self->items[index];

    *ret_saved = (struct pfl_rollout_saved){item->orderer, item->name,
                                            item->has_state ? &item->state : NULL};
}

void pfl_rollout_turn_on_saved(struct pfl_rollout_turn *self, int rc)
{
    assert(self->step == PFL_ROLLOUT_SAVE);
    self->is_under_way = false;
    self->is_saved = true;
    if (rc != 0)
        end(self, PFL_ROLLOUT_AGAIN, pfl_err_str(rc));
}

void pfl_rollout_turn_get_result(const struct pfl_rollout_turn *self,
                                 struct pfl_rollout_result *ret_result)
{
    *ret_result = (struct pfl_rollout_result){
        .end = self->end, .wanted_hash = self->wanted.hash, .has_put = self->figures.put != 0};
}

const char *pfl_rollout_turn_get_why(const struct pfl_rollout_turn *self)
{
    return self->why;
}

void pfl_rollout_turn_get_figures(const struct pfl_rollout_turn *self,
                                  struct pfl_rollout_turn_figures *ret_figures)
{
    *ret_figures = self->figures;
}
