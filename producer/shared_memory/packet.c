/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of packets that do not need a writer's private data: packed arrays of varints.
 *
 * A packed array's length is computed first, so that its encoding is minimal and needs no patch:
 * one pass to count, one to write.
 */
#include "producer/perfleet_packet.h"

static size_t varint_bytes(uint64_t v)
{
    /* Seven bits a byte: 64 - clz significant bits, at least one. */
    uint32_t bits = 64u - (uint32_t)__builtin_clzll(v | 1);

    return (bits + 6) / 7;
}

static void begin_packed(struct perfleet_writer *w, uint32_t field, size_t bytes)
{
    uint8_t head[PERFLEET_FIELD_MAX_];
    uint8_t *end = perfleet_put_varint_(perfleet_put_tag_(head, field, 2), bytes);

    perfleet_raw(w, head, (size_t)(end - head));
}

void perfleet_packed_uint(struct perfleet_writer *w, uint32_t field, const uint64_t *values,
                          size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += varint_bytes(values[i]);
    begin_packed(w, field, bytes);
    for (size_t i = 0; i < count; i++)
        perfleet_item_uint(w, values[i]);
}

void perfleet_packed_int(struct perfleet_writer *w, uint32_t field, const int64_t *values,
                         size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += varint_bytes((uint64_t)values[i]);
    begin_packed(w, field, bytes);
    for (size_t i = 0; i < count; i++)
        perfleet_item_int(w, values[i]);
}

void perfleet_packed_sint(struct perfleet_writer *w, uint32_t field, const int64_t *values,
                          size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += varint_bytes(perfleet_zigzag_(values[i]));
    begin_packed(w, field, bytes);
    for (size_t i = 0; i < count; i++)
        perfleet_item_sint(w, values[i]);
}
