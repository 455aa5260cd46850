/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Incremental state of track events: the data that readers of a sequence have.
 *
 * Happy path: a thread's first event in a session opens a writer, and one packet clears earlier
 * state, starts the timestamps (clock 64), and makes the thread's own track the default.
 * Descriptors of thread and process follow. Later events refer to strings by numbers whose bits are
 * set, and to tracks whose uuids are in the small table; everything else is announced first. After
 * a loss, or when the session clears incremental state, all of this starts again.
 *
 *   timestamp = (time - last_ns) / unit      on clock 64, the default
 *   time < last_ns                           on the boot clock itself (or clock 65 with a unit)
 *
 * Failures: no memory, no writer: no sequence; the thread's events are skipped. Interned data that
 * does not fit its buffer is not sent: the caller writes the string in full. Ownership: a thread
 * owns its sequences and they their writers; both are freed at the thread's end. Limits:
 * PFL_SEQUENCE_TRACKS, PFL_SEQUENCE_PENDING_BYTES; no allocation but for the sequence.
 */
#include "producer/track_event/event_sequence.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "perfetto/clocks.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"
#include "producer/platform/reentrancy.h"
#include "producer/track_event/event_source.h"
#include "producer/track_event/track.h"

#define CLOCK_INCREMENTAL 64u
#define CLOCK_ABSOLUTE    65u /* in units */
#define TRACK_PROBES      4u

_Thread_local struct pfl_event_sequence *pfl_event_sequences[PERFLEET_MAX_INSTANCES]; /* owned */
static pthread_key_t key; /* only for its destructor */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool has_key;

/* --- time -------------------------------------------------------------------------------- */

static uint32_t default_clock(const struct pfl_event_settings *settings)
{
    if (!settings->is_absolute)
        return CLOCK_INCREMENTAL;
    return settings->unit_ns == 1 ? PERFLEET_BOOTTIME : CLOCK_ABSOLUTE;
}

static inline __attribute__((always_inline)) uint8_t *put_uint(uint8_t *p, uint32_t field,
                                                               uint64_t value)
{
    return perfleet_put_varint_(perfleet_put_tag_(p, field, 0), value);
}

static uint8_t *put_own_time(struct pfl_event_sequence *self, uint8_t *p, uint64_t ns)
{
    const struct pfl_event_settings *settings = &self->settings;
    uint64_t unit_ns = settings->unit_ns;

    if (settings->is_absolute)
        return put_uint(p, TRACE_PACKET__TIMESTAMP, ns / unit_ns);
    if (__builtin_expect(ns >= self->last_ns, 1)) {
        uint64_t units = unit_ns == 1 ? ns - self->last_ns : (ns - self->last_ns) / unit_ns;

        self->last_ns += units * unit_ns;
        return put_uint(p, TRACE_PACKET__TIMESTAMP, units);
    }
    p = put_uint(p, TRACE_PACKET__TIMESTAMP, ns / unit_ns);
    return put_uint(p, TRACE_PACKET__TIMESTAMP_CLOCK_ID,
                    unit_ns == 1 ? PERFLEET_BOOTTIME : CLOCK_ABSOLUTE);
}

uint8_t *pfl_event_sequence_put_time(struct pfl_event_sequence *self, uint8_t *p, uint32_t clock,
                                     uint64_t value)
{
    if (__builtin_expect(clock == PERFLEET_NOW || clock == PERFLEET_BOOTTIME, 1)) {
        p = put_own_time(self, p, value);
    } else {
        p = put_uint(p, TRACE_PACKET__TIMESTAMP, value);
        p = put_uint(p, TRACE_PACKET__TIMESTAMP_CLOCK_ID, clock);
    }
    return put_uint(p, TRACE_PACKET__SEQUENCE_FLAGS, TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE);
}

