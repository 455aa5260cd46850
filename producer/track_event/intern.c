/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings by address, with a copy to detect whether the string at the address has changed.
 *
 * Happy path: hash of the address, a few slots looked at, one strcmp. A new string takes the next
 * number under the lock; its slot's key is written last, with release order, so that readers
 * without the lock see a whole entry or none. Entries never change and are never removed: the
 * number of a string is the same in every thread and session, and one bit per number records
 * whether readers have it.
 *
 * Failures: table, arena or all probed slots full, a long string, a changed one: number 0, the
 * event carries the string itself.
 */
#include "producer/track_event/intern.h"

#include <pthread.h>
#include <string.h>

#define PROBES 16u

struct pfl_intern_slot pfl_intern_slots[PFL_INTERN_SLOTS];
char pfl_intern_arena[PFL_INTERN_BYTES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, and inserts */
static uint32_t arena_len;
static uint32_t last_number;
static _Atomic(uint32_t) last_other_number;

/* The slot of the key, or the free one where it belongs, or NULL. */
static struct pfl_intern_slot *find_slot(uintptr_t key, uintptr_t *ret_found)
{
    uint32_t at = pfl_intern_hash(key);

    for (uint32_t i = 0; i < PROBES; i++) {
        struct pfl_intern_slot *s = &pfl_intern_slots[(at + i) % PFL_INTERN_SLOTS];

        *ret_found = atomic_load_explicit(&s->key, memory_order_acquire);
        if (*ret_found == key || *ret_found == 0)
            return s;
    }
    return NULL;
}

/* Locked. */
static uint32_t insert(const char *str)
{
    size_t len = strnlen(str, PFL_INTERN_STRING_MAX + 1);
    uintptr_t found;
    struct pfl_intern_slot *s = find_slot((uintptr_t)str, &found);

    if (s != NULL && found != 0)
        return pfl_intern_number_of(s, str);
    if (s == NULL || len > PFL_INTERN_STRING_MAX || last_number == PFL_INTERN_MAX - 1 ||
        arena_len + len + 1 > PFL_INTERN_BYTES)
        return 0;
    memcpy(pfl_intern_arena + arena_len, str, len + 1);
    s->offset = arena_len;
    s->number = ++last_number;
    arena_len += (uint32_t)len + 1;
    atomic_store_explicit(&s->key, (uintptr_t)str, memory_order_release);
    return s->number;
}

uint32_t pfl_intern_find(const char *str)
{
    uintptr_t found = 0;
    struct pfl_intern_slot *s = find_slot((uintptr_t)str, &found);
    uint32_t number;

    if (__builtin_expect(found == (uintptr_t)str, 1))
        return pfl_intern_number_of(s, str);
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
