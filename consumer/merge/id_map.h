/* SPDX-License-Identifier: Apache-2.0 */
/* A bounded map from one host's 32-bit ids to ids that are fresh in the merged trace. */
#ifndef PFL_CONSUMER_ID_MAP_H
#define PFL_CONSUMER_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

struct pfl_id_map_slot {
    uint32_t from;
    uint32_t to; /* 0 = free */
};

struct pfl_id_map {
    struct pfl_id_map_slot *slots; /* owned; a power of two, open addressing */
    size_t capacity;
    size_t len;
    size_t max_len;
    struct pfl_hash_key hash_key;
    struct pfl_id_map_slot last; /* the latest answer: packets come in runs of one sequence */
};

/* No allocation until the first id. The key is random and secret: with it a host could choose ids
 * that collide in the table. */
void pfl_id_map_init(struct pfl_id_map *self, size_t max_len, const struct pfl_hash_key *hash_key);
void pfl_id_map_fini(struct pfl_id_map *self);

/* False: it has none yet. */
bool pfl_id_map_find(struct pfl_id_map *self, uint32_t from, uint32_t *ret_to);
/* Of one that has none: it gets *next_id, which is then incremented. PFL_ELIMIT past max_len or
 * when *next_id is used up (0), PFL_ENOMEM. */
PFL_MUST_USE int pfl_id_map_add(struct pfl_id_map *self, uint32_t from, uint32_t *next_id,
                                uint32_t *ret_to);

/*
 * The id that `from` maps to, found or added. `ret_is_new` may be NULL. Failures as of add.
 */
PFL_MUST_USE int pfl_id_map_get(struct pfl_id_map *self, uint32_t from, uint32_t *next_id,
                                uint32_t *ret_to, bool *ret_is_new);

#endif
