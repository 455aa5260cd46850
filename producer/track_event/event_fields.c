/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of an event in progress: counters, flows, locations, log messages, and arguments.
 *
 * An argument is a DebugAnnotation: `debug_annotations` of the event, `dict_entries` or
 * `array_values` of the dictionary or array it stands in; ev->depth_ counts open ones, a bit of
 * ev->arrays_ distinguishes arrays from dictionaries. Names are interned; if that fails they are
 * sent in full.
 *
 * Failures: deeper than DEPTH_MAX: the value is left out, with what is inside. A session that hides
 * arguments gets none. Calls on an event that is not open do nothing.
 */
#include <string.h>

#include "perfetto/test_event.fields.h"
#include "perfetto/track_event.fields.h"
#include "producer/track_event/event_sequence.h"

#define DEPTH_MAX        24u
#define SHORT_VALUE_MAX  96u /* with its head still below 128 bytes: a size of one byte */
#define SHORT_HEAD_BYTES 24u

/* --- counters, flows, ids ---------------------------------------------------------------- */

void perfleet_event_counter_int(struct perfleet_event *ev, int64_t value)
{
    perfleet_int(ev->writer_, TRACK_EVENT__COUNTER_VALUE, value);
}

void perfleet_event_counter_double(struct perfleet_event *ev, double value)
{
    perfleet_double(ev->writer_, TRACK_EVENT__DOUBLE_COUNTER_VALUE, value);
}

void perfleet_event_flow(struct perfleet_event *ev, uint64_t id)
{
    perfleet_fixed64(ev->writer_, TRACK_EVENT__FLOW_IDS, id);
}

void perfleet_event_terminating_flow(struct perfleet_event *ev, uint64_t id)
{
    perfleet_fixed64(ev->writer_, TRACK_EVENT__TERMINATING_FLOW_IDS, id);
}

uint64_t perfleet_process_scoped_id(uint64_t id)
{
    return id ^ perfleet_track_uuid(&perfleet_process_track);
}

void perfleet_event_correlation_id(struct perfleet_event *ev, uint64_t id)
{
    perfleet_uint(ev->writer_, TRACK_EVENT__CORRELATION_ID, id);
}

void perfleet_event_correlation_id_str(struct perfleet_event *ev, const char *id)
{
    perfleet_string(ev->writer_, TRACK_EVENT__CORRELATION_ID_STR, id);
}

/* --- source locations and log messages --------------------------------------------------- */

/* The location's number, known to readers; 0: it has none. */
static uint32_t tell_location(struct pfl_event_sequence *s,
                              struct perfleet_source_location *location)
{
    uint32_t number = __atomic_load_n(&location->number_, __ATOMIC_RELAXED);

    if (number == 0) {
        number = pfl_intern_take_number();
        __atomic_store_n(&location->number_, number, __ATOMIC_RELAXED);
    }
    if (number == 0 || pfl_event_sequence_knows(s->locations, number))
        return number;
    if (!pfl_event_sequence_intern_location(s, number, location))
        return 0;
    s->locations[number / 32] |= 1u << (number % 32);
    return number;
}

void perfleet_event_source_location(struct perfleet_event *ev,
                                    struct perfleet_source_location *location)
{
    struct perfleet_writer *w = ev->writer_;
    uint32_t number = tell_location(ev->sequence_, location);

    if (number != 0) {
        perfleet_uint(w, TRACK_EVENT__SOURCE_LOCATION_IID, number);
        return;
    }
    perfleet_begin(w, TRACK_EVENT__SOURCE_LOCATION);
    if (location->file != NULL)
        perfleet_string(w, SOURCE_LOCATION__FILE_NAME, location->file);
    if (location->function != NULL)
        perfleet_string(w, SOURCE_LOCATION__FUNCTION_NAME, location->function);
    perfleet_uint(w, SOURCE_LOCATION__LINE_NUMBER, location->line);
    perfleet_end(w);
}

/* Bodies can only be sent interned: each gets a number that no earlier event had. */
static uint32_t tell_body(struct pfl_event_sequence *s, const char *body)
{
    size_t room = sizeof(s->pending) - s->pending_len;
    size_t len = strnlen(body, PERFLEET_LOG_MAX);

    room = room < 32 ? 0 : room - 32;
    len = len < room ? len : room;
    if (!pfl_event_sequence_intern(s, PFL_INTERNED_LOG_BODY, s->last_body + 1,
                                   pfl_span_of(body, len)))
        return 0;
    return ++s->last_body;
}

