/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries in the order of their keys: an AVL tree whose nodes belong to the caller. An entry keeps
 * its address while it is in a map. No operation allocates, fails for lack of memory, or takes more
 * steps than the tree is high: 1.44 log2(entries).
 */
#ifndef PFL_SERVICE_VM_MAP_H
#define PFL_SERVICE_VM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pfl_vm_entry;

struct pfl_vm_map {
    struct pfl_vm_entry *root; /* the map's user owns its entries */
    size_t len;
};

/* What a value is. A container holds the elements of one repeated field: by index, or by the
 * number in a field of each element. */
enum pfl_vm_kind {
    PFL_VM_EMPTY = 0, /* never set, or deleted: not encoded */
    PFL_VM_NUMBER,
    PFL_VM_BYTES,   /* a string, or a message that was not entered */
    PFL_VM_MESSAGE, /* fields by id */
    PFL_VM_INDEXED, /* container */
    PFL_VM_MAPPED,  /* container */
};

struct pfl_vm_value {
    union {
        uint64_t number;
        struct {
            uint8_t *data; /* owned; NULL when len is 0 */
            size_t len;
        } bytes;
        struct pfl_vm_map map; /* owns its entries */
    } as;
    uint8_t kind;      /* enum pfl_vm_kind */
    uint8_t wire_type; /* of a number */
    bool is_merged;    /* by the current merge */
    uint8_t height;    /* the map's, of the entry around this */
};

struct pfl_vm_entry {
    struct pfl_vm_entry *child[2];
    uint64_t key;
    struct pfl_vm_value value;
};

/* NULL when there is none. */
struct pfl_vm_entry *pfl_vm_map_find(const struct pfl_vm_map *self, uint64_t key);
/* The first entry whose key is `key` or greater; NULL behind the last. */
struct pfl_vm_entry *pfl_vm_map_from(const struct pfl_vm_map *self, uint64_t key);
static inline struct pfl_vm_entry *pfl_vm_map_after(const struct pfl_vm_map *self,
                                                    const struct pfl_vm_entry *entry)
{
    return entry->key == UINT64_MAX ? NULL : pfl_vm_map_from(self, entry->key + 1);
}
/* False when the key is there already: then nothing was changed. */
bool pfl_vm_map_insert(struct pfl_vm_map *self, struct pfl_vm_entry *entry);
/* Takes the entry out; NULL when there is none. */
struct pfl_vm_entry *pfl_vm_map_remove(struct pfl_vm_map *self, uint64_t key);

#endif
