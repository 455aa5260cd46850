/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two growing tables with a maximum: the triggers of a session, the activations of the last 24
 * hours. Failures: PFL_ENOMEM and PFL_ELIMIT from the first; the second forgets instead.
 */
#include "service/session/trigger_list.h"

#include "base/mem.h"

#define FIRST_CAP 16u

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

int pfl_trigger_list_add(struct pfl_trigger_list *self, const struct pfl_trigger *trigger)
{
    struct pfl_trigger copy = *trigger;
    void *table = self->received;
    int rc = grow(&table, &self->received_cap, self->received_len, sizeof(copy), PFL_TRIGGERS_MAX);

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
    self->received_len = self->cloned_len = self->told_len = kept;
}

void pfl_trigger_list_fini(struct pfl_trigger_list *self)
{
    for (size_t i = 0; i < self->received_len; i++)
        free_trigger(&self->received[i]);
    pfl_mem_free(self->received);
    *self = (struct pfl_trigger_list){0};
}

static void forget(struct pfl_trigger_history *self, size_t count)
{
    if (count == 0)
        return;
    self->events_len -= count;
    memmove(self->events, self->events + count, self->events_len * sizeof(self->events[0]));
}

size_t pfl_trigger_history_count(struct pfl_trigger_history *self, uint64_t boottime_ns,
                                 uint64_t name_hash)
{
    size_t old = 0;
    size_t count = 0;

    while (old < self->events_len &&
           boottime_ns - self->events[old].boottime_ns >= PFL_TRIGGER_HISTORY_NS)
        old++;
    forget(self, old);
    for (size_t i = 0; i < self->events_len; i++)
        count += self->events[i].name_hash == name_hash;
    return count;
}

void pfl_trigger_history_add(struct pfl_trigger_history *self, uint64_t boottime_ns,
                             uint64_t name_hash)
{
    void *table = self->events;
    int rc = grow(&table, &self->events_cap, self->events_len, sizeof(self->events[0]),
                  PFL_TRIGGER_HISTORY_MAX);

    self->events = table;
    if (rc == PFL_ELIMIT)
        forget(self, 1);
    else if (rc != 0)
        return;
    self->events[self->events_len++] =
        (struct pfl_trigger_event){.boottime_ns = boottime_ns, .name_hash = name_hash};
}

void pfl_trigger_history_fini(struct pfl_trigger_history *self)
{
    pfl_mem_free(self->events);
    *self = (struct pfl_trigger_history){0};
}
