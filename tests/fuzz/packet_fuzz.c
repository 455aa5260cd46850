/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer's packet, in one slice, cut into pieces of the first byte's size and in the hot loop's
 * way: the same answer, and that of a plain walk with the reader of base/bytes.
 */
#include "proto/packet.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLICES_MAX 4096u

static bool is_reserved(uint32_t id)
{
    static const uint32_t ids[] = {3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

static bool is_valid_plainly(struct pfl_span packet)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (is_reserved(f.id) || f.bytes.len > 0x0fffffff)
            return false;
    }
    return !r.failed;
}

static bool is_valid_in_pieces(struct pfl_span packet, size_t piece)
{
    static struct iovec slices[SLICES_MAX];
    size_t n = 0;

    while (packet.len != 0) {
        size_t len = piece < packet.len && n + 1 < SLICES_MAX ? piece : packet.len;

        slices[n] = (struct iovec){(void *)(uintptr_t)packet.data, len};
        packet = pfl_span_of(packet.data + len, packet.len - len);
        n++;
    }
    return pfl_packet_is_valid(slices, n);
}

/* As loops over short packets ask, which may look at what is behind. */
static bool is_valid_hot(struct pfl_span packet, uint8_t behind)
{
    uint8_t *room = pfl_mem_alloc(packet.len + 8);
    bool is_ok;

    if (room == NULL)
        abort();
    memcpy(room, packet.data, packet.len);
    memset(room + packet.len, behind, 8);
    is_ok = pfl_packet_is_valid_hot(room, packet.len);
    pfl_mem_free(room);
    return is_ok;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span packet;
    bool expected;

    if (size == 0)
        return 0;
    packet = pfl_span_of(data + 1, size - 1);
    expected = is_valid_plainly(packet);
    note("valid: %d", is_valid_in_pieces(packet, SIZE_MAX));
    if (is_valid_in_pieces(packet, SIZE_MAX) != expected ||
        is_valid_in_pieces(packet, (size_t)data[0] + 1) != expected ||
        is_valid_hot(packet, data[0]) != expected)
        abort();
    return 0;
}
