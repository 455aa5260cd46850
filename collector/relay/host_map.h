/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts by name: which relays have each, in which list it is, and when it is due there. A part of
 * the owner's struct of a host, which it allocates and frees. Pure.
 *
 * A list is in the order in which its hosts were moved to it. What a list means is the owner's.
 */
#ifndef PFL_COLLECTOR_RELAY_HOST_MAP_H
#define PFL_COLLECTOR_RELAY_HOST_MAP_H

#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/list.h"
#include "proto/tunnel/identity.h"

#define PFL_HOST_MAP_MAX     16384u
#define PFL_HOST_MAP_BUCKETS 4096u
#define PFL_HOST_MAP_LISTS   6u
#define PFL_HOST_MAP_RELAYS  8u

struct pfl_host_entry {
    struct pfl_list node;         /* of its list */
    struct pfl_host_entry *chain; /* of its bucket */
    unsigned list;
    unsigned relays; /* a bit for each that has it connected: pfl_host_map_set_relays */
    uint64_t due_ms; /* the owner's; of a host that waits in its list */
    char name[PFL_IDENTITY_NAME_BYTES];
};

struct pfl_host_map {
    struct pfl_hash_key hash_key;
    struct pfl_host_entry *buckets[PFL_HOST_MAP_BUCKETS]; /* borrowed until they are removed */
    struct pfl_list lists[PFL_HOST_MAP_LISTS];
    unsigned counts[PFL_HOST_MAP_LISTS];
    unsigned of_relay[PFL_HOST_MAP_RELAYS]; /* hosts that each has */
    unsigned len;
};

/* `hash_key` is secret: a relay names any hosts, whatever certificates there are. */
void pfl_host_map_init(struct pfl_host_map *self, const struct pfl_hash_key *hash_key);
/* NULL: none. */
struct pfl_host_entry *pfl_host_map_find(const struct pfl_host_map *self, const char *name);
/* A zeroed entry, into list 0. PFL_EINVAL: this is no host's name; PFL_ELIMIT: the map is full.
 */
PFL_MUST_USE int pfl_host_map_add(struct pfl_host_map *self, const char *name,
                                  struct pfl_host_entry *entry);
void pfl_host_map_remove(struct pfl_host_map *self, struct pfl_host_entry *entry);
void pfl_host_map_set_relays(struct pfl_host_map *self, struct pfl_host_entry *entry,
                             unsigned relays);
/* In a full map the host to remove for a new one of this relay: one that only the relay with
 * most hosts has, and that is not in list `busy`. NULL: no relay has more than this one. */
struct pfl_host_entry *pfl_host_map_find_excess(const struct pfl_host_map *self, unsigned relay,
                                                unsigned busy);
/* To the end of the list, also of its own. */
void pfl_host_map_move(struct pfl_host_map *self, struct pfl_host_entry *entry, unsigned list);
/* The first of the list; any of the map. NULL: none. */
struct pfl_host_entry *pfl_host_map_get_first(const struct pfl_host_map *self, unsigned list);
/* The first that the next relay after `*relay`, in a circle, has there; `*relay` is that relay
 * then. So relays take turns, however many hosts one names. NULL: none. */
struct pfl_host_entry *pfl_host_map_get_next(const struct pfl_host_map *self, unsigned list,
                                             unsigned *relay);
struct pfl_host_entry *pfl_host_map_get_any(const struct pfl_host_map *self);
/* The least due_ms in the list; UINT64_MAX: it is empty. */
uint64_t pfl_host_map_get_due_ms(const struct pfl_host_map *self, unsigned list);
/* The entry of a node of its list. */
struct pfl_host_entry *pfl_host_entry_of(struct pfl_list *node);
/* A relay that has it, the next after relay `after` in a circle; PFL_HOST_MAP_RELAYS: none. */
unsigned pfl_host_entry_get_relay(const struct pfl_host_entry *entry, unsigned after);

#endif
