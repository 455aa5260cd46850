/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of orders: see known_orders.h.
 *
 * Happy path: an order that is new, or of another generation, is unpacked and checked, and replaces
 * the entry of its slot; the slot keeps the rounds. Failures: an order that is none is as one that
 * was removed; without memory the table stays as it was. Ownership: slots own schedules and hold a
 * reference to their entry. Limits: PFL_KNOWN_ORDERS_MAX.
 */
#include "collector/order/known_orders.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "proto/unpack.h"

/* ---- entries ---- */

void pfl_known_order_ref(struct pfl_known_order *entry)
{
    entry->refs++;
}

void pfl_known_order_unref(struct pfl_known_order *entry)
{
    if (entry == NULL || --entry->refs != 0)
        return;
    pfl_proto_free(&entry->order->base);
    pfl_mem_free(entry);
}

/* As a host may have it: names that a certificate could have, the order's own name. */
static int unpack(const struct pfl_index_order *row, Perfleet__Order **ret_order, char *ret_why)
{
    Perfleet__Order *order;
    int rc;

    if (!pfl_identity_is_name(row->orderer) || !pfl_identity_is_name(row->name)) {
        (void)snprintf(ret_why, PFL_ORDER_WHY_BYTES, "the orderer or the order has no valid name");
        return PFL_EPARSE;
    }
    rc = pfl_order_unpack(row->order, &order, ret_why);
    if (rc != 0)
        return rc == PFL_ENOMEM ? rc : PFL_EPARSE;
    if (strcmp(order->name, row->name) != 0) {
        (void)snprintf(ret_why, PFL_ORDER_WHY_BYTES, "it has another name inside: \"%s\"",
                       order->name);
        pfl_proto_free(&order->base);
        return PFL_EPARSE;
    }
    *ret_order = order;
    return 0;
}

static int make_entry(const struct pfl_index_order *row, struct pfl_known_order **ret_entry,
                      char *ret_why)
{
    struct pfl_known_order *entry = pfl_mem_zalloc(sizeof(*entry));
    int rc = entry != NULL ? unpack(row, &entry->order, ret_why) : PFL_ENOMEM;

    if (rc != 0) {
        pfl_mem_free(entry);
        return rc;
    }
    entry->order->has_paused = entry->order->paused = 0; /* the index says it */
    pfl_order_get_terms(entry->order, &entry->terms);
    entry->refs = 1;
    entry->generation = row->generation;
    entry->is_paused = row->is_paused;
    (void)snprintf(entry->orderer, sizeof(entry->orderer), "%s", row->orderer);
    (void)snprintf(entry->name, sizeof(entry->name), "%s", row->name);
    *ret_entry = entry;
    return 0;
}

/* ---- slots ---- */

static void free_slot(struct pfl_known_orders_slot *slot)
{
    pfl_known_order_unref(slot->entry);
    pfl_schedule_free(slot->schedule);
    pfl_mem_free(slot);
}

void pfl_known_orders_fini(struct pfl_known_orders *self)
{
    for (size_t i = 0; i < self->len; i++)
        free_slot(self->slots[i]);
    self->len = 0;
}

static int compare(const struct pfl_known_orders_slot *slot, const char *orderer, const char *name)
{
    int order = strcmp(slot->entry->orderer, orderer);

    return order != 0 ? order : strcmp(slot->entry->name, name);
}

