/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders as rows: see order_rows.h. An order with many hosts comes in several parts, of which each
 * names it again. Texts are cut; numbers are a peer's. Limits: those of the header.
 */
#include "consumer/web/running/order_rows.h"

#include <stdio.h>
#include <string.h>

#include "consumer/report/order_table.h"

static const char *text_of(const char *text)
{
    return text != NULL ? text : "";
}

static bool is_same(const struct pfl_order_row *row, const Perfleet__OrderStatus *s)
{
    return strncmp(row->name, text_of(s->order != NULL ? s->order->name : NULL),
                   sizeof(row->name) - 1) == 0 &&
           strncmp(row->orderer, text_of(s->orderer), sizeof(row->orderer) - 1) == 0;
}

/* Its own, or a new one; NULL: there is no room. */
static struct pfl_order_row *find_row(struct pfl_order_rows *r, const Perfleet__OrderStatus *s)
{
    struct pfl_order_row *row = r->len != 0 ? &r->rows[r->len - 1] : NULL;

    if (row != NULL && !r->has_more && is_same(row, s))
        return row;
    if (r->len == PFL_ORDER_ROWS_MAX)
        return NULL;
    row = &r->rows[r->len++];
    *row = (struct pfl_order_row){.when = pfl_order_table_when(s),
                                  .generation = s->generation,
                                  .is_paused = s->order != NULL && s->order->paused};
    (void)snprintf(row->name, sizeof(row->name), "%s",
                   text_of(s->order != NULL ? s->order->name : NULL));
    (void)snprintf(row->orderer, sizeof(row->orderer), "%s", text_of(s->orderer));
    return row;
}

static void keep_host(struct pfl_order_rows *r, const Perfleet__OrderStatus__Host *h)
{
    const Perfleet__HostOrderState *s = h->state;
    struct pfl_order_host_row *row;

    if (r->hosts_len == PFL_ORDER_ROWS_HOSTS_MAX) {
        r->hosts_left_out++;
        return;
    }
    row = &r->hosts[r->hosts_len++];
    *row = (struct pfl_order_host_row){.state = pfl_order_table_state(s),
                                       .is_connected = h->is_connected};
    (void)snprintf(row->name, sizeof(row->name), "%s", text_of(h->name));
    if (s == NULL)
        return;
    row->behind_segments = s->behind_segments;
    row->behind_bytes = s->behind_bytes;
    row->behind_ms = s->behind_ms;
    row->has_copies = s->has_copies || s->has_skipped;
    row->copies = s->copies;
    row->skipped = s->skipped;
    (void)snprintf(row->why, sizeof(row->why), "%s", text_of(s->why));
}

static void count_host(struct pfl_order_row *row, const Perfleet__OrderStatus__Host *h)
{
    const Perfleet__HostOrderState *s = h->state;
    bool is_refused = s != NULL && s->state == PERFLEET__HOST_ORDER_STATE__STATE__REFUSED;

    row->hosts++;
    row->away += !h->is_connected;
    row->refused += is_refused;
    row->running += s != NULL && s->state == PERFLEET__HOST_ORDER_STATE__STATE__RUNNING;
    row->behind_bytes += s != NULL ? s->behind_bytes : 0;
    if (!is_refused || row->why_host[0] != '\0')
        return;
    (void)snprintf(row->why_host, sizeof(row->why_host), "%s", text_of(h->name));
    (void)snprintf(row->why, sizeof(row->why), "%s", text_of(s->why));
}

void pfl_order_rows_keep_hosts(struct pfl_order_rows *self, struct pfl_order_host_row *room)
{
    self->hosts = room;
}

void pfl_order_rows_take(struct pfl_order_rows *self, const Perfleet__CollectorReply *reply)
{
    for (size_t i = 0; i < reply->n_order; i++) {
        const Perfleet__OrderStatus *s = reply->order[i];
        struct pfl_order_row *row = find_row(self, s);

        if (row == NULL) {
            self->has_more = true;
            continue;
        }
        for (size_t j = 0; j < s->n_host; j++) {
            count_host(row, s->host[j]);
            if (self->hosts != NULL)
                keep_host(self, s->host[j]);
        }
    }
}