void perfleet_event_log(struct perfleet_event *ev, enum perfleet_log_priority priority,
                        const char *body, struct perfleet_source_location *where)
{
    struct perfleet_writer *w = ev->writer_;
    uint32_t location = where == NULL ? 0 : tell_location(ev->sequence_, where);
    uint32_t number = tell_body(ev->sequence_, body);

    perfleet_begin(w, TRACK_EVENT__LOG_MESSAGE);
    if (location != 0)
        perfleet_uint(w, LOG_MESSAGE__SOURCE_LOCATION_IID, location);
    if (number != 0)
        perfleet_uint(w, LOG_MESSAGE__BODY_IID, number);
    perfleet_uint(w, LOG_MESSAGE__PRIO, (uint64_t)priority);
    perfleet_end(w);
}

/* --- arguments --------------------------------------------------------------------------- */

/* The name's number, known to readers; 0: it has none. */
static uint32_t tell_name(struct pfl_event_sequence *s, const char *name)
{
    uint32_t number = pfl_intern_get(name);

    if (number == 0 || __builtin_expect(pfl_event_sequence_knows(s->arg_names, number), 1))
        return number;
    if (!pfl_event_sequence_intern(s, PFL_INTERNED_ARG_NAME, number,
                                   pfl_span_of(name, strlen(name))))
        return 0;
    s->arg_names[number / 32] |= 1u << (number % 32);
    return number;
}

static uint32_t field_of_arg(const struct perfleet_event *ev)
{
    if (ev->depth_ == 0)
        return TRACK_EVENT__DEBUG_ANNOTATIONS;
    return (ev->arrays_ >> ev->depth_ & 1) != 0 ? DEBUG_ANNOTATION__ARRAY_VALUES
                                                : DEBUG_ANNOTATION__DICT_ENTRIES;
}

static bool is_hidden(const struct perfleet_event *ev)
{
    return ev->sequence_ == NULL || ev->sequence_->settings.hides_arguments ||
           ev->depth_ > DEPTH_MAX;
}

/* False: there is none to be written. */
static bool begin_arg(struct perfleet_event *ev, const char *name)
{
    uint32_t number;

    if (is_hidden(ev))
        return false;
    number = name == NULL ? 0 : tell_name(ev->sequence_, name);
    perfleet_begin(ev->writer_, field_of_arg(ev));
    if (number != 0)
        perfleet_uint(ev->writer_, DEBUG_ANNOTATION__NAME_IID, number);
    else if (name != NULL)
        perfleet_string(ev->writer_, DEBUG_ANNOTATION__NAME, name);
    return true;
}

/*
 * A short argument whose value takes at most `value_bytes`, in one piece: tag, size, name; the
 * value is written to the returned place. NULL: use the general function, or skip it.
 */
static uint8_t *begin_short(struct perfleet_event *ev, const char *name, size_t value_bytes)
{
    struct perfleet_writer *w = ev->writer_;
    uint32_t number = 0;
    uint8_t *p;

    if (is_hidden(ev) || value_bytes > SHORT_VALUE_MAX ||
        w->end - w->pos < (ptrdiff_t)(value_bytes + SHORT_HEAD_BYTES))
        return NULL;
    if (name != NULL) {
        number = tell_name(ev->sequence_, name);
        if (number == 0)
            return NULL;
    }
    p = w->pos;
    *p++ = (uint8_t)(field_of_arg(ev) << 3 | PFL_WIRE_BYTES);
    p++; /* the size: see end_short */
    if (number != 0)
        p = perfleet_put_varint_(perfleet_put_tag_(p, DEBUG_ANNOTATION__NAME_IID, 0), number);
    return p;
}

static void end_short(struct perfleet_writer *w, uint8_t *end)
{
    w->pos[1] = (uint8_t)(end - w->pos - 2);
    w->pos = end;
}

static void write_varint_arg(struct perfleet_event *ev, const char *name, uint32_t field,
                             uint64_t value)
{
    uint8_t *p = begin_short(ev, name, PERFLEET_FIELD_MAX_);

    if (__builtin_expect(p != NULL, 1)) {
        *p++ = (uint8_t)(field << 3 | PFL_WIRE_VARINT);
        end_short(ev->writer_, perfleet_put_varint_(p, value));
    } else if (begin_arg(ev, name)) {
        perfleet_uint(ev->writer_, field, value);
        perfleet_end(ev->writer_);
    }
}

