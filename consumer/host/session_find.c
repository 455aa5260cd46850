/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds sessions in a service's state in place. Happy path: one walk over the message, one over
 * each session; also collects the state from its parts, without the large parts of descriptors.
 * Failures: malformed bytes end the walk; earlier results count.
 */
#include "consumer/host/session_find.h"

#include <limits.h>
#include <string.h>

#include "perfetto/consumer_port.fields.h"
#include "perfetto/data_source_descriptor.fields.h"
#include "perfetto/service_state.fields.h"

/* Of perfleet-probes, for the doctor. */
#define FTRACE_NO_PRINT_TAG_BYTES 3u
#define FTRACE_WHY_MAX_BYTES      200u

/* Of track events, for listing what can be recorded. */
#define CATEGORIES_MAX          256u
#define CATEGORY_NAME_MAX_BYTES 100u

/* `id`: of the field that says what it is called. */
static enum pfl_session_found judge(struct pfl_span session, uint32_t id, const char *name)
{
    struct pfl_reader r = pfl_reader_of(session);
    struct pfl_field f;
    bool is_named = false;
    bool is_copy = false;
    bool is_over = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.type != PFL_WIRE_BYTES)
            continue;
        if (f.id == id)
            is_named = pfl_span_is(f.bytes, name);
        if (f.id == TRACING_SERVICE_STATE__TRACING_SESSION__STATE) {
            is_over = pfl_span_is(f.bytes, "DISABLED");
            is_copy = pfl_span_is(f.bytes, "CLONED_READ_ONLY");
        }
    }
    if (!is_named || is_copy)
        return PFL_SESSION_NONE;
    return is_over ? PFL_SESSION_OVER : PFL_SESSION_RUNNING;
}

static enum pfl_session_found find(struct pfl_span state, uint32_t id, const char *name)
{
    struct pfl_reader r = pfl_reader_of(state);
    enum pfl_session_found found = PFL_SESSION_NONE;
    struct pfl_field f;

    while (found == PFL_SESSION_NONE && pfl_reader_field(&r, &f))
        if (f.id == TRACING_SERVICE_STATE__TRACING_SESSIONS && f.type == PFL_WIRE_BYTES)
            found = judge(f.bytes, id, name);
    return found;
}

enum pfl_session_found pfl_session_find(struct pfl_span state, const char *name)
{
    return find(state, TRACING_SERVICE_STATE__TRACING_SESSION__UNIQUE_SESSION_NAME, name);
}

enum pfl_session_found pfl_session_find_left(struct pfl_span state, const char *key)
{
    return find(state, TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_DETACH_KEY, key);
}

static int count_triggers(struct pfl_span session)
{
    struct pfl_reader r = pfl_reader_of(session);
    struct pfl_field f;
    int count = -1;

    while (pfl_reader_field(&r, &f))
        if (f.id == TRACING_SERVICE_STATE__TRACING_SESSION__PERFLEET_CLONE_TRIGGERS &&
            f.type == PFL_WIRE_VARINT)
            count = f.value < INT_MAX ? (int)f.value : INT_MAX;
    return count;
}

bool pfl_session_get(struct pfl_span state, const char *name, struct pfl_span *ret_session)
{
    struct pfl_reader r = pfl_reader_of(state);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == TRACING_SERVICE_STATE__TRACING_SESSIONS && f.type == PFL_WIRE_BYTES &&
            judge(f.bytes, TRACING_SERVICE_STATE__TRACING_SESSION__UNIQUE_SESSION_NAME, name) !=
                PFL_SESSION_NONE) {
            *ret_session = f.bytes;
            return true;
        }
    return false;
}

int pfl_session_count_triggers(struct pfl_span state, const char *name)
{
    struct pfl_span session;

    return pfl_session_get(state, name, &session) ? count_triggers(session) : -1;
}

static struct pfl_span find_bytes(struct pfl_span message, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_span found = {0};
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == id && f.type == PFL_WIRE_BYTES)
            found = f.bytes;
    return found;
}

/* The names of categories, without descriptions and tags. */
static int encode_categories(struct pfl_span track_event, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(track_event);
    struct pfl_buf names;
    struct pfl_field f;
    uint8_t bytes[CATEGORY_NAME_MAX_BYTES + 16];
    struct pfl_writer w;
    int rc = 0;

    pfl_buf_init(&names, CATEGORIES_MAX * sizeof(bytes));
    for (unsigned n = 0; rc == 0 && n < CATEGORIES_MAX && pfl_reader_field(&r, &f);) {
        struct pfl_span name;

        if (f.id != TRACK_EVENT_DESCRIPTOR__AVAILABLE_CATEGORIES || f.type != PFL_WIRE_BYTES)
            continue;
        name = find_bytes(f.bytes, TRACK_EVENT_CATEGORY__NAME);
        if (name.len == 0 || name.len > CATEGORY_NAME_MAX_BYTES)
            continue;
        w = pfl_writer_of(bytes, sizeof(bytes));
        pfl_writer_field_header(&w, TRACK_EVENT_DESCRIPTOR__AVAILABLE_CATEGORIES,
                                1 + pfl_varint_size(name.len) + name.len);
        pfl_writer_field_bytes(&w, TRACK_EVENT_CATEGORY__NAME, name.data, name.len);
        rc = pfl_buf_append(&names, bytes, sizeof(bytes) - w.left);
        n++;
    }
    w = pfl_writer_of(bytes, sizeof(bytes));
    pfl_writer_field_header(&w, DATA_SOURCE_DESCRIPTOR__TRACK_EVENT_DESCRIPTOR, names.len);
    if (rc == 0 && names.len != 0)
        rc = pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
    if (rc == 0 && names.len != 0)
        rc = pfl_buf_append(out, pfl_buf_get(&names).data, names.len);
    pfl_buf_fini(&names);
    return rc;
}

