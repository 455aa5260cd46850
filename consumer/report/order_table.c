/* SPDX-License-Identifier: Apache-2.0 */
/* Orders as text and JSON: see order_table.h. Peers' strings are quoted. */
#include "consumer/report/order_table.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "consumer/text.h"
#include "proto/order/order.h"

#define NAMES_BYTES 4096u /* of an order and its orderer, from a peer */

const char *pfl_order_table_when(const Perfleet__OrderStatus *order)
{
    struct pfl_order_terms terms;
    const Perfleet__Order *o = order->order;

    if (o == NULL ||
        (o->continuous == NULL && o->on_trigger == NULL && o->schedule == NULL && o->once == NULL))
        return "?";
    pfl_order_get_terms(o, &terms);
    return pfl_order_when_name(terms.when);
}

const char *pfl_order_table_state(const Perfleet__HostOrderState *state)
{
    static const char *const names[] = {"waiting", "running", "refused", "paused", "ended"};

    if (state == NULL)
        return "unknown";
    return (unsigned)state->state < sizeof(names) / sizeof(names[0]) ? names[(unsigned)state->state]
                                                                     : "?";
}

static const char *name_of(const Perfleet__OrderStatus *s)
{
    return s->order != NULL && s->order->name != NULL ? s->order->name : "";
}

static bool has_state(const Perfleet__OrderStatus__Host *h, Perfleet__HostOrderState__State state)
{
    return h->state != NULL && h->state->state == state;
}

/* ---- a list ---- */

static int begin_line(struct pfl_order_table *t, const Perfleet__OrderStatus *s)
{
    int rc = 0;

    if (t->orders == 0)
        rc = pfl_text_add(t->out, "%-24s %-16s %-11s %6s %8s %8s\n", "NAME", "ORDERER", "WHEN",
                          "HOSTS", "RUNNING", "REFUSED");
    t->running = t->refused = 0;
    t->is_paused = s->order != NULL && s->order->paused;
    pfl_buf_clear(&t->begun);
    if (rc == 0)
        rc = pfl_text_add(&t->begun, "%-24s %-16s %-11s", pfl_text_name(name_of(s)),
                          pfl_text_name(s->orderer), pfl_order_table_when(s));
    return rc;
}

static int end_line(struct pfl_order_table *t)
{
    struct pfl_span begun = pfl_buf_get(&t->begun);
    int rc = pfl_buf_append(t->out, begun.data, begun.len);

    return rc != 0 ? rc
                   : pfl_text_add(t->out, " %6zu %8zu %8zu%s\n", t->n_host, t->running, t->refused,
                                  t->is_paused ? "  paused" : "");
}

static void count_host(struct pfl_order_table *t, const Perfleet__OrderStatus__Host *h)
{
    t->running += has_state(h, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING);
    t->refused += has_state(h, PERFLEET__HOST_ORDER_STATE__STATE__REFUSED);
}

/* ---- one order ---- */

static int show_host(const Perfleet__OrderStatus__Host *h, struct pfl_buf *out)
{
    const Perfleet__HostOrderState *s = h->state;
    int rc = pfl_text_add(out, "  %-24s %-8s%s", pfl_text_name(h->name), pfl_order_table_state(s),
                          h->is_connected ? "" : "  not connected");

    if (rc == 0 && s != NULL && s->behind_segments != 0)
        rc = pfl_text_add(out, "  behind by %" PRIu32 " segments, %.1f MB, %.0f s",
                          s->behind_segments, (double)s->behind_bytes / 1e6,
                          (double)s->behind_ms / 1e3);
    if (rc == 0 && s != NULL && (s->has_copies || s->has_skipped))
        rc = pfl_text_add(out, "  %" PRIu64 " copies, %" PRIu64 " skipped", s->copies, s->skipped);
    if (rc == 0 && s != NULL && s->why != NULL && s->why[0] != '\0')
        rc = pfl_text_add(out, "  %s", pfl_log_quote_reason(s->why));
    return rc == 0 ? pfl_text_add(out, "\n") : rc;
}

static int show_order(const Perfleet__OrderStatus *s, struct pfl_buf *out)
{
    return pfl_text_add(out, "%s of %s: %s, generation %" PRIu32 "%s\n", pfl_text_name(name_of(s)),
                        pfl_text_name(s->orderer), pfl_order_table_when(s), s->generation,
                        s->order != NULL && s->order->paused ? ", paused" : "");
}

/* ---- JSON ---- */

