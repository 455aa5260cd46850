/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data sources, their instances, and the writers that threads keep for them.
 *
 *   instance:  FREE --setup--> SET_UP --start--> STARTED --stop--> (STOPPING) --> FREE
 *                                                                  asynchronous stop only
 *
 * Instances change on the connection's thread only. Other threads read an instance's bit in
 * `active`, and its target under the source's lock when they make a writer. Every life of an
 * instance has its own generation, so that a thread detects an old writer by one load from static
 * memory that is never freed.
 */
#ifndef PFL_PRODUCER_SOURCE_H
#define PFL_PRODUCER_SOURCE_H

#include <pthread.h>

#include "base/bytes.h"
#include "producer/data_source/startup.h"
#include "producer/perfleet.h"
#include "producer/shared_memory/arbiter.h"
#include "producer/shared_memory/writer.h"

#define PFL_SOURCES_IN_PROCESS 64u
#define PFL_SOURCE_NAME_MAX    255u
#define PFL_DESCRIPTOR_MAX     32768u
#define PFL_SOURCE_FLUSHES_MAX 16u /* flushes of an instance that wait for perfleet_flush_done */

enum pfl_source_instance_state {
    PFL_SOURCE_INSTANCE_FREE = 0,
    PFL_SOURCE_INSTANCE_SET_UP,
    PFL_SOURCE_INSTANCE_STARTED,
    PFL_SOURCE_INSTANCE_STOPPING, /* waits for perfleet_stop_done */
};

struct pfl_source_instance {
    enum pfl_source_instance_state state;
    bool has_id;
    uint64_t id;                 /* the service's */
    struct pfl_arbiter *arbiter; /* a reference of its own while not FREE */
    uint32_t buffer;             /* startup: a reservation */
    enum perfleet_policy policy;
    struct pfl_state *program_state; /* a reference; NULL: none */
    struct pfl_startup
        *startup; /* owned; NULL: the service started it, or a session took it over */
    uint32_t flushes_len;
    uint64_t flushes[PFL_SOURCE_FLUSHES_MAX]; /* ids not completed yet, oldest first */
};

/* A source's state of registration; under the connection's lock. */
enum pfl_source_stage {
    PFL_SOURCE_NEW = 0, /* not registered on this connection */
    PFL_SOURCE_REGISTERED,
    PFL_SOURCE_CHANGED, /* registered, but the descriptor has changed since */
    PFL_SOURCE_LEAVING, /* perfleet_unregister waits for the thread */
    PFL_SOURCE_LEFT,
};

struct pfl_source {
    struct perfleet_source pub;
    struct perfleet *owner; /* borrowed, outlives the source */
    pthread_t thread;       /* its connection's, on which callbacks run */
    struct pfl_source *next_in_process;
    uint32_t slot;
    enum pfl_source_stage stage;
    struct perfleet_source_conf conf; /* strings owned; the descriptor under the owner's lock */
    _Atomic(uint32_t) stop_done;      /* bits set by perfleet_stop_done */
    _Atomic(uint32_t) flush_done[PERFLEET_MAX_INSTANCES]; /* calls of perfleet_flush_done */
    pthread_mutex_t lock;                                 /* guards the data for making writers */
    struct pfl_source_instance instances[PERFLEET_MAX_INSTANCES];
};

/* A session's request, from the service. */
struct pfl_source_instance_conf {
    uint64_t id;
    struct pfl_span config;      /* DataSourceConfig */
    struct pfl_startup *startup; /* transferred on success; NULL: the service's */
};

/* PFL_ENOMEM, PFL_ELIMIT (slots of the process), PFL_EINVAL. */
PFL_MUST_USE int pfl_source_new(struct perfleet *owner, pthread_t thread,
                                const struct perfleet_source_conf *conf,
                                struct pfl_source **ret_source);
/* All instances must be FREE. */
void pfl_source_free(struct pfl_source *self);

/* Connection thread. The index of the instance, or -1. */
int pfl_source_find_instance(const struct pfl_source *self, uint64_t id);
/* Takes a free instance for a session and calls on_setup; -1: all are in use. */
int pfl_source_setup(struct pfl_source *self, const struct pfl_source_instance_conf *conf,
                     struct pfl_arbiter *arbiter);
/* Is the source known to the service? */
static inline bool pfl_source_is_registered(const struct pfl_source *self)
{
    return self->stage == PFL_SOURCE_REGISTERED || self->stage == PFL_SOURCE_CHANGED;
}
void pfl_source_start(struct pfl_source *self, uint32_t instance);
/* True: the instance has ended; false: perfleet_stop_done ends it (pfl_source_finish_stop). */
bool pfl_source_stop(struct pfl_source *self, uint32_t instance);
/* Ends the instance if the program said so. */
bool pfl_source_finish_stop(struct pfl_source *self, uint32_t instance);
/* The connection is lost: ends every instance at once. */
void pfl_source_stop_all(struct pfl_source *self);
void pfl_source_clear_incremental(struct pfl_source *self, uint32_t instance);
/* Asks the program to flush; an asynchronous flush is pending then. */
void pfl_source_flush(struct pfl_source *self, uint32_t instance, uint64_t flush_id,
                      uint64_t flush_flags);
/* Completes the flushes that the program has done. *oldest becomes the oldest pending flush, if it
 * is older. */
void pfl_source_settle_flushes(struct pfl_source *self, uint64_t *oldest);

/* A writer for an instance that is started or stopping; any thread. PFL_EINVAL, PFL_ENOMEM,
 * PFL_ELIMIT, PFL_ECLOSED. */
PFL_MUST_USE int pfl_source_open_writer(struct pfl_source *self, uint32_t instance,
                                        struct pfl_trace_writer **ret_writer);

/* Returns the chunks of the calling thread's writers. */
void pfl_source_flush_thread(void);
/* Frees the calling thread's writers; new ones are made on demand. */
void pfl_source_drop_thread(void);

/* For fork. */
void pfl_source_list_lock(void);
void pfl_source_list_unlock(void);
void pfl_source_disable_all(void);

#endif
