/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map of hosts: see host_map.h. Buckets of a fixed number: PFL_HOST_MAP_MAX hosts are 4 in
 * each, whatever names a relay invents: it does not know the key. Ownership: none.
 */
#include "collector/relay/host_map.h"

#include <string.h>

static size_t find_bucket(const struct pfl_host_map *m, const char *name)
{
    return pfl_hash_keyed(&m->hash_key, pfl_span_of(name, strlen(name))) % PFL_HOST_MAP_BUCKETS;
}

void pfl_host_map_init(struct pfl_host_map *self, const struct pfl_hash_key *hash_key)
{
    *self = (struct pfl_host_map){.hash_key = *hash_key};
    for (unsigned i = 0; i < PFL_HOST_MAP_LISTS; i++)
        pfl_list_init(&self->lists[i]);
}

struct pfl_host_entry *pfl_host_map_find(const struct pfl_host_map *self, const char *name)
{
    struct pfl_host_entry *e = self->buckets[find_bucket(self, name)];

    while (e != NULL && strcmp(e->name, name) != 0)
        e = e->chain;
    return e;
}

int pfl_host_map_add(struct pfl_host_map *self, const char *name, struct pfl_host_entry *entry)
{
    struct pfl_host_entry **bucket = &self->buckets[find_bucket(self, name)];

    if (!pfl_identity_is_name(name))
        return PFL_EINVAL;
    if (self->len == PFL_HOST_MAP_MAX)
        return PFL_ELIMIT;
    memcpy(entry->name, name, strlen(name) + 1);
    entry->chain = *bucket;
    *bucket = entry;
    pfl_list_append(&self->lists[0], &entry->node);
    self->counts[0]++;
    self->len++;
    return 0;
}

void pfl_host_map_set_relays(struct pfl_host_map *self, struct pfl_host_entry *entry,
                             unsigned relays)
{
    for (unsigned i = 0; i < PFL_HOST_MAP_RELAYS; i++) {
        self->of_relay[i] -= entry->relays >> i & 1u;
        self->of_relay[i] += relays >> i & 1u;
    }
    entry->relays = relays;
}

struct pfl_host_entry *pfl_host_map_find_excess(const struct pfl_host_map *self, unsigned relay,
                                                unsigned busy)
{
    unsigned most = relay;

    for (unsigned i = 0; i < PFL_HOST_MAP_RELAYS; i++)
        most = self->of_relay[i] > self->of_relay[most] ? i : most;
    if (self->of_relay[most] <= self->of_relay[relay] + 1)
        return NULL;
    for (unsigned i = 0; i < PFL_HOST_MAP_LISTS; i++) {
        struct pfl_list *it;

        for (it = self->lists[i].prev; i != busy && it != &self->lists[i]; it = it->prev) {
            if (pfl_host_entry_of(it)->relays == 1u << most)
                return pfl_host_entry_of(it);
        }
    }
    return NULL;
}

void pfl_host_map_remove(struct pfl_host_map *self, struct pfl_host_entry *entry)
{
    struct pfl_host_entry **at = &self->buckets[find_bucket(self, entry->name)];

    while (*at != entry)
        at = &(*at)->chain;
    *at = entry->chain;
    pfl_host_map_set_relays(self, entry, 0);
    pfl_list_remove(&entry->node);
    self->counts[entry->list]--;
    self->len--;
}

void pfl_host_map_move(struct pfl_host_map *self, struct pfl_host_entry *entry, unsigned list)
{
    pfl_list_remove(&entry->node);
    self->counts[entry->list]--;
    entry->list = list;
    self->counts[list]++;
    pfl_list_append(&self->lists[list], &entry->node);
}

struct pfl_host_entry *pfl_host_map_get_first(const struct pfl_host_map *self, unsigned list)
{
    return self->counts[list] == 0 ? NULL : pfl_host_entry_of(self->lists[list].next);
}

static struct pfl_host_entry *get_first_of(const struct pfl_host_map *m, unsigned list,
                                           unsigned relay)
{
    struct pfl_list *it;

    if (m->of_relay[relay] == 0)
        return NULL;
    PFL_LIST_EACH (it, &m->lists[list]) {
        if ((pfl_host_entry_of(it)->relays >> relay & 1u) != 0)
            return pfl_host_entry_of(it);
    }
    return NULL;
}

struct pfl_host_entry *pfl_host_map_get_next(const struct pfl_host_map *self, unsigned list,
                                             unsigned *relay)
{
    for (unsigned i = 1; self->counts[list] != 0 && i <= PFL_HOST_MAP_RELAYS; i++) {
        unsigned next = (*relay + i) % PFL_HOST_MAP_RELAYS;
        struct pfl_host_entry *entry = get_first_of(self, list, next);

        if (entry == NULL)
            continue;
        *relay = next;
        return entry;
    }
    return NULL;
}

struct pfl_host_entry *pfl_host_map_get_any(const struct pfl_host_map *self)
{
    struct pfl_host_entry *e = NULL;

    for (unsigned i = 0; i < PFL_HOST_MAP_LISTS && e == NULL; i++)
        e = pfl_host_map_get_first(self, i);
    return e;
}

uint64_t pfl_host_map_get_due_ms(const struct pfl_host_map *self, unsigned list)
{
    uint64_t due_ms = UINT64_MAX;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->lists[list]) {
        if (pfl_host_entry_of(it)->due_ms < due_ms)
            due_ms = pfl_host_entry_of(it)->due_ms;
    }
    return due_ms;
}

struct pfl_host_entry *pfl_host_entry_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_host_entry, node);
}

unsigned pfl_host_entry_get_relay(const struct pfl_host_entry *entry, unsigned after)
{
    for (unsigned i = 1; i <= PFL_HOST_MAP_RELAYS; i++) {
        unsigned relay = (after + i) % PFL_HOST_MAP_RELAYS;

        if ((entry->relays & 1u << relay) != 0)
            return relay;
    }
    return PFL_HOST_MAP_RELAYS;
}
