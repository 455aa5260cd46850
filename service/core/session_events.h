/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service events and clock snapshots of a session, kept until a read takes them, within the history
 * limits of docs/abi/service.md section 5. A core.
 */
#ifndef PFL_SERVICE_SESSION_EVENTS_H
#define PFL_SERVICE_SESSION_EVENTS_H

#include "base/bytes.h"
#include "base/err.h"

/* TracingServiceEvent's field numbers. */
enum pfl_session_event_kind {
    PFL_EVENT_ALL_STARTED = 1,
    PFL_EVENT_TRACING_STARTED = 2,
    PFL_EVENT_ALL_FLUSHED = 3,
    PFL_EVENT_READ_COMPLETED = 4,
    PFL_EVENT_TRACING_DISABLED = 5,
    PFL_EVENT_SLOW_STARTING = 7, /* payload: TracingServiceEvent.DataSources */
    PFL_EVENT_SLOW_FLUSH = 8,    /* payload: the same */
    PFL_EVENT_FLUSH_STARTED = 9,
    PFL_EVENT_CLONE_STARTED = 10,
    PFL_EVENT_BUFFER_CLONED = 11, /* value: the buffer's index */
};

#define PFL_SESSION_EVENTS_HISTORY 64u  /* flush_started and all_data_sources_flushed */
#define PFL_SESSION_EVENTS_CLONED  128u /* buffer_cloned: one per buffer */
#define PFL_SESSION_EVENTS_MAX     320u /* 2 * 64, 128 and one of each other kind fit */
#define PFL_SESSION_CLOCKS         7u
#define PFL_SESSION_SNAPSHOTS_MAX  16u
#define PFL_SESSION_DRIFT_NS       10000000 /* a snapshot is kept from this drift on */

struct pfl_session_event {
    uint64_t boottime_ns;
    enum pfl_session_event_kind kind;
    uint64_t value;   /* 1 for kinds without a value */
    uint8_t *payload; /* owned; NULL for the kinds that are a number */
    size_t payload_len;
};

struct pfl_clock_reading {
    uint32_t clock_id; /* enum pfl_clock_id */
    uint64_t value;
};

struct pfl_clock_snapshot {
    struct pfl_clock_reading clocks[PFL_SESSION_CLOCKS]; /* BOOTTIME first */
    size_t clocks_len;
};

struct pfl_session_events {
    struct pfl_session_event *events; /* owned; allocated with the first event */
    size_t events_len;                /* in the order of their time */
    struct pfl_clock_snapshot first;  /* taken at the start */
    bool has_first;
    struct pfl_clock_snapshot *ring; /* owned; allocated with the first snapshot; oldest first */
    size_t ring_len;
    struct pfl_clock_snapshot last; /* what drift is measured against */
    bool has_last;
};

void pfl_session_events_fini(struct pfl_session_events *self); /* legal on zeroed memory */
/* Drops the oldest of its kind past the history limit. `payload` is copied. Without memory the
 * event is lost. */
void pfl_session_events_record(struct pfl_session_events *self, uint64_t boottime_ns,
                               enum pfl_session_event_kind kind, struct pfl_span payload);
void pfl_session_events_record_value(struct pfl_session_events *self, uint64_t boottime_ns,
                                     enum pfl_session_event_kind kind, uint64_t value);
/* Copies events and snapshots of `from` to `self`, which is empty; without memory some are
 * missing. */
void pfl_session_events_copy(struct pfl_session_events *self,
                             const struct pfl_session_events *from);
/* Appends to the ring when the ring is empty or a clock drifted since the last snapshot. */
void pfl_session_events_snapshot(struct pfl_session_events *self,
                                 const struct pfl_clock_snapshot *snapshot);
/* Forgets events, or ring and first snapshot, once they are in the trace. */
void pfl_session_events_clear(struct pfl_session_events *self);
void pfl_session_events_clear_snapshots(struct pfl_session_events *self);

#endif
