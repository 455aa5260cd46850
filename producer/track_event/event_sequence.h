/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread's track events for one session, and the data that the session's readers have: clock,
 * tracks, interned strings. Belongs to its thread; ends with it or with the session.
 */
#ifndef PFL_PRODUCER_EVENT_SEQUENCE_H
#define PFL_PRODUCER_EVENT_SEQUENCE_H

#include "perfetto/track_event.fields.h"
#include "producer/perfleet_track_event.h"
#include "producer/shared_memory/writer.h"
#include "producer/track_event/category.h"
#include "producer/track_event/intern.h"

#define PFL_SEQUENCE_TRACKS        128u  /* remembered as announced; others are announced again */
#define PFL_SEQUENCE_PENDING_BYTES 2048u /* interned data of one event */

/* A session's settings besides the categories. */
struct pfl_event_settings {
    uint64_t unit_ns; /* of timestamps; at least 1 */
    uint64_t thread_time_subsampling_ns;
    bool is_absolute; /* timestamps are not differences */
    bool hides_arguments;
    bool hides_dynamic_names;
    bool has_thread_time;
};

/* Fields of InternedData. */
enum pfl_intern_kind {
    PFL_INTERNED_CATEGORY = INTERNED_DATA__EVENT_CATEGORIES,
    PFL_INTERNED_NAME = INTERNED_DATA__EVENT_NAMES,
    PFL_INTERNED_ARG_NAME = INTERNED_DATA__DEBUG_ANNOTATION_NAMES,
    PFL_INTERNED_LOCATION = INTERNED_DATA__SOURCE_LOCATIONS,
    PFL_INTERNED_LOG_BODY = INTERNED_DATA__LOG_MESSAGE_BODY,
};

struct pfl_event_sequence {
    struct perfleet_writer *w;       /* of `writer` */
    struct pfl_trace_writer *writer; /* owned */
    const _Atomic(uint64_t) *life;   /* the instance's current generation; static storage */
    uint64_t generation;             /* and when the writer was made */
    const bool *is_reset;            /* the writer lost something */
    const _Atomic(uint32_t) *clears; /* number of times the session cleared state; static storage */
    uint32_t seen_clears;
    struct pfl_event_settings settings;
    uint64_t last_ns; /* current value of the incremental clock */
    uint64_t thread_time_ns;
    uint64_t thread_time_at_ns;
    uint32_t last_body;
    uint32_t pending_len;
    uint64_t tracks[PFL_SEQUENCE_TRACKS];
    /* Bit n: readers have number n. */
    uint32_t categories[PFL_CATEGORIES_MAX / 32];
    uint32_t names[PFL_INTERN_MAX / 32];
    uint32_t arg_names[PFL_INTERN_MAX / 32];
    uint32_t locations[PFL_INTERN_MAX / 32];
    uint8_t pending[PFL_SEQUENCE_PENDING_BYTES]; /* InternedData, for the end of the packet */
};

extern _Thread_local struct pfl_event_sequence *pfl_event_sequences[PERFLEET_MAX_INSTANCES];

struct pfl_event_sequence *pfl_event_sequence_renew(uint32_t instance);
bool pfl_event_sequence_restart(struct pfl_event_sequence *self, uint64_t now_ns);

/* The calling thread's sequence for an instance; NULL: not available. */
static inline struct pfl_event_sequence *pfl_event_sequence_get(uint32_t instance)
{
    struct pfl_event_sequence *self = pfl_event_sequences[instance];

    if (__builtin_expect(self != NULL && atomic_load_explicit(self->life, memory_order_acquire) ==
                                             self->generation,
                         1))
        return self;
    return pfl_event_sequence_renew(instance);
}

/* Between packets, before an event: if readers have no state, writes the reset. False: even that
 * does not fit, the event is lost. */
static inline bool pfl_event_sequence_prepare(struct pfl_event_sequence *self, uint64_t now_ns)
{
    if (__builtin_expect(!*self->is_reset &&
                             atomic_load_explicit(self->clears, memory_order_relaxed) ==
                                 self->seen_clears,
                         1))
        return true;
    return pfl_event_sequence_restart(self, now_ns);
}

/* Between packets: announces the track and those above it, if necessary. Returns the track's
 * uuid. */
uint64_t pfl_event_sequence_show_track(struct pfl_event_sequence *self,
                                       struct perfleet_track *track);

/* For the start of a packet: its timestamp and sequence flags, at most PFL_SEQUENCE_TIME_BYTES at
 * `p`; returns the end. */
#define PFL_SEQUENCE_TIME_BYTES 32u
uint8_t *pfl_event_sequence_put_time(struct pfl_event_sequence *self, uint8_t *p, uint32_t clock,
                                     uint64_t value);
/* In a packet's event: the values of the sequence's extra counters. */
void pfl_event_sequence_write_thread_time(struct pfl_event_sequence *self, uint64_t now_ns);

static inline bool pfl_event_sequence_knows(const uint32_t *bits, uint32_t number)
{
    return (bits[number / 32] >> (number % 32) & 1) != 0;
}

/* In a packet: readers must get {iid: number, string}. False: it does not fit this time. */
bool pfl_event_sequence_intern(struct pfl_event_sequence *self, enum pfl_intern_kind kind,
                               uint32_t number, struct pfl_span str);
bool pfl_event_sequence_intern_location(struct pfl_event_sequence *self, uint32_t number,
                                        const struct perfleet_source_location *location);
/* At the end of a packet: its interned data. */
void pfl_event_sequence_write_interned(struct pfl_event_sequence *self);

/* The calling thread's sequences commit their chunks / are freed. */
void pfl_event_sequence_flush_thread(void);
void pfl_event_sequence_drop_thread(void);

#endif
