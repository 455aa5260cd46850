/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: packets with a TrackEvent, one for each session that enables the category.
 *
 * Happy path: for each session the thread's sequence is made ready (descriptors, if readers lack
 * them), then the packet is opened and gets time, type, category, name and track; the program's
 * block adds fields; the end closes the event and appends what was interned on the way.
 *
 *   packet { timestamp, sequence_flags, track_event { type, ..., (the block) }, interned_data }
 *
 * Failures: no sequence, or no memory to write to: the session is skipped. An event while another
 * is open on this thread (in its block, or in a signal handler) is skipped, too: reentrancy.h.
 * Ownership: an event borrows its thread's sequence until its end. No allocation, no lock.
 */
#include <string.h>

#include "perfetto/trace_packet.fields.h"
#include "perfetto/track_event.fields.h"
#include "producer/platform/reentrancy.h"
#include "producer/track_event/event_sequence.h"
#include "producer/track_event/track.h"

#define TYPE_MASK    0xffu
#define FIELDS_BYTES 48u /* type, two numbers, a uuid; or PFL_SEQUENCE_TIME_BYTES */

_Static_assert(FIELDS_BYTES >= PFL_SEQUENCE_TIME_BYTES, "times fit");

/* Readers must know `number` before it is used. */
static inline bool is_sent(struct pfl_event_sequence *s, uint32_t *bits, enum pfl_intern_kind kind,
                           uint32_t number, const char *str)
{
    if (number == 0)
        return false;
    if (__builtin_expect(pfl_event_sequence_knows(bits, number), 1))
        return true;
    if (!pfl_event_sequence_intern(s, kind, number, pfl_span_of(str, strlen(str))))
        return false;
    bits[number / 32] |= 1u << (number % 32);
    return true;
}

/* --- what every event says --------------------------------------------------------------- */

static void write_category_names(struct perfleet_writer *w, const char *names)
{
    while (*names != '\0') {
        size_t len = strcspn(names, ",");

        perfleet_bytes(w, TRACK_EVENT__CATEGORIES, names, len);
        names += len + (names[len] == ',');
    }
}

/* Where to write a few short fields: into the chunk if they fit, else into `spare`, which is
 * copied. */
static uint8_t *begin_fields(const struct perfleet_writer *w, uint8_t *spare)
{
    return w->end - w->pos >= (ptrdiff_t)FIELDS_BYTES ? w->pos : spare;
}

static void end_fields(struct perfleet_writer *w, const uint8_t *spare, uint8_t *end)
{
    uintptr_t spare_bytes = (uintptr_t)end - (uintptr_t)spare;

    if (__builtin_expect(spare_bytes > FIELDS_BYTES, 1))
        w->pos = end;
    else
        perfleet_raw(w, spare, spare_bytes);
}

static inline __attribute__((always_inline)) uint8_t *put_uint(uint8_t *p, uint32_t field,
                                                               uint64_t value)
{
    return perfleet_put_varint_(perfleet_put_tag_(p, field, 0), value);
}

/* Category and name as numbers, if readers can have them so. */
struct strings {
    uint32_t category; /* 0: to be written in full, if it is to be written */
    uint32_t name;
    bool has_category;
    bool has_name;
};

static struct strings find_strings(const struct perfleet_event *ev, struct pfl_event_sequence *s)
{
    const struct perfleet_category *category = ev->category_;
    uint32_t type = ev->type_ & TYPE_MASK;
    struct strings strings = {0};

    strings.has_category = type != PERFLEET_SLICE_END && type != PERFLEET_COUNTER;
    strings.has_name = ev->name_ != NULL && type != PERFLEET_SLICE_END;
    if (strings.has_category &&
        is_sent(s, s->categories, PFL_INTERNED_CATEGORY, category->number_, category->name))
        strings.category = category->number_;
    if (strings.has_name && (ev->type_ & PERFLEET_STATIC_NAME) != 0) {
        strings.name = pfl_intern_get(ev->name_);
        if (!is_sent(s, s->names, PFL_INTERNED_NAME, strings.name, ev->name_))
            strings.name = 0;
    }
    return strings;
}

static void write_strings(const struct perfleet_event *ev, struct pfl_event_sequence *s,
                          const struct strings *strings)
{
    if (strings->has_category && strings->category == 0)
        write_category_names(s->w, ev->category_->name);
    if (!strings->has_name || strings->name != 0)
        return;
    if (s->settings.hides_dynamic_names && (ev->type_ & PERFLEET_STATIC_NAME) == 0)
        perfleet_string(s->w, TRACK_EVENT__NAME, "FILTERED");
    else
        perfleet_string(s->w, TRACK_EVENT__NAME, ev->name_);
}

static bool is_on_own_track(const struct perfleet_event *ev)
{
    return ev->track_ == NULL || ev->track_->kind == PERFLEET_TRACK_THREAD;
}

