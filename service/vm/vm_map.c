/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An AVL tree of entries.
 *
 * insert and remove walk down from the root and put each node on the way back into balance: the
 * heights of two subtrees differ by at most 1, so the recursion is at most 92 deep for any number
 * of entries that 64 bits can count. A removed node with two children is replaced by its successor,
 * by links and never by copying: addresses of entries are held elsewhere.
 * Nothing fails. The map owns no memory; entries are the caller's.
 */
#include "service/vm/vm_map.h"

static int height_of(const struct pfl_vm_entry *entry)
{
    return entry != NULL ? entry->value.height : 0;
}

static void measure(struct pfl_vm_entry *entry)
{
    int left = height_of(entry->child[0]);
    int right = height_of(entry->child[1]);

    entry->value.height = (uint8_t)((left > right ? left : right) + 1);
}

/* The child on `side` takes its parent's place. */
static struct pfl_vm_entry *rotate(struct pfl_vm_entry *entry, int side)
{
    struct pfl_vm_entry *child = entry->child[side];

    if (child == NULL) /* never: it is the higher one */
        return entry;
    entry->child[side] = child->child[1 - side];
    child->child[1 - side] = entry;
    measure(entry);
    measure(child);
    return child;
}

static struct pfl_vm_entry *balance(struct pfl_vm_entry *entry)
{
    int lean = height_of(entry->child[1]) - height_of(entry->child[0]);
    int side = lean > 0;
    struct pfl_vm_entry *child = entry->child[side];

    if (lean >= -1 && lean <= 1) {
        measure(entry);
        return entry;
    }
    if (height_of(child->child[1 - side]) > height_of(child->child[side]))
        entry->child[side] = rotate(child, 1 - side);
    return rotate(entry, side);
}

struct pfl_vm_entry *pfl_vm_map_find(const struct pfl_vm_map *self, uint64_t key)
{
    struct pfl_vm_entry *at = self->root;

    while (at != NULL && at->key != key)
        at = at->child[key > at->key];
    return at;
}

struct pfl_vm_entry *pfl_vm_map_from(const struct pfl_vm_map *self, uint64_t key)
{
    struct pfl_vm_entry *at = self->root;
    struct pfl_vm_entry *best = NULL;

    while (at != NULL) {
        if (at->key >= key)
            best = at;
        at = at->child[at->key < key];
    }
    return best;
}

static struct pfl_vm_entry *insert_below(struct pfl_vm_entry *at, struct pfl_vm_entry *entry)
{
    int side;

    if (at == NULL)
        return entry;
    side = entry->key > at->key;
    at->child[side] = insert_below(at->child[side], entry);
    return balance(at);
}

bool pfl_vm_map_insert(struct pfl_vm_map *self, struct pfl_vm_entry *entry)
{
    if (pfl_vm_map_find(self, entry->key) != NULL)
        return false;
    entry->child[0] = NULL;
    entry->child[1] = NULL;
    entry->value.height = 1;
    self->root = insert_below(self->root, entry);
    self->len++;
    return true;
}

/* The smallest below `at` comes out into *ret_first. */
static struct pfl_vm_entry *take_first(struct pfl_vm_entry *at, struct pfl_vm_entry **ret_first)
{
    if (at->child[0] == NULL) {
        *ret_first = at;
        return at->child[1];
    }
    at->child[0] = take_first(at->child[0], ret_first);
    return balance(at);
}

/* The entry that takes the place of a removed one. */
static struct pfl_vm_entry *replace(const struct pfl_vm_entry *gone)
{
    struct pfl_vm_entry *heir;
    struct pfl_vm_entry *rest;

    if (gone->child[0] == NULL)
        return gone->child[1];
    if (gone->child[1] == NULL)
        return gone->child[0];
    rest = take_first(gone->child[1], &heir);
    heir->child[0] = gone->child[0];
    heir->child[1] = rest;
    return balance(heir);
}

static struct pfl_vm_entry *remove_below(struct pfl_vm_entry *at, uint64_t key)
{
    int side;

    if (at->key == key)
        return replace(at);
    side = key > at->key;
    at->child[side] = remove_below(at->child[side], key);
    return balance(at);
}

struct pfl_vm_entry *pfl_vm_map_remove(struct pfl_vm_map *self, uint64_t key)
{
    struct pfl_vm_entry *entry = pfl_vm_map_find(self, key);

    if (entry == NULL)
        return NULL;
    self->root = remove_below(self->root, key);
    self->len--;
    return entry;
}
