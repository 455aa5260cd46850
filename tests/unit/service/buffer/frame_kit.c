/* SPDX-License-Identifier: Apache-2.0 */
/* Test helper: reads ReadBuffersResponse frames with base/bytes and asserts the limits. */
#include "tests/unit/service/buffer/frame_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "perfetto/consumer_port.fields.h"
#include "perfetto/ipc.fields.h"
#include "proto/ipc/frame.h"
#include "proto/packet_run.h"

#define MAX_BYTES ((size_t)1 << 30)

void kit_trace_init(struct kit_trace *self)
{
    *self = (struct kit_trace){0};
    pfl_buf_init(&self->packets, MAX_BYTES);
    pfl_buf_init(&self->partial, MAX_BYTES);
}

void kit_trace_fini(struct kit_trace *self)
{
    assert_int_equal(self->partial.len, 0);
    pfl_buf_fini(&self->packets);
    pfl_buf_fini(&self->partial);
}

static void end_packet(struct kit_trace *self)
{
    struct pfl_span whole = pfl_buf_get(&self->partial);
    uint32_t len = (uint32_t)whole.len;

    assert_int_equal(pfl_buf_append(&self->packets, &len, sizeof(len)), 0);
    assert_int_equal(pfl_buf_append(&self->packets, whole.data, whole.len), 0);
    pfl_buf_clear(&self->partial);
    self->packets_len++;
}

/* Returns what the slice costs of the frame's limit. */
static size_t feed_slice(struct kit_trace *self, struct pfl_span slice)
{
    struct pfl_reader r = pfl_reader_of(slice);
    struct pfl_field f;
    size_t bytes = 0;
    bool is_last = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == 1) {
            bytes = f.bytes.len;
            assert_int_equal(pfl_buf_append(&self->partial, f.bytes.data, bytes), 0);
        } else if (f.id == 2) {
            is_last = f.value != 0;
        }
    }
    assert_false(r.failed);
    self->slices++;
    if (is_last)
        end_packet(self);
    return bytes + PFL_READBACK_SLICE_COST;
}

static void take_run_field(struct pfl_reader *r, uint32_t id, struct pfl_span *ret_bytes)
{
    struct pfl_field f;

    assert_true(pfl_reader_field(r, &f));
    assert_int_equal(f.id, id);
    assert_int_equal(f.type, PFL_WIRE_BYTES);
    *ret_bytes = f.bytes;
}

/* Puts the time's tag and its varint, as it is spelled. */
static void feed_time(struct kit_trace *self, struct pfl_reader *times)
{
    const uint8_t tag = PFL_RUN_TIME_TAG;
    const uint8_t *begin = times->pos;

    (void)pfl_reader_varint(times);
    assert_false(times->failed);
    assert_int_equal(pfl_buf_append(&self->partial, &tag, 1), 0);
    assert_int_equal(pfl_buf_append(&self->partial, begin, (size_t)(times->pos - begin)), 0);
    self->run_times++;
}

static void feed_run(struct kit_trace *self, struct pfl_span run)
{
    struct pfl_reader r = pfl_reader_of(run);
    struct pfl_reader columns[3];
    struct pfl_span tail;

    assert_int_equal(self->partial.len, 0);
    take_run_field(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__TAIL, &tail);
    assert_true(tail.len <= PFL_RUN_TAIL_MAX_BYTES);
    for (uint32_t i = 0; i < 3; i++) {
        struct pfl_span column;

        take_run_field(&r, READ_BUFFERS_RESPONSE__PACKET_RUN__REST + i, &column);
        columns[i] = pfl_reader_of(column);
    }
    assert_int_equal(r.left, 0);
    assert_int_not_equal(columns[2].left, 0);
    while (columns[2].left != 0) {
        uint64_t length = pfl_reader_varint(&columns[2]);
        struct pfl_span rest = pfl_reader_bytes(&columns[0], length >> 1);

        assert_false(columns[0].failed || columns[2].failed);
        if ((length & 1) != 0)
            feed_time(self, &columns[1]);
        assert_int_equal(pfl_buf_append(&self->partial, rest.data, rest.len), 0);
        assert_true(self->partial.len < PFL_RUN_PACKET_MAX_BYTES);
        assert_int_equal(pfl_buf_append(&self->partial, tail.data, tail.len), 0);
        end_packet(self);
        self->run_packets++;
    }
    assert_int_equal(columns[0].left, 0);
    assert_int_equal(columns[1].left, 0);
    self->runs++;
}

