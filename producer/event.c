/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: packets with a TrackEvent, one for each session that wants the category.
 *
 * Happy path: for each session the thread's sequence is made ready (descriptors, if readers lack
 * them), then the packet is opened and gets time, type, category, name and track; the program's
 * block adds fields; the end closes the event and appends what was interned on the way.
 *
 *   packet { timestamp, sequence_flags, track_event { type, ..., (the block) }, interned_data }
 *
 * Failures: no sequence: the session is left out. An event while another is open on this thread (in
 * its block, or in a signal handler) is left out, too: `is_busy`.
 * Ownership: an event borrows its thread's sequence until its end. No allocation, no lock.
 */
#include <stdatomic.h>
#include <string.h>

#include "producer/event_sequence.h"
#include "producer/track.h"

#define TYPE_MASK 0xffu

enum { PACKET_TRACK_EVENT = 11 };
enum { EVENT_CATEGORY_IIDS = 3, EVENT_TYPE = 9, EVENT_NAME_IID = 10, EVENT_TRACK_UUID = 11 };
enum { EVENT_CATEGORIES = 22, EVENT_NAME = 23 };
enum { EVENT_COUNTER_VALUE = 30, EVENT_DOUBLE_COUNTER_VALUE = 44 };

static _Thread_local volatile bool is_busy; /* volatile: a signal handler may look */

/* Readers must know `number` before it is used. */
static bool is_told(struct pfl_sequence *s, uint32_t *bits, enum pfl_interned kind, uint32_t number,
                    const char *str)
{
    if (number == 0)
        return false;
    if (__builtin_expect(pfl_sequence_knows(bits, number), 1))
        return true;
    if (!pfl_sequence_intern(s, kind, number, pfl_span_of(str, strlen(str))))
        return false;
    bits[number / 32] |= 1u << (number % 32);
    return true;
}

/* --- what every event says --------------------------------------------------------------- */

static void write_category_names(struct perfleet_writer *w, const char *names)
{
    while (*names != '\0') {
        size_t len = strcspn(names, ",");

        perfleet_bytes(w, EVENT_CATEGORIES, names, len);
        names += len + (names[len] == ',');
    }
}

static void write_category(struct pfl_sequence *s, const struct perfleet_category *category)
{
    if (is_told(s, s->categories, PFL_INTERNED_CATEGORY, category->number_, category->name))
        perfleet_uint(s->w, EVENT_CATEGORY_IIDS, category->number_);
    else
        write_category_names(s->w, category->name);
}

static void write_name(struct pfl_sequence *s, uint32_t type, const char *name)
{
    bool is_static = (type & PERFLEET_STATIC_NAME) != 0;
    uint32_t number = is_static ? pfl_intern_get(name) : 0;

    if (is_told(s, s->names, PFL_INTERNED_NAME, number, name))
        perfleet_uint(s->w, EVENT_NAME_IID, number);
    else if (!is_static && s->settings.hides_dynamic_names)
        perfleet_string(s->w, EVENT_NAME, "FILTERED");
    else
        perfleet_string(s->w, EVENT_NAME, name);
}

static bool is_on_own_track(const struct perfleet_event *ev)
{
    return ev->track_ == NULL || ev->track_->kind == PERFLEET_TRACK_THREAD;
}

static void open_event(struct perfleet_event *ev, struct pfl_sequence *s, uint64_t now_ns)
{
    uint32_t type = ev->type_ & TYPE_MASK;
    uint64_t uuid = 0;

    pfl_sequence_prepare(s, now_ns);
    if (!is_on_own_track(ev))
        uuid = pfl_sequence_show_track(s, ev->track_);
    perfleet_packet_begin(s->w);
    pfl_sequence_write_time(s, ev->clock_, ev->value_);
    perfleet_begin(s->w, PACKET_TRACK_EVENT);
    perfleet_uint(s->w, EVENT_TYPE, type);
    if (!is_on_own_track(ev))
        perfleet_uint(s->w, EVENT_TRACK_UUID, uuid);
    else if (s->settings.has_thread_time)
        pfl_sequence_write_thread_time(s, now_ns);
    if (type != PERFLEET_SLICE_END && type != PERFLEET_COUNTER)
        write_category(s, ev->category_);
    if (ev->name_ != NULL && type != PERFLEET_SLICE_END)
        write_name(s, ev->type_, ev->name_);
    ev->sequence_ = s;
    ev->writer_ = s->w;
    ev->depth_ = 0;
}

static void close_event(struct perfleet_event *ev)
{
    struct pfl_sequence *s = ev->sequence_;

    while (ev->depth_ > 0)
        perfleet_arg_end(ev);
    perfleet_end(s->w);
    if (__builtin_expect(s->pending_len != 0, 0))
        pfl_sequence_write_interned(s);
    perfleet_packet_end(s->w);
    ev->sequence_ = NULL;
    is_busy = false;
}

/* Opens the event in the next session that is to see it. */
static bool open_next(struct perfleet_event *ev)
{
    uint64_t now_ns;

    if (__builtin_expect(is_busy, 0)) {
        ev->left_ = 0;
        return false;
    }
    is_busy = true;
    atomic_signal_fence(memory_order_seq_cst);
    now_ns = ev->clock_ == PERFLEET_BOOTTIME ? ev->value_ : perfleet_time_ns();
    if (ev->clock_ == PERFLEET_NOW) {
        ev->clock_ = PERFLEET_BOOTTIME; /* the same time in every session */
        ev->value_ = now_ns;
    }
    /* Acquire: what registered the category comes before what its bit lets us do. */
    ev->left_ &= __atomic_load_n(&ev->category_->active, __ATOMIC_ACQUIRE);
    while (ev->left_ != 0) {
        struct pfl_sequence *s = pfl_sequence_get((uint32_t)__builtin_ctz(ev->left_));

        ev->left_ &= ev->left_ - 1;
        if (__builtin_expect(s != NULL, 1)) {
            open_event(ev, s, now_ns);
            return true;
        }
    }
    is_busy = false;
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

void perfleet_scope_write_end_(const struct perfleet_scope *scope)
{
    struct perfleet_event ev = perfleet_event_init_(scope->category);

    ev.type_ = PERFLEET_SLICE_END;
    ev.left_ &= scope->active;
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
