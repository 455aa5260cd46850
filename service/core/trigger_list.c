/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The triggers of a session, and the activations of the last 24 hours.
 *
 * The history is a ring of events, oldest first, and a hash table that counts them by name: add and
 * count take constant time at any size; so does the removal of each event. Users share it.
 * Failures: PFL_ENOMEM and PFL_ELIMIT from the list; the history leaves an event uncounted. Limits:
 * PFL_TRIGGERS_MAX, PFL_TRIGGER_HISTORY_MAX.
 */
#include "service/core/trigger_list.h"

#include "base/mem.h"

#define FIRST_CAP     16u
#define HISTORY_FIRST 64u

/* Room for one more; `cap` doubles up to `max`. */
static int grow(void **table, size_t *cap, size_t len, size_t entry_bytes, size_t max)
{
    size_t wanted = *cap == 0 ? FIRST_CAP : *cap * 2;
    void *moved;

    if (len < *cap)
        return 0;
    if (*cap >= max)
        return PFL_ELIMIT;
    if (wanted > max)
        wanted = max;
    moved = pfl_mem_calloc(wanted, entry_bytes);
    if (moved == NULL)
        return PFL_ENOMEM;
    if (len != 0)
        memcpy(moved, *table, len * entry_bytes);
    pfl_mem_free(*table);
    *table = moved;
    *cap = wanted;
    return 0;
}

static bool has_room_for(const struct pfl_trigger_list *self, uint64_t who)
{
    size_t of_who = 0;

    for (size_t i = 0; i < self->received_len; i++)
        of_who += self->received[i].who == who;
    return who == 0 || pfl_shares_allow(PFL_TRIGGERS_MAX, self->received_len, of_who, 1);
}

int pfl_trigger_list_add(struct pfl_trigger_list *self, const struct pfl_trigger *trigger)
{
    struct pfl_trigger copy = *trigger;
    void *table = self->received;
    int rc;

    if (!has_room_for(self, trigger->who))
        return PFL_ELIMIT;
    rc = grow(&table, &self->received_cap, self->received_len, sizeof(copy), PFL_TRIGGERS_MAX);
    self->received = table;
    if (rc != 0)
        return rc;
    if (copy.producer_name.len != 0) {
        uint8_t *name = pfl_mem_memdup(copy.producer_name.data, copy.producer_name.len);

        if (name == NULL)
            return PFL_ENOMEM;
        copy.producer_name.data = name;
    }
    self->received[self->received_len++] = copy;
    return 0;
}

int pfl_trigger_list_copy(struct pfl_trigger_list *self, const struct pfl_trigger_list *from)
{
    self->timeout_ms = UINT64_MAX;
    for (size_t i = from->cloned_len; i < from->received_len; i++) {
        struct pfl_trigger copy = from->received[i];
        int rc;

        copy.due_ms = UINT64_MAX;
        rc = pfl_trigger_list_add(self, &copy);
        if (rc != 0) {
            pfl_trigger_list_fini(self);
            return rc;
        }
    }
    return 0;
}

static void free_trigger(struct pfl_trigger *trigger)
{
    if (trigger->producer_name.len != 0)
        pfl_mem_free((void *)(uintptr_t)trigger->producer_name.data);
}

void pfl_trigger_list_set_cloned(struct pfl_trigger_list *self)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->received_len; i++) {
        if (self->received[i].due_ms == UINT64_MAX)
            free_trigger(&self->received[i]);
        else
            self->received[kept++] = self->received[i];
    }
    self->received_len = self->cloned_len = self->sent_len = kept;
}

void pfl_trigger_list_fini(struct pfl_trigger_list *self)
{
    for (size_t i = 0; i < self->received_len; i++)
        free_trigger(&self->received[i]);
    pfl_mem_free(self->received);
    *self = (struct pfl_trigger_list){0};
}

/* ---- the history ---- */

void pfl_trigger_history_init(struct pfl_trigger_history *self)
{
    *self = (struct pfl_trigger_history){.shares.max = PFL_TRIGGER_HISTORY_MAX,
                                         .rates.at_once = PFL_TRIGGER_AT_ONCE,
                                         .rates.per_s = PFL_TRIGGER_PER_S};
}

