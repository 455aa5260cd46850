/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer's packet, in one slice and cut into pieces of the first byte's size: the same answer,
 * and that of a plain walk with the reader of base/bytes.
 */
#include "proto/packet.h"

#include <stdlib.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_span packet;
    bool expected;

    if (size == 0)
        return 0;
    packet = pfl_span_of(data + 1, size - 1);
    expected = is_valid_plainly(packet);
    if (is_valid_in_pieces(packet, SIZE_MAX) != expected ||
        is_valid_in_pieces(packet, (size_t)data[0] + 1) != expected)
        abort();
    return 0;
}
