/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings by address, with a copy to tell whether the address still holds the same one.
 *
 * Happy path: hash of the address, a few slots looked at, one strcmp. A new string takes the next
 * number under the lock; its slot's key is written last, with release order, so that readers
 * without the lock see a whole entry or none. Entries never change and never go: the number of a
 * string is the same in every thread and session, and which readers know it is one bit per number.
 *
 * Failures: table, arena or all probed slots full, a long string, a changed one: number 0, the
 * event carries the string itself.
 */
#include "producer/intern.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define SLOTS  (PFL_INTERN_MAX * 2)
#define PROBES 16u

struct slot {
    _Atomic(uintptr_t) key; /* the string's address; 0: free */
    uint32_t number;
    uint32_t offset; /* of the copy in the arena */
};

static struct slot slots[SLOTS];
static char arena[PFL_INTERN_BYTES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and inserts */
static uint32_t arena_len;
static uint32_t last_number;
static _Atomic(uint32_t) last_other_number;

static uint32_t hash_of(uintptr_t key)
{
    return (uint32_t)(((uint64_t)key * 0x9e3779b97f4a7c15u) >> 32);
}

/* The slot of the key, or the free one where it belongs, or NULL. */
static struct slot *find_slot(uintptr_t key, uintptr_t *ret_found)
{
    uint32_t at = hash_of(key);

    for (uint32_t i = 0; i < PROBES; i++) {
        struct slot *s = &slots[(at + i) % SLOTS];

        *ret_found = atomic_load_explicit(&s->key, memory_order_acquire);
        if (*ret_found == key || *ret_found == 0)
            return s;
    }
    return NULL;
}

static uint32_t number_of(const struct slot *slot, const char *str)
{
    return strcmp(arena + slot->offset, str) == 0 ? slot->number : 0;
}

/* Locked. */
static uint32_t insert(const char *str)
{
    size_t len = strnlen(str, PFL_INTERN_STRING_MAX + 1);
    uintptr_t found;
    struct slot *s = find_slot((uintptr_t)str, &found);

    if (s != NULL && found != 0)
        return number_of(s, str);
    if (s == NULL || len > PFL_INTERN_STRING_MAX || last_number == PFL_INTERN_MAX - 1 ||
        arena_len + len + 1 > PFL_INTERN_BYTES)
        return 0;
    memcpy(arena + arena_len, str, len + 1);
    s->offset = arena_len;
    s->number = ++last_number;
    arena_len += (uint32_t)len + 1;
    atomic_store_explicit(&s->key, (uintptr_t)str, memory_order_release);
    return s->number;
}

uint32_t pfl_intern_get(const char *str)
{
    uintptr_t found = 0;
    struct slot *s = find_slot((uintptr_t)str, &found);
    uint32_t number;

    if (__builtin_expect(found == (uintptr_t)str, 1))
        return number_of(s, str);
    if (s == NULL)
        return 0;
    pthread_mutex_lock(&lock);
    number = insert(str);
    pthread_mutex_unlock(&lock);
    return number;
}

uint32_t pfl_intern_take_number(void)
{
    uint32_t number = atomic_load_explicit(&last_other_number, memory_order_relaxed);

    do {
        if (number == PFL_INTERN_MAX - 1)
            return 0;
    } while (!atomic_compare_exchange_weak_explicit(&last_other_number, &number, number + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return number + 1;
}