static size_t home_of(const struct pfl_trigger_history *h, uint64_t name_hash)
{
    return (name_hash * 0x9e3779b97f4a7c15ull >> 32) & (2 * h->cap - 1);
}

/* The name's place, or the free one where it would be. */
static struct pfl_trigger_name *find_name(const struct pfl_trigger_history *h, uint64_t name_hash)
{
    size_t at = home_of(h, name_hash);

    while (h->names[at].count != 0 && h->names[at].name_hash != name_hash)
        at = (at + 1) & (2 * h->cap - 1);
    return &h->names[at];
}

/* Moves entries after a freed slot back, so that lookups find them. */
static void close_gap(struct pfl_trigger_history *h, struct pfl_trigger_name *gap)
{
    size_t mask = 2 * h->cap - 1;
    size_t free_at = (size_t)(gap - h->names);

    for (size_t at = (free_at + 1) & mask; h->names[at].count != 0; at = (at + 1) & mask) {
        size_t home = home_of(h, h->names[at].name_hash);

        if (((at - home) & mask) < ((at - free_at) & mask))
            continue;
        h->names[free_at] = h->names[at];
        h->names[at].count = 0;
        free_at = at;
    }
}

static void uncount(struct pfl_trigger_history *h, const struct pfl_trigger_event *event)
{
    struct pfl_trigger_name *name = find_name(h, event->name_hash);

    if (--name->count == 0)
        close_gap(h, name);
    pfl_shares_give(&h->shares, event->who, 1);
}

static void forget_oldest(struct pfl_trigger_history *h)
{
    uncount(h, &h->events[h->first]);
    h->first = (h->first + 1) & (h->cap - 1);
    h->len--;
}

static void count_name(struct pfl_trigger_history *h, uint64_t name_hash)
{
    struct pfl_trigger_name *name = find_name(h, name_hash);

    name->name_hash = name_hash;
    name->count++;
}

static bool double_history(struct pfl_trigger_history *h)
{
    struct pfl_trigger_history grown = *h;

    grown.cap = h->cap == 0 ? HISTORY_FIRST : 2 * h->cap;
    grown.first = 0;
    grown.events = pfl_mem_calloc(grown.cap, sizeof(grown.events[0]));
    grown.names = pfl_mem_calloc(2 * grown.cap, sizeof(grown.names[0]));
    if (grown.events == NULL || grown.names == NULL) {
        pfl_mem_free(grown.events);
        pfl_mem_free(grown.names);
        return false;
    }
    for (size_t i = 0; i < h->len; i++) {
        grown.events[i] = h->events[(h->first + i) & (h->cap - 1)];
        count_name(&grown, grown.events[i].name_hash);
    }
    pfl_mem_free(h->events);
    pfl_mem_free(h->names);
    *h = grown;
    return true;
}

size_t pfl_trigger_history_count(struct pfl_trigger_history *self, uint64_t boottime_ns,
                                 uint64_t name_hash)
{
    while (self->len != 0 &&
           boottime_ns - self->events[self->first].boottime_ns >= PFL_TRIGGER_HISTORY_NS)
        forget_oldest(self);
    return self->len != 0 ? find_name(self, name_hash)->count : 0;
}

bool pfl_trigger_history_add(struct pfl_trigger_history *self,
                             const struct pfl_trigger_event *event)
{
    if (self->len == self->cap && (self->cap >= PFL_TRIGGER_HISTORY_MAX || !double_history(self)))
        return false;
    if (!pfl_shares_take(&self->shares, event->who, 1))
        return false;
    self->events[(self->first + self->len) & (self->cap - 1)] = *event;
    self->len++;
    count_name(self, event->name_hash);
    return true;
}

void pfl_trigger_history_take_back(struct pfl_trigger_history *self)
{
    self->len--;
    uncount(self, &self->events[(self->first + self->len) & (self->cap - 1)]);
}

bool pfl_trigger_history_may_raise(struct pfl_trigger_history *self, uint64_t boottime_ns,
                                   uint64_t who)
{
    return pfl_user_rates_take(&self->rates, who, boottime_ns);
}

void pfl_trigger_history_fini(struct pfl_trigger_history *self)
{
    pfl_mem_free(self->events);
    pfl_mem_free(self->names);
    *self = (struct pfl_trigger_history){0};
}