static json_t *host_json(const Perfleet__OrderStatus__Host *h)
{
    json_t *out = json_object();
    const Perfleet__HostOrderState *s = h->state;

    json_object_set_new(out, "name", pfl_text_json_peer(h->name));
    json_object_set_new(out, "connected", json_boolean(h->is_connected));
    json_object_set_new(out, "state", json_string(pfl_order_table_state(s)));
    if (s == NULL)
        return out;
    json_object_set_new(out, "why", pfl_text_json_peer(s->why));
    pfl_text_json_number(out, "behind_segments", s->behind_segments);
    pfl_text_json_number(out, "behind_bytes", s->behind_bytes);
    pfl_text_json_number(out, "behind_ms", s->behind_ms);
    if (s->has_copies)
        pfl_text_json_number(out, "copies", s->copies);
    if (s->has_skipped)
        pfl_text_json_number(out, "skipped", s->skipped);
    return out;
}

static void begin_json(struct pfl_order_table *t, const Perfleet__OrderStatus *s)
{
    json_t *order = json_object();

    t->hosts = json_array();
    json_object_set_new(order, "name", pfl_text_json_peer(name_of(s)));
    json_object_set_new(order, "orderer", pfl_text_json_peer(s->orderer));
    json_object_set_new(order, "when", json_string(pfl_order_table_when(s)));
    pfl_text_json_number(order, "generation", s->generation);
    json_object_set_new(order, "paused", json_boolean(s->order != NULL && s->order->paused));
    json_object_set_new(order, "hosts", t->hosts);
    json_array_append_new(t->list, order);
}

/* ---- the parts ---- */

void pfl_order_table_init(struct pfl_order_table *self, enum pfl_order_table_form form,
                          struct pfl_buf *out)
{
    *self = (struct pfl_order_table){.form = form, .out = out};
    pfl_buf_init(&self->begun, NAMES_BYTES);
    pfl_buf_init(&self->last, NAMES_BYTES);
    if (form == PFL_ORDER_TABLE_JSON)
        self->list = json_array();
}

void pfl_order_table_fini(struct pfl_order_table *self)
{
    pfl_buf_fini(&self->begun);
    pfl_buf_fini(&self->last);
    json_decref(self->list);
    self->list = self->hosts = NULL;
}

/* Of the order before. */
static int end_order(struct pfl_order_table *t)
{
    if (t->orders != 0 && t->form == PFL_ORDER_TABLE_LIST)
        return end_line(t);
    if (t->orders != 0 && t->form == PFL_ORDER_TABLE_SHOW && t->n_host == 0)
        return pfl_text_add(t->out, "  no host has it\n");
    return 0;
}

static int begin_order(struct pfl_order_table *t, const Perfleet__OrderStatus *s)
{
    int rc = end_order(t);

    t->n_host = 0;
    if (rc == 0 && t->form == PFL_ORDER_TABLE_LIST)
        rc = begin_line(t, s);
    else if (rc == 0 && t->form == PFL_ORDER_TABLE_SHOW)
        rc = show_order(s, t->out);
    else if (rc == 0)
        begin_json(t, s);
    t->orders++;
    return rc;
}

/* Whether it is the one before; remembers it. */
static int compare(struct pfl_order_table *t, const Perfleet__OrderStatus *s, bool *ret_is_same)
{
    const char *text = s->orderer != NULL ? s->orderer : "";
    struct pfl_span orderer = pfl_span_of(text, strlen(text) + 1);
    struct pfl_span name = pfl_span_of(name_of(s), strlen(name_of(s)));
    struct pfl_reader last = pfl_reader_of(pfl_buf_get(&t->last));
    int rc;

    *ret_is_same = t->orders != 0 && pfl_span_eq(pfl_reader_bytes(&last, orderer.len), orderer) &&
                   pfl_span_eq(pfl_reader_bytes(&last, last.left), name);
    if (*ret_is_same)
        return 0;
    pfl_buf_clear(&t->last);
    rc = pfl_buf_append(&t->last, orderer.data, orderer.len);
    return rc != 0 ? rc : pfl_buf_append(&t->last, name.data, name.len);
}

int pfl_order_table_add(struct pfl_order_table *self, const Perfleet__OrderStatus *order)
{
    bool is_same;
    int rc = compare(self, order, &is_same);

    if (rc == 0 && !is_same)
        rc = begin_order(self, order);
    self->n_host += order->n_host;
    for (size_t i = 0; rc == 0 && i < order->n_host; i++) {
        if (self->form == PFL_ORDER_TABLE_LIST)
            count_host(self, order->host[i]);
        else if (self->form == PFL_ORDER_TABLE_SHOW)
            rc = show_host(order->host[i], self->out);
        else
            json_array_append_new(self->hosts, host_json(order->host[i]));
    }
    return rc;
}

int pfl_order_table_end(struct pfl_order_table *self)
{
    json_t *list = self->list;
    int rc = end_order(self);

    if (rc == 0 && self->orders == 0 && self->form == PFL_ORDER_TABLE_LIST)
        rc = pfl_text_add(self->out, "no orders\n");
    self->list = NULL;
    if (rc == 0 && self->form == PFL_ORDER_TABLE_JSON)
        rc = pfl_text_dump_json(list, self->out);
    else
        json_decref(list);
    pfl_order_table_fini(self);
    return rc;
}
