/* SPDX-License-Identifier: Apache-2.0 */
/* Orders as text and JSON: see order_table.h. Peers' strings are quoted. */
#include "consumer/report/order_table.h"

#include <inttypes.h>

#include "base/log.h"
#include "consumer/text.h"
#include "proto/order/order.h"

#define TEXT_BYTES 256u

static const char *when_of(const Perfleet__OrderStatus *s)
{
    struct pfl_order_terms terms;
    const Perfleet__Order *o = s->order;

    if (o == NULL ||
        (o->continuous == NULL && o->on_trigger == NULL && o->schedule == NULL && o->once == NULL))
        return "?";
    pfl_order_get_terms(o, &terms);
    return pfl_order_when_name(terms.when);
}

static const char *state_name(const Perfleet__HostOrderState *state)
{
    static const char *const names[] = {"waiting", "running", "refused", "paused", "ended"};

    if (state == NULL)
        return "unknown";
    return (unsigned)state->state < sizeof(names) / sizeof(names[0]) ? names[(unsigned)state->state]
                                                                     : "?";
}

static size_t count_state(const Perfleet__OrderStatus *s, Perfleet__HostOrderState__State state)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_host; i++)
        n += s->host[i]->state != NULL && s->host[i]->state->state == state;
    return n;
}

static const char *name_of(const Perfleet__OrderStatus *s)
{
    return s->order != NULL && s->order->name != NULL ? s->order->name : "";
}

int pfl_order_table_list(Perfleet__OrderStatus *const *orders, size_t len, struct pfl_buf *out)
{
    int rc = 0;

    if (len == 0)
        return pfl_text_add(out, "no orders\n");
    rc = pfl_text_add(out, "%-24s %-16s %-11s %6s %8s %8s\n", "NAME", "ORDERER", "WHEN", "HOSTS",
                      "RUNNING", "REFUSED");
    for (size_t i = 0; rc == 0 && i < len; i++) {
        const Perfleet__OrderStatus *s = orders[i];

        rc = pfl_text_add(out, "%-24s %-16s %-11s %6zu %8zu %8zu%s\n", pfl_text_name(name_of(s)),
                          pfl_text_name(s->orderer), when_of(s), s->n_host,
                          count_state(s, PERFLEET__HOST_ORDER_STATE__STATE__RUNNING),
                          count_state(s, PERFLEET__HOST_ORDER_STATE__STATE__REFUSED),
                          s->order != NULL && s->order->paused ? "  paused" : "");
    }
    return rc;
}

static int show_host(const Perfleet__OrderStatus__Host *h, struct pfl_buf *out)
{
    const Perfleet__HostOrderState *s = h->state;
    int rc = pfl_text_add(out, "  %-24s %-8s%s", pfl_text_name(h->name), state_name(s),
                          h->is_connected ? "" : "  not connected");

    if (rc == 0 && s != NULL && s->behind_segments != 0)
        rc = pfl_text_add(out, "  behind by %" PRIu32 " segments, %.1f MB, %.0f s",
                          s->behind_segments, (double)s->behind_bytes / 1e6,
                          (double)s->behind_ms / 1e3);
    if (rc == 0 && s != NULL && s->why != NULL && s->why[0] != '\0')
        rc = pfl_text_add(out, "  %s", pfl_log_quote_reason(s->why));
    return rc == 0 ? pfl_text_add(out, "\n") : rc;
}

int pfl_order_table_show(const Perfleet__OrderStatus *order, struct pfl_buf *out)
{
    int rc =
        pfl_text_add(out, "%s of %s: %s, generation %" PRIu32 "%s\n", pfl_text_name(name_of(order)),
                     pfl_text_name(order->orderer), when_of(order), order->generation,
                     order->order != NULL && order->order->paused ? ", paused" : "");

    for (size_t i = 0; rc == 0 && i < order->n_host; i++)
        rc = show_host(order->host[i], out);
    if (rc == 0 && order->n_host == 0)
        rc = pfl_text_add(out, "  no host has it\n");
    return rc;
}

static json_t *host_json(const Perfleet__OrderStatus__Host *h)
{
    json_t *out = json_object();
    const Perfleet__HostOrderState *s = h->state;

    json_object_set_new(out, "name", pfl_text_json_peer(h->name));
    json_object_set_new(out, "connected", json_boolean(h->is_connected));
    json_object_set_new(out, "state", json_string(state_name(s)));
    if (s == NULL)
        return out;
    json_object_set_new(out, "why", pfl_text_json_peer(s->why));
    pfl_text_json_number(out, "behind_segments", s->behind_segments);
    pfl_text_json_number(out, "behind_bytes", s->behind_bytes);
    pfl_text_json_number(out, "behind_ms", s->behind_ms);
    return out;
}

int pfl_order_table_json(Perfleet__OrderStatus *const *orders, size_t len, struct pfl_buf *out)
{
    json_t *list = json_array();

    for (size_t i = 0; i < len; i++) {
        const Perfleet__OrderStatus *s = orders[i];
        json_t *order = json_object();
        json_t *hosts = json_array();

        json_object_set_new(order, "name", pfl_text_json_peer(name_of(s)));
        json_object_set_new(order, "orderer", pfl_text_json_peer(s->orderer));
        json_object_set_new(order, "when", json_string(when_of(s)));
        pfl_text_json_number(order, "generation", s->generation);
        json_object_set_new(order, "paused", json_boolean(s->order != NULL && s->order->paused));
        for (size_t k = 0; k < s->n_host; k++)
            json_array_append_new(hosts, host_json(s->host[k]));
        json_object_set_new(order, "hosts", hosts);
        json_array_append_new(list, order);
    }
    return pfl_text_dump_json(list, out);
}