static void write_clock(struct perfleet_writer *w, uint32_t id, uint64_t time, uint64_t unit_ns)
{
    perfleet_begin(w, CLOCK_SNAPSHOT__CLOCKS);
    perfleet_uint(w, CLOCK_SNAPSHOT__CLOCK__CLOCK_ID, id);
    perfleet_uint(w, CLOCK_SNAPSHOT__CLOCK__TIMESTAMP, time / unit_ns);
    if (id == CLOCK_INCREMENTAL)
        perfleet_bool(w, CLOCK_SNAPSHOT__CLOCK__IS_INCREMENTAL, true);
    if (id != PERFLEET_BOOTTIME)
        perfleet_uint(w, CLOCK_SNAPSHOT__CLOCK__UNIT_MULTIPLIER_NS, unit_ns);
    perfleet_end(w);
}

static void write_clocks(struct pfl_event_sequence *self, uint64_t now_ns)
{
    const struct pfl_event_settings *settings = &self->settings;

    perfleet_begin(self->w, TRACE_PACKET__CLOCK_SNAPSHOT);
    write_clock(self->w, PERFLEET_BOOTTIME, now_ns, 1);
    if (!settings->is_absolute)
        write_clock(self->w, CLOCK_INCREMENTAL, now_ns, settings->unit_ns);
    if (settings->unit_ns > 1)
        write_clock(self->w, CLOCK_ABSOLUTE, now_ns, settings->unit_ns);
    perfleet_end(self->w);
}

/* --- CPU time of the thread, if the session wants it ------------------------------------- */

static struct perfleet_track thread_time_track = {
    .kind = PERFLEET_TRACK_COUNTER, .name = "thread_time", .parent = &perfleet_thread_track};

static void write_thread_time_track(struct pfl_event_sequence *self)
{
    struct perfleet_writer *w = self->w;

    perfleet_packet_begin(w);
    perfleet_uint(w, TRACE_PACKET__SEQUENCE_FLAGS, TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE);
    perfleet_begin(w, TRACE_PACKET__TRACK_DESCRIPTOR);
    perfleet_uint(w, TRACK_DESCRIPTOR__UUID, perfleet_track_uuid(&thread_time_track));
    perfleet_uint(w, TRACK_DESCRIPTOR__PARENT_UUID, pfl_track_thread_uuid());
    perfleet_string(w, TRACK_DESCRIPTOR__NAME, thread_time_track.name);
    perfleet_begin(w, TRACK_DESCRIPTOR__COUNTER);
    perfleet_uint(w, COUNTER_DESCRIPTOR__TYPE, COUNTER_DESCRIPTOR__COUNTER_THREAD_TIME_NS);
    perfleet_uint(w, COUNTER_DESCRIPTOR__UNIT_MULTIPLIER, self->settings.unit_ns);
    perfleet_bool(w, COUNTER_DESCRIPTOR__IS_INCREMENTAL, true);
    perfleet_end(w);
    perfleet_end(w);
    perfleet_packet_end(w);
}

void pfl_event_sequence_write_thread_time(struct pfl_event_sequence *self, uint64_t now_ns)
{
    struct timespec ts;
    uint64_t time_ns;
    uint64_t delta = 0;

    if (self->thread_time_at_ns == 0 ||
        now_ns >= self->thread_time_at_ns + self->settings.thread_time_subsampling_ns) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
        time_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
        delta = (time_ns - self->thread_time_ns) / self->settings.unit_ns;
        self->thread_time_ns += delta * self->settings.unit_ns;
        self->thread_time_at_ns = now_ns;
    }
    perfleet_uint(self->w, TRACK_EVENT__EXTRA_COUNTER_VALUES, delta);
}

/* --- tracks ------------------------------------------------------------------------------ */

/* Was it announced? Remembers that it is now. */
static bool test_and_set_sent(struct pfl_event_sequence *self, uint64_t uuid)
{
    for (uint32_t i = 0; i < TRACK_PROBES; i++) {
        uint64_t *place = &self->tracks[(uuid + i) % PFL_SEQUENCE_TRACKS];

        if (*place == uuid)
            return true;
        if (*place == 0) {
            *place = uuid;
            return false;
        }
    }
    self->tracks[uuid % PFL_SEQUENCE_TRACKS] = uuid;
    return false;
}