/* False: it is lost. */
static bool open_event(struct perfleet_event *ev, struct pfl_event_sequence *s, uint64_t now_ns)
{
    struct perfleet_writer *w = s->w;
    uint8_t spare[FIELDS_BYTES];
    struct strings strings;
    uint64_t uuid = 0;
    uint8_t *p;

    if (!pfl_event_sequence_prepare(s, now_ns))
        return false;
    if (!is_on_own_track(ev)) {
        uuid = pfl_event_sequence_show_track(s, ev->track_);
        if (*s->is_reset)
            return false;
    }
    strings = find_strings(ev, s);
    perfleet_packet_begin(w);
    end_fields(w, spare,
               pfl_event_sequence_put_time(s, begin_fields(w, spare), ev->clock_, ev->value_));
    pfl_trace_writer_begin_small(w, TRACE_PACKET__TRACK_EVENT);
    p = put_uint(begin_fields(w, spare), TRACK_EVENT__TYPE, ev->type_ & TYPE_MASK);
    if (strings.category != 0)
        p = put_uint(p, TRACK_EVENT__CATEGORY_IIDS, strings.category);
    if (strings.name != 0)
        p = put_uint(p, TRACK_EVENT__NAME_IID, strings.name);
    if (!is_on_own_track(ev))
        p = put_uint(p, TRACK_EVENT__TRACK_UUID, uuid);
    end_fields(w, spare, p);
    write_strings(ev, s, &strings);
    if (s->settings.has_thread_time && is_on_own_track(ev))
        pfl_event_sequence_write_thread_time(s, now_ns);
    ev->sequence_ = s;
    ev->writer_ = w;
    ev->depth_ = 0;
    return true;
}

static void close_event(struct perfleet_event *ev)
{
    struct pfl_event_sequence *s = ev->sequence_;

    while (ev->depth_ > 0)
        perfleet_arg_end(ev);
    perfleet_end(s->w);
    if (__builtin_expect(s->pending_len != 0, 0))
        pfl_event_sequence_write_interned(s);
    perfleet_packet_end(s->w);
    ev->sequence_ = NULL;
    pfl_reentrancy_leave();
}

/* Opens the event in the next session that is to see it. */
static bool open_next(struct perfleet_event *ev)
{
    uint64_t now_ns;

    if (pfl_reentrancy_is_inside()) {
        ev->left_ = 0;
        return false;
    }
    pfl_reentrancy_enter();
    now_ns = ev->clock_ == PERFLEET_BOOTTIME ? ev->value_ : perfleet_time_ns();
    if (ev->clock_ == PERFLEET_NOW) {
        ev->clock_ = PERFLEET_BOOTTIME; /* the same time in every session */
        ev->value_ = now_ns;
    }
    /* Acquire: the registration of the category precedes our use of it. */
    ev->left_ &= __atomic_load_n(&ev->category_->active, __ATOMIC_ACQUIRE);
    while (ev->left_ != 0) {
        struct pfl_event_sequence *s = pfl_event_sequence_get((uint32_t)__builtin_ctz(ev->left_));

        ev->left_ &= ev->left_ - 1;
        if (__builtin_expect(s != NULL && open_event(ev, s, now_ns), 1))
            return true;
    }
    pfl_reentrancy_leave();
    return false;
}

bool perfleet_event_next_(struct perfleet_event *ev)
{
    return open_next(ev);
}

void perfleet_event_end_(struct perfleet_event *ev)
{
    if (ev->sequence_ != NULL)
        close_event(ev);
}

/* --- events without a block -------------------------------------------------------------- */

void perfleet_event_write_(struct perfleet_category *category, uint32_t type, const char *name)
{
    struct perfleet_event ev = perfleet_event_init_(category);

    ev.type_ = type;
    ev.name_ = name;
    while (ev.left_ != 0 && open_next(&ev))
        close_event(&ev);
}

void perfleet_scope_write_end_(struct perfleet_category *category, uint32_t active)
{
    struct perfleet_event ev = perfleet_event_init_(category);

    ev.type_ = PERFLEET_SLICE_END;
    ev.left_ &= active;
    while (ev.left_ != 0 && open_next(&ev))
        close_event(&ev);
}

void perfleet_counter_write_int_(struct perfleet_category *category, struct perfleet_track *track,
                                 int64_t value)
{
    struct perfleet_event ev = perfleet_event_init_(category);

    ev.type_ = PERFLEET_COUNTER;
    ev.track_ = track;
    while (ev.left_ != 0 && open_next(&ev)) {
        perfleet_event_counter_int(&ev, value);
        close_event(&ev);
    }
}

void perfleet_counter_write_double_(struct perfleet_category *category,
                                    struct perfleet_track *track, double value)
{
    struct perfleet_event ev = perfleet_event_init_(category);

    ev.type_ = PERFLEET_COUNTER;
    ev.track_ = track;
    while (ev.left_ != 0 && open_next(&ev)) {
        perfleet_event_counter_double(&ev, value);
        close_event(&ev);
    }
}
