/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An FtraceEventBundle under construction: events of one CPU, and scheduler events in their compact
 * form (columns with one table of names). Pure; one object is reused for all bundles.
 */
#ifndef PFL_PROBES_BUNDLE_H
#define PFL_PROBES_BUNDLE_H

#include "agent/probes/kernel_events/event_plan.h"

#define PFL_BUNDLE_ROWS_MAX   4096u  /* compact events of one kind */
#define PFL_BUNDLE_NAMES_MAX  512u   /* different thread names */
#define PFL_BUNDLE_EVENTS_MAX 65536u /* bytes of events after which a bundle is full */
#define PFL_BUNDLE_PARTS_MAX  20u
#define PFL_BUNDLE_COLUMNS    11u
#define PFL_BUNDLE_DESCRIBED  64u
#define PFL_BUNDLE_KNOWN      2048u /* a power of two */

struct pfl_bundle_column {
    uint8_t *start; /* borrowed from memory; room for the header is before it */
    uint8_t *pos;
};

enum pfl_bundle_row { PFL_ROW_SWITCH, PFL_ROW_WAKING };

enum pfl_bundle_column_id {
    PFL_SWITCH_TIME,
    PFL_SWITCH_PREV_STATE,
    PFL_SWITCH_NEXT_PID,
    PFL_SWITCH_NEXT_PRIO,
    PFL_SWITCH_NEXT_COMM,
    PFL_WAKING_TIME,
    PFL_WAKING_PID,
    PFL_WAKING_CPU,
    PFL_WAKING_PRIO,
    PFL_WAKING_COMM,
    PFL_WAKING_FLAGS,
};

struct pfl_bundle_known {
    uint64_t comm[2];
    int32_t pid;
    uint32_t generation;
    uint8_t pid_varint[4]; /* as it is written */
    uint8_t pid_bytes;     /* length; 0: longer, which no pid of a kernel is */
    uint16_t index;
};

struct pfl_bundle {
    uint8_t *memory;                /* owned; events, names and columns */
    struct pfl_bundle_known *known; /* owned; by pid: the last seen name */
    uint64_t *comms;                /* owned; two words a name, by index */
    uint16_t *slots;                /* owned; hash of a name -> index + 1 */
    uint8_t *events;
    uint8_t *events_pos;
    size_t events_room;
    uint8_t *names_pos;
    uint8_t *names;
    struct pfl_bundle_column columns[PFL_BUNDLE_COLUMNS];
    uint8_t head[64];
    uint8_t compact_head[16];
    uint32_t generation;
    uint32_t name_count;
    uint32_t rows[2];
    uint64_t last_ns[2];
    bool is_open;
    bool is_dense; /* set by the user, before begin: generic events with descriptors */
    uint16_t described[PFL_BUNDLE_DESCRIBED]; /* event ids */
    uint32_t described_count;
    uint32_t cpu;
    bool has_lost;
    uint64_t previous_end_ns;
};

/* A record in the largest page must fit. PFL_ENOMEM. */
PFL_MUST_USE int pfl_bundle_init(struct pfl_bundle *self, size_t page_bytes);
void pfl_bundle_fini(struct pfl_bundle *self);

void pfl_bundle_begin(struct pfl_bundle *self, uint32_t cpu, bool has_lost,
                      uint64_t previous_end_ns);
/* True when it should end before the next record. */
static inline bool pfl_bundle_is_full(const struct pfl_bundle *self)
{
    return self->rows[0] >= PFL_BUNDLE_ROWS_MAX || self->rows[1] >= PFL_BUNDLE_ROWS_MAX ||
           self->name_count >= PFL_BUNDLE_NAMES_MAX ||
           self->events_pos - self->events >= PFL_BUNDLE_EVENTS_MAX;
}
/* True if it has no content. */
static inline bool pfl_bundle_is_empty(const struct pfl_bundle *self)
{
    return !self->has_lost && self->events_pos == self->events && self->rows[0] == 0 &&
           self->rows[1] == 0;
}
/* Ends it and returns the message in pieces, borrowed until the next begin. Returns their
 * number. */
size_t pfl_bundle_end(struct pfl_bundle *self, struct pfl_span ret_parts[PFL_BUNDLE_PARTS_MAX]);

/* This and the rows (bundle_rows.h) need an open bundle that is not full, and a record with the
 * plan's fixed bytes. False: the record does not fit (it is larger than a page: never for the
 * kernel's own). */
bool pfl_bundle_add_event(struct pfl_bundle *self, const struct pfl_event_plan *plan,
                          const struct pfl_trace_record *record);
/* The same for a kprobe, whose `type` comes from the session. */
bool pfl_bundle_add_kprobe(struct pfl_bundle *self, const struct pfl_event_plan *plan,
                           const struct pfl_trace_record *record, uint32_t type);
/* For bundle_rows.h: `known` learns a thread and its name's index in this bundle's table. */
void pfl_bundle_intern(struct pfl_bundle *self, struct pfl_bundle_known *known, int32_t pid,
                       const uint64_t comm[2]);
void pfl_bundle_add_error(struct pfl_bundle *self, uint64_t timestamp_ns,
                          enum pfl_page_status status);

#endif
