/* SPDX-License-Identifier: Apache-2.0 */
/* The example's threads and what they write. */
#ifndef PFL_PRODUCER_EXAMPLE_EXAMPLE_H
#define PFL_PRODUCER_EXAMPLE_EXAMPLE_H

#include <pthread.h>

#include "producer/perfleet_track_event.h"

#define EXAMPLE_THREADS_MAX 64u
#define EXAMPLE_SIZE_MAX    16777216u

struct example;

struct example_thread {
    struct example *example; /* borrowed */
    pthread_t id;
    uint32_t index;
    uint32_t steps;
    uint64_t busy_ns;                   /* spent in writing */
    struct perfleet_writer_stats stats; /* of all writers it had */
    char queue_name[32];
    struct perfleet_track queue; /* a counter */
};

struct example {
    uint64_t size_bytes;
    uint64_t rate;
    uint64_t count;
    uint32_t seconds;
    uint32_t startup_ms; /* 0: none */
    uint32_t threads_len;
    bool has_track_events;
    uint32_t is_ending; /* atomic */
    uint32_t running;   /* atomic: threads that have not ended */
    struct perfleet *tracing;
    struct perfleet_source *source;
    char *text; /* size_bytes of letters */
    struct example_thread threads[EXAMPLE_THREADS_MAX];
};

/* 0 or a negative enum perfleet_err. */
int example_start(struct example *ex);
void example_join(struct example *ex);

/* events.c: writes one step of a thread. */
void example_write_load(struct example_thread *t, struct perfleet_writer *w, uint32_t seq_value);
/* Returns how many events that are. */
uint32_t example_write_track_events(struct example_thread *t);
/* Is there a session for this example's data? */
bool example_has_listeners(const struct example *ex);

#endif