static void write_descriptor(struct pfl_event_sequence *self, struct perfleet_track *track)
{
    perfleet_packet_begin(self->w);
    perfleet_uint(self->w, TRACE_PACKET__SEQUENCE_FLAGS, TRACE_PACKET__SEQ_NEEDS_INCREMENTAL_STATE);
    pfl_track_write_descriptor(self->w, track);
    perfleet_packet_end(self->w);
}

uint64_t pfl_event_sequence_show_track(struct pfl_event_sequence *self,
                                       struct perfleet_track *track)
{
    struct perfleet_track *chain[PFL_TRACK_LEVELS_MAX];
    uint64_t uuid = perfleet_track_uuid(track);
    uint32_t len = 0;

    if (uuid == 0 || __builtin_expect(test_and_set_sent(self, uuid), 1))
        return uuid;
    for (struct perfleet_track *t = track; t != NULL && len < PFL_TRACK_LEVELS_MAX; t = t->parent)
        chain[len++] = t;
    while (len-- > 1) {
        if (chain[len]->kind != PERFLEET_TRACK_GLOBAL &&
            !test_and_set_sent(self, perfleet_track_uuid(chain[len])))
            write_descriptor(self, chain[len]);
    }
    write_descriptor(self, track);
    return uuid;
}

/* --- starting again --------------------------------------------------------------------- */

static void forget(struct pfl_event_sequence *self)
{
    memset(self->tracks, 0, sizeof(self->tracks));
    memset(self->categories, 0, sizeof(self->categories));
    memset(self->names, 0, sizeof(self->names));
    memset(self->arg_names, 0, sizeof(self->arg_names));
    memset(self->locations, 0, sizeof(self->locations));
    self->last_body = 0;
    self->pending_len = 0;
    self->thread_time_ns = 0;
    self->thread_time_at_ns = 0;
}

static void write_defaults(struct pfl_event_sequence *self, uint64_t now_ns)
{
    struct perfleet_writer *w = self->w;

    self->last_ns = now_ns;
    perfleet_packet_begin(w);
    perfleet_uint(w, TRACE_PACKET__SEQUENCE_FLAGS, TRACE_PACKET__SEQ_INCREMENTAL_STATE_CLEARED);
    perfleet_uint(w, TRACE_PACKET__TIMESTAMP, now_ns);
    perfleet_uint(w, TRACE_PACKET__TIMESTAMP_CLOCK_ID, PERFLEET_BOOTTIME);
    perfleet_begin(w, TRACE_PACKET__TRACE_PACKET_DEFAULTS);
    perfleet_uint(w, TRACE_PACKET_DEFAULTS__TIMESTAMP_CLOCK_ID, default_clock(&self->settings));
    perfleet_begin(w, TRACE_PACKET_DEFAULTS__TRACK_EVENT_DEFAULTS);
    perfleet_uint(w, TRACK_EVENT_DEFAULTS__TRACK_UUID, pfl_track_thread_uuid());
    if (self->settings.has_thread_time)
        perfleet_uint(w, TRACK_EVENT_DEFAULTS__EXTRA_COUNTER_TRACK_UUIDS,
                      perfleet_track_uuid(&thread_time_track));
    perfleet_end(w);
    perfleet_end(w);
    if (default_clock(&self->settings) != PERFLEET_BOOTTIME)
        write_clocks(self, now_ns);
    perfleet_packet_end(w);
}

bool pfl_event_sequence_restart(struct pfl_event_sequence *self, uint64_t now_ns)
{
    self->seen_clears = atomic_load_explicit(self->clears, memory_order_relaxed);
    if (!perfleet_writer_take_reset(self->w))
        return true;
    write_defaults(self, now_ns);
    if (*self->is_reset)
        return false; /* lost: the next event tries again */
    forget(self);
    pfl_event_sequence_show_track(self, &perfleet_process_track);
    pfl_event_sequence_show_track(self, &perfleet_thread_track);
    if (self->settings.has_thread_time)
        write_thread_time_track(self);
    return !*self->is_reset;
}

/* --- interned data ----------------------------------------------------------------------- */