static void write_bytes_arg(struct perfleet_event *ev, const char *name, uint32_t field,
                            struct pfl_span value)
{
    uint8_t *p = begin_short(ev, name, value.len);

    if (__builtin_expect(p != NULL, 1)) {
        *p++ = (uint8_t)(field << 3 | PFL_WIRE_BYTES);
        *p++ = (uint8_t)value.len;
        if (value.len != 0)
            memcpy(p, value.data, value.len);
        end_short(ev->writer_, p + value.len);
    } else if (begin_arg(ev, name)) {
        perfleet_bytes(ev->writer_, field, value.data, value.len);
        perfleet_end(ev->writer_);
    }
}

void perfleet_arg_bool(struct perfleet_event *ev, const char *name, bool value)
{
    write_varint_arg(ev, name, DEBUG_ANNOTATION__BOOL_VALUE, value);
}

void perfleet_arg_uint(struct perfleet_event *ev, const char *name, uint64_t value)
{
    write_varint_arg(ev, name, DEBUG_ANNOTATION__UINT_VALUE, value);
}

void perfleet_arg_int(struct perfleet_event *ev, const char *name, int64_t value)
{
    write_varint_arg(ev, name, DEBUG_ANNOTATION__INT_VALUE, (uint64_t)value);
}

void perfleet_arg_double(struct perfleet_event *ev, const char *name, double value)
{
    if (!begin_arg(ev, name))
        return;
    perfleet_double(ev->writer_, DEBUG_ANNOTATION__DOUBLE_VALUE, value);
    perfleet_end(ev->writer_);
}

void perfleet_arg_pointer(struct perfleet_event *ev, const char *name, const void *value)
{
    write_varint_arg(ev, name, DEBUG_ANNOTATION__POINTER_VALUE, (uintptr_t)value);
}

void perfleet_arg_string_len(struct perfleet_event *ev, const char *name, const char *value,
                             size_t bytes)
{
    write_bytes_arg(ev, name, DEBUG_ANNOTATION__STRING_VALUE, pfl_span_of(value, bytes));
}

void perfleet_arg_string(struct perfleet_event *ev, const char *name, const char *value)
{
    if (value == NULL)
        value = "(null)";
    write_bytes_arg(ev, name, DEBUG_ANNOTATION__STRING_VALUE, pfl_span_of(value, strlen(value)));
}

void perfleet_arg_json(struct perfleet_event *ev, const char *name, const char *json)
{
    write_bytes_arg(ev, name, DEBUG_ANNOTATION__LEGACY_JSON_VALUE, pfl_span_of(json, strlen(json)));
}

void perfleet_arg_proto(struct perfleet_event *ev, const char *name,
                        const struct perfleet_proto *message)
{
    if (!begin_arg(ev, name))
        return;
    perfleet_string(ev->writer_, DEBUG_ANNOTATION__PROTO_TYPE_NAME, message->type_name);
    perfleet_bytes(ev->writer_, DEBUG_ANNOTATION__PROTO_VALUE, message->data, message->bytes);
    perfleet_end(ev->writer_);
}

/* --- nested arguments -------------------------------------------------------------------- */

/* Too deep a level, or a hidden one, is counted, too, so that its end has a match. */
static void open_level(struct perfleet_event *ev, const char *name, bool is_array)
{
    begin_arg(ev, name);
    ev->depth_++;
    if (ev->depth_ <= DEPTH_MAX)
        ev->arrays_ = (ev->arrays_ & ~(1ull << ev->depth_)) | (uint64_t)is_array << ev->depth_;
}

void perfleet_arg_dict(struct perfleet_event *ev, const char *name)
{
    open_level(ev, name, false);
}

void perfleet_arg_array(struct perfleet_event *ev, const char *name)
{
    open_level(ev, name, true);
}

void perfleet_arg_end(struct perfleet_event *ev)
{
    if (ev->sequence_ == NULL || ev->depth_ == 0)
        return;
    ev->depth_--;
    if (!ev->sequence_->settings.hides_arguments && ev->depth_ <= DEPTH_MAX)
        perfleet_end(ev->writer_);
}
