/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's table of strings that events refer to by number. Any thread; a known string is
 * found without a lock. Static storage, no allocation.
 */
#ifndef PFL_PRODUCER_INTERN_H
#define PFL_PRODUCER_INTERN_H

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define PFL_INTERN_MAX        2048u  /* numbers are 1 to this - 1 */
#define PFL_INTERN_BYTES      65536u /* of all strings together */
#define PFL_INTERN_STRING_MAX 255u

#define PFL_INTERN_SLOTS (PFL_INTERN_MAX * 2)

struct pfl_intern_slot {
    _Atomic(uintptr_t) key; /* the string's address; 0: free */
    uint32_t number;
    uint32_t offset; /* of the copy in the arena */
};

extern struct pfl_intern_slot pfl_intern_slots[PFL_INTERN_SLOTS];
extern char pfl_intern_arena[PFL_INTERN_BYTES];

static inline uint32_t pfl_intern_hash(uintptr_t key)
{
    return (uint32_t)(((uint64_t)key * 0x9e3779b97f4a7c15u) >> 32) % PFL_INTERN_SLOTS;
}

static inline uint32_t pfl_intern_number_of(const struct pfl_intern_slot *slot, const char *str)
{
    return strcmp(pfl_intern_arena + slot->offset, str) == 0 ? slot->number : 0;
}

/* Finds a string that is not in its first slot. */
uint32_t pfl_intern_find(const char *str);

/* The string's number; 0: none, because the table is full or this address had another string
 * before. */
static inline uint32_t pfl_intern_get(const char *str)
{
    const struct pfl_intern_slot *slot = &pfl_intern_slots[pfl_intern_hash((uintptr_t)str)];

    if (__builtin_expect(atomic_load_explicit(&slot->key, memory_order_acquire) == (uintptr_t)str,
                         1))
        return pfl_intern_number_of(slot, str);
    return pfl_intern_find(str);
}

/* A number for something other than a string; 0: none is left. From a separate range. */
uint32_t pfl_intern_take_number(void);

#endif