/* Where it is, or belongs. */
static size_t find_place(const struct pfl_known_orders *t, const char *orderer, const char *name)
{
    size_t from = 0;
    size_t to = t->len;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (compare(t->slots[middle], orderer, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

struct pfl_known_orders_slot *pfl_known_orders_find(const struct pfl_known_orders *self,
                                                    const char *orderer, const char *name)
{
    size_t place = find_place(self, orderer, name);

    return place < self->len && compare(self->slots[place], orderer, name) == 0 ? self->slots[place]
                                                                                : NULL;
}

static int insert(struct pfl_known_orders *t, struct pfl_known_order *entry)
{
    size_t place = find_place(t, entry->orderer, entry->name);
    struct pfl_known_orders_slot *slot;

    if (t->len == PFL_KNOWN_ORDERS_MAX)
        return PFL_ELIMIT;
    slot = pfl_mem_zalloc(sizeof(*slot));
    if (slot == NULL)
        return PFL_ENOMEM;
    slot->entry = entry;
    slot->is_seen = true;
    if (entry->terms.when == PFL_ORDER_SCHEDULE)
        slot->rounds = PFL_KNOWN_ROUNDS_UNREAD;
    memmove(&t->slots[place + 1], &t->slots[place], (t->len - place) * sizeof(t->slots[0]));
    t->slots[place] = slot;
    t->len++;
    return 0;
}

static void replace(struct pfl_known_orders_slot *slot, struct pfl_known_order *entry)
{
    bool has_schedule = entry->terms.when == PFL_ORDER_SCHEDULE;

    pfl_known_order_unref(slot->entry);
    slot->entry = entry;
    if (has_schedule && slot->rounds == PFL_KNOWN_ROUNDS_NONE)
        slot->rounds = PFL_KNOWN_ROUNDS_UNREAD;
    if (has_schedule)
        return;
    pfl_schedule_free(slot->schedule);
    slot->schedule = NULL;
    slot->rounds = PFL_KNOWN_ROUNDS_NONE;
}

/* ---- reading ---- */

void pfl_known_orders_begin(struct pfl_known_orders *self)
{
    self->has_changed = false;
    for (size_t i = 0; i < self->len; i++)
        self->slots[i]->is_seen = false;
}

int pfl_known_orders_add(struct pfl_known_orders *self, const struct pfl_index_order *row,
                         char *ret_why)
{
    struct pfl_known_orders_slot *slot = pfl_known_orders_find(self, row->orderer, row->name);
    struct pfl_known_order *entry;
    int rc;

    if (slot != NULL && slot->entry->generation == row->generation &&
        slot->entry->is_paused == row->is_paused) {
        slot->is_seen = true;
        return 0;
    }
    rc = make_entry(row, &entry, ret_why);
    if (rc == 0 && slot == NULL)
        rc = insert(self, entry);
    else if (rc == 0)
        replace(slot, entry);
    else
        return rc;
    if (rc != 0) {
        pfl_known_order_unref(entry);
        return rc;
    }
    if (slot != NULL)
        slot->is_seen = true;
    self->has_changed = true;
    return 0;
}

bool pfl_known_orders_end(struct pfl_known_orders *self, bool is_whole)
{
    size_t kept = 0;

    for (size_t i = 0; is_whole && i < self->len; i++) {
        if (self->slots[i]->is_seen)
            self->slots[kept++] = self->slots[i];
        else
            free_slot(self->slots[i]);
    }
    if (is_whole) {
        self->has_changed = self->has_changed || kept != self->len;
        self->len = kept;
    }
    return self->has_changed;
}

int pfl_known_orders_set_rounds(struct pfl_known_orders_slot *slot, uint64_t version,
                                struct pfl_span rounds_untrusted, uint64_t seed,
                                uint64_t now_unix_ms)
{
    struct pfl_schedule *schedule = NULL;
    int rc = version != 0 ? pfl_schedule_load(rounds_untrusted, &schedule) : PFL_EPARSE;

    if (rc == PFL_EPARSE || rc == PFL_ELIMIT)
        rc = pfl_schedule_new(seed, now_unix_ms + PFL_SCHEDULE_LEAD_MS, &schedule);
    if (rc != 0)
        return rc;
    pfl_schedule_free(slot->schedule);
    slot->schedule = schedule;
    slot->version = version;
    slot->rounds = PFL_KNOWN_ROUNDS_SAVED;
    return 0;
}