/* What is in it may be malformed, what is made of it is not. */
static int encode_descriptor(struct pfl_span descriptor, struct pfl_buf *out)
{
    struct pfl_span name = find_bytes(descriptor, DATA_SOURCE_DESCRIPTOR__NAME);
    struct pfl_span why =
        find_bytes(find_bytes(descriptor, DATA_SOURCE_DESCRIPTOR__FTRACE_DESCRIPTOR),
                   FTRACE_DESCRIPTOR__PERFLEET_NO_PRINT);
    uint8_t tail[FTRACE_WHY_MAX_BYTES + 16];
    uint8_t header[16];
    struct pfl_writer t = pfl_writer_of(tail, sizeof(tail));
    struct pfl_writer w = pfl_writer_of(header, sizeof(header));
    int rc;

    if (why.len != 0 && why.len <= FTRACE_WHY_MAX_BYTES) {
        pfl_writer_field_header(&t, DATA_SOURCE_DESCRIPTOR__FTRACE_DESCRIPTOR,
                                FTRACE_NO_PRINT_TAG_BYTES + pfl_varint_size(why.len) + why.len);
        pfl_writer_field_bytes(&t, FTRACE_DESCRIPTOR__PERFLEET_NO_PRINT, why.data, why.len);
    }
    pfl_writer_field_header(&w, DATA_SOURCE_DESCRIPTOR__NAME, name.len);
    rc = pfl_buf_append(out, header, sizeof(header) - w.left);
    if (rc == 0)
        rc = pfl_buf_append(out, name.data, name.len);
    if (rc == 0)
        rc = encode_categories(
            find_bytes(descriptor, DATA_SOURCE_DESCRIPTOR__TRACK_EVENT_DESCRIPTOR), out);
    return rc == 0 ? pfl_buf_append(out, tail, sizeof(tail) - t.left) : rc;
}

/*
 * Descriptors may have tens of megabytes in all, most of which is not needed here. One without a
 * name cannot be recorded; two bytes on the wire would become eight.
 */
static int take_source(struct pfl_span source, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(source);
    struct pfl_span descriptor = {0};
    struct pfl_buf kept;
    uint64_t producer = 0;
    struct pfl_field f;
    uint8_t bytes[64];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    size_t len;
    int rc;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACING_SERVICE_STATE__DATA_SOURCE__DS_DESCRIPTOR && f.type == PFL_WIRE_BYTES)
            descriptor = f.bytes;
        else if (f.id == TRACING_SERVICE_STATE__DATA_SOURCE__PRODUCER_ID &&
                 f.type == PFL_WIRE_VARINT)
            producer = f.value;
    }
    if (find_bytes(descriptor, DATA_SOURCE_DESCRIPTOR__NAME).len == 0)
        return 0;
    pfl_buf_init(&kept, descriptor.len + sizeof(bytes));
    rc = encode_descriptor(descriptor, &kept);
    len = pfl_buf_get(&kept).len;
    pfl_writer_field_header(&w, TRACING_SERVICE_STATE__DATA_SOURCES,
                            1 + pfl_varint_size(len) + len + 1 + pfl_varint_size(producer));
    pfl_writer_field_header(&w, TRACING_SERVICE_STATE__DATA_SOURCE__DS_DESCRIPTOR, len);
    if (rc == 0)
        rc = pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
    if (rc == 0)
        rc = pfl_buf_append(out, pfl_buf_get(&kept).data, len);
    w = pfl_writer_of(bytes, sizeof(bytes));
    pfl_writer_field_varint(&w, TRACING_SERVICE_STATE__DATA_SOURCE__PRODUCER_ID, producer);
    if (rc == 0)
        rc = pfl_buf_append(out, bytes, sizeof(bytes) - w.left);
    pfl_buf_fini(&kept);
    return rc;
}

static int take_fields(struct pfl_span state, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(state);
    const uint8_t *begin = state.data; /* of what is to be taken as it is */
    const uint8_t *at = state.data;
    struct pfl_field f;
    int rc = 0;

    if (state.len == 0)
        return 0;
    while (rc == 0 && pfl_reader_field(&r, &f)) {
        const uint8_t *end = r.pos;

        if (f.id == TRACING_SERVICE_STATE__DATA_SOURCES && f.type == PFL_WIRE_BYTES) {
            rc = pfl_buf_append(out, begin, (size_t)(at - begin));
            if (rc == 0)
                rc = take_source(f.bytes, out);
            begin = end;
        }
        at = end;
    }
    /* Malformed bytes are copied, too: the unpacker reports them. */
    return rc != 0 ? rc : pfl_buf_append(out, begin, (size_t)(state.data + state.len - begin));
}

int pfl_session_take_state(struct pfl_span response, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(response);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id == QUERY_SERVICE_STATE_RESPONSE__SERVICE_STATE && f.type == PFL_WIRE_BYTES)
            rc = take_fields(f.bytes, out);
    return rc;
}
