/* SPDX-License-Identifier: Apache-2.0 */
/* See trace_bytes.h. Everything that goes wrong here fails the test. */
#include "tests/unit/consumer/trace_bytes.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/support/capture.h"

enum {
    FRAME_REQUEST_ID = 2,
    FRAME_INVOKE = 5,
    FRAME_REPLY = 6,
    INVOKE_METHOD = 2,
    REPLY_BODY = 3,
    METHOD_READ_BUFFERS = 3,
};

#define SINK_MAX (64u << 20)

static int sink_reserve(void *user, size_t len, uint8_t **ret_room)
{
    struct trace_sink *s = user;

    if (s->answer != 0)
        return s->answer;
    pfl_buf_clear(&s->room);
    if (pfl_buf_reserve(&s->file, len, ret_room) != 0)
        return PFL_ENOMEM;
    return pfl_buf_reserve(&s->room, len, ret_room);
}

static void sink_commit(void *user, size_t len)
{
    struct trace_sink *s = user;
    uint8_t *room;

    assert_int_equal(pfl_buf_reserve(&s->room, 0, &room), 0);
    assert_int_equal(pfl_buf_append(&s->file, room, len), 0);
}

void trace_sink_init(struct trace_sink *self, struct pfl_merge_sink *ret_sink)
{
    *self = (struct trace_sink){0};
    pfl_buf_init(&self->file, SINK_MAX);
    pfl_buf_init(&self->room, SINK_MAX);
    *ret_sink =
        (struct pfl_merge_sink){.user = self, .reserve = sink_reserve, .commit = sink_commit};
}

void trace_sink_fini(struct trace_sink *self)
{
    pfl_buf_fini(&self->file);
    pfl_buf_fini(&self->room);
}

struct pfl_span trace_packet(const struct trace_sink *self, size_t n)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&self->file));
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        assert_int_equal(f.id, 1);
        if (n-- == 0)
            return f.bytes;
    }
    fail_msg("the file has no such packet");
    return pfl_span_of(NULL, 0);
}

size_t trace_packets(const struct trace_sink *self)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&self->file));
    struct pfl_field f;
    size_t n = 0;

    while (pfl_reader_field(&r, &f)) {
        assert_int_equal(f.id, 1);
        assert_int_equal(f.type, PFL_WIRE_BYTES);
        n++;
    }
    assert_false(r.failed);
    return n;
}

bool find_field(struct pfl_span message, uint32_t id, struct pfl_field *ret_field)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    bool found = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != id)
            continue;
        *ret_field = f;
        found = true;
    }
    assert_false(r.failed);
    return found;
}

uint64_t field_value(struct pfl_span message, uint32_t id)
{
    struct pfl_field f;

    return find_field(message, id, &f) ? f.value : 0;
}

struct pfl_span field_bytes(struct pfl_span message, uint32_t id)
{
    struct pfl_field f = {0};

    assert_true(find_field(message, id, &f));
    assert_int_equal(f.type, PFL_WIRE_BYTES);
    return f.bytes;
}

bool has_field(struct pfl_span message, uint32_t id)
{
    struct pfl_field f;

    return find_field(message, id, &f);
}

void each_read_reply(const char *capture, void (*each)(void *user, struct pfl_span body),
                     void *user)
{
    struct pfl_capture cap;
    struct pfl_capture_record record;
    uint64_t request = UINT64_MAX;
    struct pfl_field f;

    pfl_capture_open(&cap, capture);
    while (pfl_capture_next(&cap, &record)) {
        if (record.kind != PFL_CAPTURE_FRAME)
            continue;
        if (!record.is_from_service && find_field(record.payload, FRAME_INVOKE, &f) &&
            field_value(f.bytes, INVOKE_METHOD) == METHOD_READ_BUFFERS)
            request = field_value(record.payload, FRAME_REQUEST_ID);
        if (record.is_from_service && find_field(record.payload, FRAME_REPLY, &f) &&
            field_value(record.payload, FRAME_REQUEST_ID) == request &&
            has_field(f.bytes, REPLY_BODY))
            each(user, field_bytes(f.bytes, REPLY_BODY));
    }
    pfl_capture_close(&cap);
}
