/* SPDX-License-Identifier: Apache-2.0 */
/* Test helper: one buffer's content read by two consumers, with runs of packets and without. */
#include "tests/unit/service/buffer/runs_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "proto/packet.h"
#include "proto/packet_run.h"
#include "tests/support/sweep.h"

#define MIB ((uint64_t)1 << 20)

struct runs_fx runs_fx;

void runs_on_new_source(void *user, struct pfl_trace_buffer_source *source)
{
    struct runs_side *side = user;
    struct pfl_packet_trusted trusted = {
        .uid = source->producer_uid, .sequence_id = ++side->sources, .pid = source->producer_pid};

    source->packet_sequence_id = trusted.sequence_id;
    source->trusted_len = (uint8_t)pfl_packet_encode_trusted(source->trusted, &trusted);
}

static void on_drained(void *user, struct pfl_readback *readback)
{
    (void)user;
    assert_int_equal(pfl_readback_push(readback, pfl_span_of("the end", 7)), 0);
}

static void open_side(struct runs_side *side, bool accepts_runs)
{
    struct pfl_readback_conf conf = {
        .request_id = 1,
        .buffers = side->buffers,
        .buffers_len = 2,
        .on_new_source = runs_on_new_source,
        .on_drained = on_drained,
        .user = side,
    };

    side->buffers[0] = kit_buffer(8 * MIB, PFL_FILL_RING_BUFFER);
    side->buffers[1] = kit_buffer(8 * MIB, PFL_FILL_RING_BUFFER);
    kit_trace_init(&side->trace);
    assert_int_equal(pfl_readback_new(&conf, &side->readback), 0);
    pfl_readback_set_request(side->readback, RUNS_REQUEST_ID, accepts_runs);
}

int runs_setup(void **state)
{
    (void)state;
    memset(&runs_fx, 0, sizeof(runs_fx));
    open_side(&runs_fx.sides[SLICES], false);
    open_side(&runs_fx.sides[RUNS], true);
    return 0;
}

int runs_teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        pfl_readback_free(runs_fx.sides[i].readback);
        pfl_trace_buffer_free(runs_fx.sides[i].buffers[0]);
        pfl_trace_buffer_free(runs_fx.sides[i].buffers[1]);
        kit_trace_fini(&runs_fx.sides[i].trace);
    }
    pfl_sweep_assert_no_leak();
    return 0;
}

void runs_make_packet(uint8_t *dst, char fill, size_t len)
{
    size_t payload;

    if (len % 2 != 0 && len < 8) {
        memcpy(dst, (const uint8_t[]){8 << 3, 0x80 | 1, 1}, 3);
        dst += 3;
        len -= 3;
    }
    for (; len != 0 && len < 8; len -= 2, dst += 2)
        memcpy(dst, (const uint8_t[]){13 << 3, (uint8_t)fill}, 2);
    if (len == 0)
        return;
    payload = len - 2;
    while (payload + pfl_varint_size(payload) + 1 > len)
        payload--;
    if (payload + pfl_varint_size(payload) + 1 < len) { /* a length that skips: one in two bytes */
        *dst++ = 11 << 3 | PFL_WIRE_BYTES;
        *dst++ = (uint8_t)(payload | 0x80);
        *dst++ = (uint8_t)(payload >> 7);
    } else {
        *dst++ = 11 << 3 | PFL_WIRE_BYTES;
        dst += pfl_varint_put(dst, payload);
    }
    memset(dst, fill, payload);
}

void runs_begin_chunk(uint16_t writer, uint32_t chunk_id)
{
    kit_chunk_begin(&runs_fx.chunk, 1, writer, chunk_id);
}

void runs_add_packet(char fill, size_t len)
{
    static uint8_t packet[KIT_PAYLOAD_MAX];

    runs_make_packet(packet, fill, len);
    kit_chunk_add_bytes(&runs_fx.chunk, packet, len);
}

size_t runs_make_timed(uint8_t *dst, struct runs_time time, char fill, size_t rest)
{
    dst[0] = PFL_RUN_TIME_TAG;
    memset(dst + 1, time.is_padded ? 0x80 : 0xa5, time.bytes);
    dst[time.bytes] = !time.is_padded;
    if (rest != 0)
        runs_make_packet(dst + 1 + time.bytes, fill, rest);
    return 1 + time.bytes + rest;
}

void runs_add_timed(struct runs_time time, char fill, size_t rest)
{
    static uint8_t packet[KIT_PAYLOAD_MAX];

    kit_chunk_add_bytes(&runs_fx.chunk, packet, runs_make_timed(packet, time, fill, rest));
}

void runs_commit(size_t buffer)
{
    for (size_t i = 0; i < 2; i++)
        pfl_trace_buffer_commit(runs_fx.sides[i].buffers[buffer], &runs_fx.chunk.chunk);
}

void runs_commit_packets(uint16_t writer, uint32_t chunk_id, size_t len, unsigned count)
{
    runs_begin_chunk(writer, chunk_id);
    for (unsigned i = 0; i < count; i++)
        runs_add_packet((char)('a' + (chunk_id + i) % 26), len);
    runs_commit(0);
}

void runs_drain(void)
{
    for (size_t i = 0; i < 2; i++)
        kit_trace_drain(&runs_fx.sides[i].trace, runs_fx.sides[i].readback, RUNS_REQUEST_ID);
}

size_t runs_expect_same(void)
{
    struct kit_trace *a = &runs_fx.sides[SLICES].trace;
    struct kit_trace *b = &runs_fx.sides[RUNS].trace;
    uint64_t invalid;

    runs_drain();
    assert_int_equal(a->runs, 0);
    assert_int_equal(a->packets_len, b->packets_len);
    for (size_t i = 0; i < a->packets_len; i++) {
        struct pfl_span want = kit_trace_take(a);
        struct pfl_span got = kit_trace_take(b);

        assert_int_equal(got.len, want.len);
        assert_memory_equal(got.data, want.data, want.len);
    }
    invalid = pfl_readback_take_invalid_packets(runs_fx.sides[SLICES].readback);
    assert_int_equal(pfl_readback_take_invalid_packets(runs_fx.sides[RUNS].readback), invalid);
    return b->run_packets;
}
