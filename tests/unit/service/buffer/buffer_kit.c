/* SPDX-License-Identifier: Apache-2.0 */
/* Test helper: builds chunks and reads packets, asserting as it goes. Owns nothing. */
#include "tests/unit/service/buffer/buffer_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "abi/fragment.h"

void kit_chunk_begin(struct kit_chunk *self, uint16_t producer, uint16_t writer, uint32_t chunk_id)
{
    static struct pfl_trace_buffer_credit credit; /* of all producers */

    self->chunk = (struct pfl_trace_buffer_chunk){
        .producer_id = producer,
        .writer_id = writer,
        .chunk_id = chunk_id,
        .is_complete = true,
        .payload = self->payload,
        .producer_uid = 1000u + producer,
        .producer_pid = 2000 + producer,
        .credit = &credit,
    };
}

void kit_chunk_add_raw(struct kit_chunk *self, const void *data, size_t len, unsigned count)
{
    assert_true(self->chunk.payload_bytes + len <= KIT_PAYLOAD_MAX);
    memcpy(self->payload + self->chunk.payload_bytes, data, len);
    self->chunk.payload_bytes += len;
    self->chunk.fragments = (uint16_t)(self->chunk.fragments + count);
}

void kit_chunk_add_bytes(struct kit_chunk *self, const void *data, size_t len)
{
    uint8_t size[PFL_FRAGMENT_SIZE_BYTES] = {(uint8_t)len};

    if (len >= 0x80)
        pfl_fragment_put_size4(size, (uint32_t)len);
    kit_chunk_add_raw(self, size, len < 0x80 ? 1 : sizeof(size), 1);
    kit_chunk_add_raw(self, data, len, 0);
}

void kit_chunk_add(struct kit_chunk *self, char fill, size_t len)
{
    static uint8_t bytes[KIT_PAYLOAD_MAX];

    memset(bytes, fill, len);
    kit_chunk_add_bytes(self, bytes, len);
}

void kit_chunk_pad(struct kit_chunk *self, size_t payload_bytes)
{
    assert_true(payload_bytes >= self->chunk.payload_bytes && payload_bytes <= KIT_PAYLOAD_MAX);
    memset(self->payload + self->chunk.payload_bytes, 0, payload_bytes - self->chunk.payload_bytes);
    self->chunk.payload_bytes = payload_bytes;
}

void kit_commit_one(struct pfl_trace_buffer *buffer, const struct kit_one *one)
{
    static struct kit_chunk c;

    kit_chunk_begin(&c, 1, one->writer, one->chunk_id);
    kit_chunk_add(&c, one->fill, one->len);
    c.chunk.flags = one->flags;
    pfl_trace_buffer_commit(buffer, &c.chunk);
}

bool kit_read(struct pfl_trace_buffer *buffer, struct kit_packet *ret_packet)
{
    struct pfl_trace_buffer_packet packet;

    while (!pfl_trace_buffer_read(buffer, &packet)) {
        if (!pfl_trace_buffer_is_paused(buffer))
            return false;
    }
    ret_packet->producer_id = packet.source->producer_id;
    ret_packet->writer_id = packet.source->writer_id;
    ret_packet->loss_reasons = packet.loss_reasons;
    ret_packet->slices = packet.slices_len;
    ret_packet->bytes = 0;
    assert_true((packet.slices_len == 0) == (packet.bytes == 0));
    for (size_t i = 0; i < packet.slices_len; i++) {
        assert_true(ret_packet->bytes + packet.slices[i].iov_len <= KIT_PACKET_MAX);
        memcpy(ret_packet->data + ret_packet->bytes, packet.slices[i].iov_base,
               packet.slices[i].iov_len);
        ret_packet->bytes += packet.slices[i].iov_len;
    }
    assert_int_equal(ret_packet->bytes, packet.bytes);
    return true;
}

void kit_expect(struct pfl_trace_buffer *buffer, char fill, size_t len, uint32_t loss_reasons)
{
    static struct kit_packet packet;

    assert_true(kit_read(buffer, &packet));
    assert_int_equal(packet.data[0], fill);
    assert_int_equal(packet.bytes, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(packet.data[i], fill);
    assert_int_equal(packet.loss_reasons, loss_reasons);
}

void kit_expect_end(struct pfl_trace_buffer *buffer)
{
    struct pfl_trace_buffer_packet packet;

    assert_false(pfl_trace_buffer_read(buffer, &packet));
    assert_false(pfl_trace_buffer_read(buffer, &packet));
}

struct pfl_trace_buffer *kit_buffer(uint64_t size_bytes, enum pfl_fill_policy policy)
{
    struct pfl_trace_buffer_conf conf = {.size_bytes = size_bytes, .fill_policy = policy};
    struct pfl_trace_buffer *buffer = NULL;

    assert_int_equal(pfl_trace_buffer_new(&conf, &buffer), 0);
    return buffer;
}

struct pfl_trace_buffer *kit_clone(struct pfl_trace_buffer *source)
{
    struct pfl_trace_buffer *clone = NULL;
    uint32_t budget_bytes = UINT32_MAX;

    assert_int_equal(pfl_trace_buffer_clone(source, &clone), 0);
    pfl_trace_buffer_copy_more(clone, &budget_bytes);
    assert_true(pfl_trace_buffer_is_whole(clone));
    return clone;
}

struct pfl_trace_buffer_stats kit_stats(const struct pfl_trace_buffer *buffer)
{
    struct pfl_trace_buffer_stats stats;

    pfl_trace_buffer_stats_get(buffer, &stats);
    return stats;
}

uint32_t kit_random(struct kit_random *self, uint32_t below)
{
    self->state = self->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((self->state >> 33) % below);
}
