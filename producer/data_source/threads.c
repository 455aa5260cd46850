/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Per thread: a table of writers, one entry for each instance of each data source of the process.
 *
 * Happy path: perfleet_block_next_ takes the lowest bit, finds the thread's writer in the table and
 * compares its generation with the instance's: no lock, no call. A missing or old writer is made
 * under the source's lock; at the same time every other old writer of the thread is freed, so that
 * ended sessions do not keep shared memory. A thread's end frees its table.
 *
 * Failures: no memory or no writer id: this instance is skipped this time. Ownership: a table owns
 * its writers. Generations and counters are static and outlive all.
 */
#include "producer/data_source/threads.h"

#include <pthread.h>

#include "producer/data_source/layer.h"
#include "producer/data_source/source.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"
#include "producer/platform/reentrancy.h"

#define PLACES (PFL_SOURCES_IN_PROCESS * PERFLEET_MAX_INSTANCES)

struct life {
    /* 0: no session uses the instance. Release and acquire: what the instance is in this life was
     * set up before its number is seen. */
    _Atomic(uint64_t) generation;
    _Atomic(uint32_t) clears; /* a count that carries nothing: relaxed */
};

struct table {
    struct pfl_trace_writer *writers[PLACES]; /* owned */
};

static struct life lives[PLACES];
static _Atomic(uint64_t) last_generation;
static _Thread_local struct table *table_of_thread;
_Thread_local volatile uint32_t pfl_reentrancy_depth;
static pthread_key_t key; /* only for its destructor */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool has_key;

static uint32_t place_of(uint32_t slot, uint32_t instance)
{
    return slot * PERFLEET_MAX_INSTANCES + instance;
}

void pfl_threads_begin_life(uint32_t slot, uint32_t instance)
{
    uint64_t generation = atomic_fetch_add(&last_generation, 1) + 1;

    atomic_store_explicit(&lives[place_of(slot, instance)].generation, generation,
                          memory_order_release);
}

void pfl_threads_end_life(uint32_t slot, uint32_t instance)
{
    atomic_store_explicit(&lives[place_of(slot, instance)].generation, 0, memory_order_release);
}

const _Atomic(uint64_t) *pfl_threads_life(uint32_t slot, uint32_t instance)
{
    return &lives[place_of(slot, instance)].generation;
}

uint64_t pfl_threads_generation(uint32_t slot, uint32_t instance)
{
    return atomic_load_explicit(&lives[place_of(slot, instance)].generation, memory_order_acquire);
}

void pfl_threads_clear_incremental(uint32_t slot, uint32_t instance)
{
    atomic_fetch_add_explicit(&lives[place_of(slot, instance)].clears, 1, memory_order_relaxed);
}

const _Atomic(uint32_t) *pfl_threads_clears(uint32_t slot, uint32_t instance)
{
    return &lives[place_of(slot, instance)].clears;
}

/* --- the calling thread ------------------------------------------------------------------ */

static void free_table(void *arg)
{
    struct table *table = arg;

    if (pfl_fork_is_child())
        return;
    pfl_reentrancy_enter();
    for (uint32_t i = 0; i < PLACES; i++)
        pfl_trace_writer_free(table->writers[i]);
    pfl_heap_unmap(table, sizeof(*table));
    table_of_thread = NULL;
    pfl_reentrancy_leave();
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, free_table) == 0;
}

static struct table *make_table(void)
{
    struct table *table;

    pthread_once(&key_once, make_key);
    if (!has_key)
        return NULL;
    table = pfl_heap_map(sizeof(*table));
    if (table == NULL)
        return NULL;
    if (pthread_setspecific(key, table) != 0) {
        pfl_heap_unmap(table, sizeof(*table));
        return NULL;
    }
    table_of_thread = table;
    return table;
}

static bool is_old(const struct table *table, uint32_t place)
{
    return table->writers[place] != NULL &&
           pfl_trace_writer_generation(table->writers[place]) !=
               atomic_load_explicit(&lives[place].generation, memory_order_acquire);
}

static void free_old_writers(struct table *table)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        if (!is_old(table, i))
            continue;
        pfl_trace_writer_free(table->writers[i]);
        table->writers[i] = NULL;
    }
}

static struct pfl_trace_writer *renew_writer(struct pfl_source *source, uint32_t instance)
{
    struct table *table = table_of_thread != NULL ? table_of_thread : make_table();
    uint32_t place = place_of(source->slot, instance);

    if (table == NULL || pfl_fork_is_child())
        return NULL;
    free_old_writers(table);
    if (table->writers[place] == NULL &&
        pfl_source_open_writer(source, instance, &table->writers[place]) != 0)
        return NULL;
    return table->writers[place];
}

static struct perfleet_writer *next_writer(struct pfl_source *self, uint32_t *mask)
{
    while (*mask != 0) {
        uint32_t instance = (uint32_t)__builtin_ctz(*mask);
        uint32_t place = place_of(self->slot, instance);
        struct pfl_trace_writer *writer =
            table_of_thread != NULL ? table_of_thread->writers[place] : NULL;

        *mask &= *mask - 1;
        if (writer == NULL || is_old(table_of_thread, place))
            writer = renew_writer(self, instance);
        if (writer != NULL)
            return pfl_trace_writer_get_public(writer);
    }
    return NULL;
}

/* `end` is NULL between packets. */
static void end_packet(struct perfleet_writer *w)
{
    if (__builtin_expect(w->end != NULL, 0))
        perfleet_packet_end(w);
}

struct perfleet_writer *perfleet_block_next_(struct perfleet_block *block)
{
    if (block->writer != NULL) {
        end_packet(block->writer);
    } else if (pfl_reentrancy_is_inside()) {
        block->left = 0;
        return NULL;
    } else {
        pfl_reentrancy_enter();
    }
    block->writer = next_writer((struct pfl_source *)(void *)block->source, &block->left);
    if (block->writer == NULL)
        pfl_reentrancy_leave();
    return block->writer;
}

void perfleet_block_leave_(struct perfleet_block *block)
{
    end_packet(block->writer);
    block->writer = NULL;
    pfl_reentrancy_leave();
}

void pfl_source_flush_thread(void)
{
    struct table *table = table_of_thread;

    pfl_reentrancy_enter();
    for (uint32_t i = 0; table != NULL && i < PLACES; i++) {
        if (table->writers[i] != NULL)
            perfleet_writer_flush(pfl_trace_writer_get_public(table->writers[i]));
    }
    pfl_layer_flush_thread();
    pfl_reentrancy_leave();
}

void pfl_source_drop_thread(void)
{
    pfl_layer_drop_thread();
    /* A signal handler may trace after pfl_reentrancy_leave: the key is then its new table's. */
    pfl_reentrancy_enter();
    if (table_of_thread != NULL) {
        pthread_setspecific(key, NULL);
        free_table(table_of_thread);
    }
    pfl_reentrancy_leave();
}
