/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Service events and clock snapshots of one session.
 *
 * record appends in time order (the clock is monotonic; equal times keep their order) and makes
 * room by dropping the oldest of the same kind. snapshot compares every clock with BOOTTIME against
 * the last snapshot that was kept, and drops the new one if none drifted. Both tables are allocated
 * on first use. The caller handles no failures: without memory an event or a snapshot is missing
 * from the trace.
 */
#include "service/core/session_events.h"

#include "base/mem.h"

static void free_event(struct pfl_session_events *self, size_t at)
{
    pfl_mem_free(self->events[at].payload);
    self->events_len--;
    memmove(&self->events[at], &self->events[at + 1],
            (self->events_len - at) * sizeof(self->events[0]));
}

void pfl_session_events_clear(struct pfl_session_events *self)
{
    while (self->events_len != 0)
        free_event(self, self->events_len - 1);
}

void pfl_session_events_fini(struct pfl_session_events *self)
{
    pfl_session_events_clear(self);
    pfl_mem_free(self->events);
    pfl_mem_free(self->ring);
    *self = (struct pfl_session_events){0};
}

static size_t get_limit(enum pfl_session_event_kind kind)
{
    if (kind == PFL_EVENT_FLUSH_STARTED || kind == PFL_EVENT_ALL_FLUSHED)
        return PFL_SESSION_EVENTS_HISTORY;
    return kind == PFL_EVENT_BUFFER_CLONED ? PFL_SESSION_EVENTS_CLONED : 1;
}

static void make_room(struct pfl_session_events *self, enum pfl_session_event_kind kind)
{
    size_t limit = get_limit(kind);
    size_t of_kind = 0;
    size_t oldest = self->events_len;

    for (size_t i = 0; i < self->events_len; i++) {
        if (self->events[i].kind != kind)
            continue;
        if (of_kind++ == 0)
            oldest = i;
    }
    if (of_kind >= limit)
        free_event(self, oldest);
}

/* Takes the payload. */
static void record(struct pfl_session_events *self, struct pfl_session_event event)
{
    size_t at;

    if (self->events == NULL)
        self->events = pfl_mem_calloc(PFL_SESSION_EVENTS_MAX, sizeof(self->events[0]));
    if (self->events == NULL) {
        pfl_mem_free(event.payload);
        return;
    }
    make_room(self, event.kind);
    for (at = self->events_len; at > 0; at--) {
        if (self->events[at - 1].boottime_ns <= event.boottime_ns)
            break;
        self->events[at] = self->events[at - 1];
    }
    self->events[at] = event;
    self->events_len++;
}

void pfl_session_events_record(struct pfl_session_events *self, uint64_t boottime_ns,
                               enum pfl_session_event_kind kind, struct pfl_span payload)
{
    struct pfl_session_event event = {.boottime_ns = boottime_ns, .kind = kind, .value = 1};

    if (payload.len != 0) {
        event.payload = pfl_mem_memdup(payload.data, payload.len);
        if (event.payload == NULL)
            return;
        event.payload_len = payload.len;
    }
    record(self, event);
}

void pfl_session_events_record_value(struct pfl_session_events *self, uint64_t boottime_ns,
                                     enum pfl_session_event_kind kind, uint64_t value)
{
    record(self,
           (struct pfl_session_event){.boottime_ns = boottime_ns, .kind = kind, .value = value});
}

void pfl_session_events_copy(struct pfl_session_events *self, const struct pfl_session_events *from)
{
    for (size_t i = 0; i < from->events_len; i++) {
        struct pfl_session_event event = from->events[i];

        if (event.payload != NULL)
            event.payload = pfl_mem_memdup(event.payload, event.payload_len);
        if (event.payload != NULL || from->events[i].payload == NULL)
            record(self, event);
    }
    self->first = from->first;
    self->has_first = from->has_first;
    self->last = from->last;
    self->has_last = from->has_last;
    if (from->ring_len != 0)
        self->ring = pfl_mem_calloc(PFL_SESSION_SNAPSHOTS_MAX, sizeof(self->ring[0]));
    if (self->ring == NULL)
        return;
    memcpy(self->ring, from->ring, from->ring_len * sizeof(from->ring[0]));
    self->ring_len = from->ring_len;
}

static bool is_drifted(const struct pfl_clock_snapshot *last, const struct pfl_clock_snapshot *now)
{
    int64_t boot = (int64_t)(now->clocks[0].value - last->clocks[0].value);

    for (size_t i = 1; i < now->clocks_len && i < last->clocks_len; i++) {
        int64_t moved = (int64_t)(now->clocks[i].value - last->clocks[i].value);
        int64_t drift = (int64_t)((uint64_t)moved - (uint64_t)boot);

        if (drift >= PFL_SESSION_DRIFT_NS || drift <= -PFL_SESSION_DRIFT_NS)
            return true;
    }
    return false;
}

void pfl_session_events_snapshot(struct pfl_session_events *self,
                                 const struct pfl_clock_snapshot *snapshot)
{
    if (self->ring_len != 0 && self->has_last && !is_drifted(&self->last, snapshot))
        return;
    if (self->ring == NULL)
        self->ring = pfl_mem_calloc(PFL_SESSION_SNAPSHOTS_MAX, sizeof(self->ring[0]));
    if (self->ring == NULL)
        return;
    if (self->ring_len == PFL_SESSION_SNAPSHOTS_MAX) {
        self->ring_len--;
        memmove(&self->ring[0], &self->ring[1], self->ring_len * sizeof(self->ring[0]));
    }
    self->ring[self->ring_len++] = *snapshot;
    self->last = *snapshot;
    self->has_last = true;
}

void pfl_session_events_clear_snapshots(struct pfl_session_events *self)
{
    self->ring_len = 0;
    self->has_first = false;
}
