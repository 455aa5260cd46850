/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table whose slots are structs of one size that begin with their key, a uint32_t or
 * uint64_t that is not 0. Open addressing; at most half full, and at least a quarter once it has
 * grown.
 */
#ifndef PFL_BASE_SLOT_TABLE_H
#define PFL_BASE_SLOT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

/* Zeroed memory is an empty table, for all but pfl_slot_table_reserve. */
struct pfl_slot_table {
    uint8_t *slots; /* owned; a power of two of them */
    size_t slots_len;
    size_t used;
    size_t slot_bytes;
    size_t key_bytes; /* 4 or 8 */
    struct pfl_hash_key hash_key;
};

/* `hash_key` is secret if strangers choose the keys; NULL: they do not. No allocation. */
void pfl_slot_table_init(struct pfl_slot_table *self, size_t slot_bytes, size_t key_bytes,
                         const struct pfl_hash_key *hash_key);
void pfl_slot_table_fini(struct pfl_slot_table *self);
/* The slot of that key; NULL: there is none. Borrowed until the next reserve or fini. */
void *pfl_slot_table_find(const struct pfl_slot_table *self, uint64_t key);
/* Room for one more. PFL_ENOMEM; the table is then as it was. */
PFL_MUST_USE int pfl_slot_table_reserve(struct pfl_slot_table *self);
/* A slot of a key that is not there, zeroed but for it. After reserve. */
void *pfl_slot_table_put(struct pfl_slot_table *self, uint64_t key);
/* The next used slot, in no order; *at is 0 at first. NULL: no further one. */
void *pfl_slot_table_next(const struct pfl_slot_table *self, size_t *at);
/* An empty table as `from` is, with room for so many. PFL_ENOMEM. */
PFL_MUST_USE int pfl_slot_table_init_like(struct pfl_slot_table *self,
                                          const struct pfl_slot_table *from, size_t count);
/* The same slots as `from` has. PFL_ENOMEM. */
PFL_MUST_USE int pfl_slot_table_init_copy(struct pfl_slot_table *self,
                                          const struct pfl_slot_table *from);

#endif
