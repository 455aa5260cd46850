/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The maximum that an honest host can send: see read_budget.h.
 *
 * Happy path: each packet is charged the minimum that it took in the ring (`ring_left`), and its
 * size (`bytes_left`); an honest host stays below both. Numbers saturate instead of overflowing.
 */
#include "consumer/host/read_budget.h"

#include "perfetto/trace_config.fields.h"

/* The maximal growth of the smallest packet: its size when read, divided by its size in the
 * ring. */
#define GROWTH_MAX                                                                                 \
    ((PFL_READ_TRUSTED_MAX_BYTES + PFL_READ_PACKET_MIN_BYTES - 1) / PFL_READ_PACKET_MIN_BYTES + 1)

static uint64_t add(uint64_t a, uint64_t b)
{
    return a + b >= a ? a + b : UINT64_MAX;
}

struct pfl_read_budget pfl_read_budget_of_buffers(uint64_t buffer_bytes)
{
    uint64_t grown =
        buffer_bytes <= UINT64_MAX / GROWTH_MAX ? buffer_bytes * GROWTH_MAX : UINT64_MAX;

    return (struct pfl_read_budget){
        .ring_left = add(buffer_bytes, PFL_READ_SERVICE_MAX_BYTES),
        .bytes_left = add(grown, PFL_READ_SERVICE_MAX_BYTES),
    };
}

struct pfl_read_budget pfl_read_budget_of_config(struct pfl_span trace_config)
{
    struct pfl_reader config = pfl_reader_of(trace_config);
    struct pfl_field buffer;
    struct pfl_field f;
    uint64_t kb = 0;

    while (pfl_reader_field(&config, &buffer)) {
        struct pfl_reader r;

        if (buffer.id != TRACE_CONFIG__BUFFERS || buffer.type != PFL_WIRE_BYTES)
            continue;
        r = pfl_reader_of(buffer.bytes);
        while (pfl_reader_field(&r, &f))
            if (f.id == TRACE_CONFIG__BUFFER_CONFIG__SIZE_KB && f.type == PFL_WIRE_VARINT)
                kb += (uint32_t)f.value;
    }
    return pfl_read_budget_of_buffers(kb * 1024);
}

struct pfl_read_budget pfl_read_budget_of_limit(uint64_t max_bytes)
{
    return (struct pfl_read_budget){
        .ring_left = UINT64_MAX,
        .bytes_left = max_bytes != 0 ? max_bytes : UINT64_MAX,
    };
}

struct pfl_read_budget pfl_read_budget_and(const struct pfl_read_budget *self, uint64_t bytes)
{
    return (struct pfl_read_budget){
        .ring_left = add(self->ring_left, bytes),
        .bytes_left = add(self->bytes_left, bytes),
    };
}

bool pfl_read_budget_take(struct pfl_read_budget *self, uint64_t packets, uint64_t bytes)
{
    uint64_t trusted = packets * PFL_READ_TRUSTED_MAX_BYTES;
    uint64_t least = packets * PFL_READ_PACKET_MIN_BYTES;
    uint64_t ring = bytes > trusted + least ? bytes - trusted : least;

    if (bytes > self->bytes_left || ring > self->ring_left)
        return false;
    self->bytes_left -= bytes;
    self->ring_left -= ring;
    return true;
}