static bool add_pending(struct pfl_event_sequence *self, enum pfl_intern_kind kind,
                        const struct pfl_writer *entry, const uint8_t *start)
{
    struct pfl_writer w =
        pfl_writer_of(self->pending + self->pending_len, sizeof(self->pending) - self->pending_len);

    pfl_writer_field_bytes(&w, kind, start, (size_t)(entry->pos - start));
    if (entry->failed || w.failed)
        return false;
    self->pending_len = (uint32_t)(sizeof(self->pending) - w.left);
    return true;
}

bool pfl_event_sequence_intern(struct pfl_event_sequence *self, enum pfl_intern_kind kind,
                               uint32_t number, struct pfl_span str)
{
    uint8_t bytes[PERFLEET_LOG_MAX + 32];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, INTERNED_STRING__IID, number);
    pfl_writer_field_bytes(&w, INTERNED_STRING__STR, str.data, str.len);
    return add_pending(self, kind, &w, bytes);
}

bool pfl_event_sequence_intern_location(struct pfl_event_sequence *self, uint32_t number,
                                        const struct perfleet_source_location *location)
{
    uint8_t bytes[PERFLEET_LOG_MAX];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));

    pfl_writer_field_varint(&w, SOURCE_LOCATION__IID, number);
    if (location->file != NULL)
        pfl_writer_field_bytes(&w, SOURCE_LOCATION__FILE_NAME, location->file,
                               strlen(location->file));
    if (location->function != NULL)
        pfl_writer_field_bytes(&w, SOURCE_LOCATION__FUNCTION_NAME, location->function,
                               strlen(location->function));
    pfl_writer_field_varint(&w, SOURCE_LOCATION__LINE_NUMBER, location->line);
    return add_pending(self, PFL_INTERNED_LOCATION, &w, bytes);
}

void pfl_event_sequence_write_interned(struct pfl_event_sequence *self)
{
    perfleet_bytes(self->w, TRACE_PACKET__INTERNED_DATA, self->pending, self->pending_len);
    self->pending_len = 0;
}

/* --- the calling thread ------------------------------------------------------------------ */

static void free_sequence(struct pfl_event_sequence *self)
{
    if (self == NULL)
        return;
    pfl_trace_writer_free(self->writer);
    pfl_heap_unmap(self, sizeof(*self));
}

void pfl_event_sequence_drop_thread(void)
{
    if (pfl_fork_is_child())
        return;
    pfl_reentrancy_enter();
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        free_sequence(pfl_event_sequences[i]);
        pfl_event_sequences[i] = NULL;
    }
    pfl_reentrancy_leave();
}

static void on_thread_end(void *arg)
{
    (void)arg;
    pfl_event_sequence_drop_thread();
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, on_thread_end) == 0;
}

static bool is_old(uint32_t instance)
{
    const struct pfl_event_sequence *s = pfl_event_sequences[instance];

    return s != NULL && s->generation != atomic_load_explicit(s->life, memory_order_acquire);
}

/* Ended sessions must not keep shared memory: all old ones go. */
static void free_old(void)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        if (!is_old(i))
            continue;
        free_sequence(pfl_event_sequences[i]);
        pfl_event_sequences[i] = NULL;
    }
}

struct pfl_event_sequence *pfl_event_sequence_renew(uint32_t instance)
{
    struct pfl_event_sequence *self;

    if (pfl_fork_is_child())
        return NULL;
    pthread_once(&key_once, make_key);
    free_old();
    if (!has_key || pthread_setspecific(key, pfl_event_sequences) != 0)
        return NULL;
    self = pfl_heap_map(sizeof(*self));
    if (self == NULL)
        return NULL;
    if (pfl_event_source_open_sequence(instance, self) != 0) {
        pfl_heap_unmap(self, sizeof(*self));
        return NULL;
    }
    self->w = pfl_trace_writer_get_public(self->writer);
    self->generation = pfl_trace_writer_generation(self->writer);
    self->is_reset = pfl_trace_writer_get_reset(self->writer);
    pfl_event_sequences[instance] = self;
    return self;
}

void pfl_event_sequence_flush_thread(void)
{
    for (uint32_t i = 0; i < PERFLEET_MAX_INSTANCES; i++) {
        if (pfl_event_sequences[i] != NULL)
            perfleet_writer_flush(pfl_event_sequences[i]->w);
    }
}
