/* SPDX-License-Identifier: Apache-2.0 */
/* The window's cut: see segment_window.h. */
#include "consumer/collector/segment_window.h"

#include "perfetto/clocks.fields.h"
#include "perfetto/ftrace_events.fields.h"
#include "perfetto/trace_packet.fields.h"

#define FLAG_CLEARED 1u
#define FLAG_NEEDS   2u

/* What is known of a packet after a walk. */
struct walk {
    uint64_t timestamp_ns;
    uint64_t clock; /* 0: not given */
    uint64_t flags;
    struct pfl_span ftrace;
    bool is_record;
    bool has_ftrace;
    bool has_state;
    bool is_compressed;
    bool is_malformed;
};

static void note(struct walk *w, const struct pfl_field *f)
{
    switch (f->id) {
    case TRACE_PACKET__TIMESTAMP:
        w->timestamp_ns = f->value;
        break;
    case TRACE_PACKET__TIMESTAMP_CLOCK_ID:
        w->clock = f->value;
        break;
    case TRACE_PACKET__SEQUENCE_FLAGS:
        w->flags = f->value;
        break;
    case TRACE_PACKET__FTRACE_EVENTS:
        w->has_ftrace = true;
        w->ftrace = f->bytes;
        break;
    case TRACE_PACKET__SYS_STATS:
    case TRACE_PACKET__PROCESS_STATS:
    case TRACE_PACKET__TRACK_EVENT:
    case TRACE_PACKET__FOR_TESTING:
        w->is_record = true;
        break;
    case TRACE_PACKET__INTERNED_DATA:
    case TRACE_PACKET__TRACE_PACKET_DEFAULTS:
        w->has_state = true;
        break;
    case TRACE_PACKET__COMPRESSED_PACKETS:
    case TRACE_PACKET__ZSTD_COMPRESSED_PACKETS:
        w->is_compressed = true;
        break;
    default:
        break;
    }
}

static struct walk walk_packet(struct pfl_span packet)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct walk w = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        note(&w, &f);
    w.is_malformed = r.failed;
    return w;
}

/* A sequence that needs state may have a default clock, which only its context tells. */
static bool has_boot_time(const struct walk *w)
{
    return w->timestamp_ns != 0 &&
           (w->clock == BUILTIN_CLOCK_BOOTTIME || (w->clock == 0 && (w->flags & FLAG_NEEDS) == 0));
}

static uint64_t time_of_event(struct pfl_span event)
{
    struct pfl_reader r = pfl_reader_of(event);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == FTRACE_EVENT__TIMESTAMP && f.type == PFL_WIRE_VARINT)
            return f.value;
    return 0;
}

/* Of its events, which are in order. False: they have no times that can be read here. */
static bool find_events(struct pfl_span bundle, uint64_t *ret_first_ns, uint64_t *ret_last_ns)
{
    struct pfl_reader r = pfl_reader_of(bundle);
    struct pfl_span last = {NULL, 0};
    struct pfl_field f;
    bool is_plain = true;

    *ret_first_ns = 0;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == FTRACE_EVENT_BUNDLE__EVENT) {
            *ret_first_ns = *ret_first_ns == 0 ? time_of_event(f.bytes) : *ret_first_ns;
            last = f.bytes;
        } else if (f.id != FTRACE_EVENT_BUNDLE__CPU) {
            is_plain = false;
        }
    }
    *ret_last_ns = time_of_event(last);
    return is_plain && !r.failed && *ret_first_ns != 0 && *ret_last_ns >= *ret_first_ns;
}

void pfl_segment_time_of(struct pfl_span packet, struct pfl_segment_time *ret_time)
{
    struct walk w = walk_packet(packet);

    *ret_time = (struct pfl_segment_time){.timestamp_ns = has_boot_time(&w) ? w.timestamp_ns : 0,
                                          .is_compressed = w.is_compressed};
}

bool pfl_segment_is_outside(struct pfl_span packet, const struct pfl_segment_window *window)
{
    struct walk w = walk_packet(packet);
    uint64_t first_ns = w.timestamp_ns;
    uint64_t last_ns = w.timestamp_ns;

    if (window->end_ns == 0 || w.is_malformed || w.has_state || (w.flags & FLAG_CLEARED) != 0)
        return false;
    if (w.has_ftrace ? !find_events(w.ftrace, &first_ns, &last_ns)
                     : !w.is_record || !has_boot_time(&w))
        return false;
    return last_ns < window->begin_ns || first_ns >= window->end_ns;
}