static void feed_body(struct kit_trace *self, struct pfl_span body)
{
    struct pfl_reader r = pfl_reader_of(body);
    struct pfl_field f;
    size_t cost = 0;

    while (pfl_reader_field(&r, &f)) {
        assert_int_equal(f.type, PFL_WIRE_BYTES);
        if (f.id == READ_BUFFERS_RESPONSE__PERFLEET_RUNS) {
            feed_run(self, f.bytes);
            cost += f.raw.len;
            continue;
        }
        assert_int_equal(f.id, 2);
        cost += feed_slice(self, f.bytes);
    }
    assert_false(r.failed);
    assert_true(cost <= PFL_READBACK_FRAME_MAX);
    assert_true(body.len <= PFL_READBACK_FRAME_MAX);
    self->longest_body = body.len > self->longest_body ? body.len : self->longest_body;
}

static void feed_reply(struct kit_trace *self, struct pfl_span reply, bool has_more)
{
    struct pfl_reader r = pfl_reader_of(reply);
    struct pfl_field f;
    bool got_more = false;
    bool is_success = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__SUCCESS)
            is_success = f.value != 0;
        else if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__HAS_MORE)
            got_more = f.value != 0;
        else if (f.id == IPC_FRAME__INVOKE_METHOD_REPLY__REPLY_PROTO)
            feed_body(self, f.bytes);
    }
    assert_false(r.failed);
    assert_true(is_success);
    assert_int_equal(got_more, has_more);
}

void kit_trace_feed(struct kit_trace *self, const struct pfl_readback_frame *frame,
                    uint64_t request_id)
{
    static uint8_t bytes[PFL_FRAME_MAX_BYTES];
    struct pfl_reader r;
    struct pfl_field f;
    size_t len = 0;

    assert_true(frame->bytes <= PFL_FRAME_MAX_BYTES);
    for (int i = 0; i < frame->iov_len; i++) {
        assert_true(len + frame->iov[i].iov_len <= frame->bytes);
        memcpy(bytes + len, frame->iov[i].iov_base, frame->iov[i].iov_len);
        len += frame->iov[i].iov_len;
    }
    assert_int_equal(len, frame->bytes);
    r = pfl_reader_of(pfl_span_of(bytes, len));
    assert_int_equal(pfl_reader_u32(&r), len - PFL_FRAME_PREFIX_BYTES);
    while (pfl_reader_field(&r, &f)) {
        if (f.id == IPC_FRAME__REQUEST_ID)
            assert_int_equal(f.value, request_id);
        else if (f.id == IPC_FRAME__MSG_INVOKE_METHOD_REPLY)
            feed_reply(self, f.bytes, frame->has_more);
    }
    assert_false(r.failed);
    self->frames++;
}

void kit_trace_drain(struct kit_trace *self, struct pfl_readback *readback, uint64_t request_id)
{
    struct pfl_readback_frame frame = {.has_more = true};

    while (frame.has_more) {
        int rc = pfl_readback_next_frame(readback, &frame);

        if (rc == PFL_EAGAIN && pfl_readback_is_paused(readback))
            continue;
        assert_int_equal(rc, 0);
        kit_trace_feed(self, &frame, request_id);
    }
    assert_int_equal(pfl_readback_next_frame(readback, &frame), PFL_ESTATE);
}

struct pfl_span kit_trace_take(struct kit_trace *self)
{
    struct pfl_span queued = pfl_buf_get(&self->packets);
    uint32_t len;

    if (queued.len == 0)
        return queued;
    memcpy(&len, queued.data, sizeof(len));
    pfl_buf_consume(&self->packets, sizeof(len) + len);
    return pfl_span_of(queued.data + sizeof(len), len);
}
