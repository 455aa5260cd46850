/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TracePacket's encoding: field numbers, the check of producers' packets, and the fields that the
 * service appends (docs/abi/service.md section 7). Hot path: runs for every packet read out.
 */
#ifndef PFL_PROTO_PACKET_H
#define PFL_PROTO_PACKET_H

#include <endian.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "perfetto/trace_packet.fields.h"

/* Maximal size of the tag and size varint in front of a packet in a trace file. */
#define PFL_TRACE_PREAMBLE_MAX 11u

/*
 * Whether a producer may write the packet whose bytes are in `slices`: whole top-level fields of
 * known wire types, no field of the service's own, no length past 2^28 - 1. Nested content is not
 * checked. An empty packet is valid.
 */
bool pfl_packet_is_valid(const struct iovec *slices, size_t slices_len);
/* The same for a packet in one piece. */
bool pfl_packet_is_valid_piece(const uint8_t *data, size_t len);

/* The part of a packet that the pieces seen so far cut: at most a tag and one more varint. */
#define PFL_PACKET_CUT_MAX 20u

/* The same of a packet that comes piece by piece; begins zeroed. After false it is not used. */
struct pfl_packet_walk {
    size_t skip; /* payload bytes that lie in pieces to come */
    size_t cut_len;
    uint8_t cut[PFL_PACKET_CUT_MAX];
};
bool pfl_packet_walk_piece(struct pfl_packet_walk *self, const uint8_t *data, size_t len);
/* Nothing is cut. */
bool pfl_packet_walk_is_whole(const struct pfl_packet_walk *self);

/*
 * The same for loops over short packets of the common kind: data sources' fields with tags of one
 * byte are accepted here, the rest is checked as above. Reads at most 8 bytes past the packet.
 */
static inline bool pfl_packet_is_valid_hot(const uint8_t *data, size_t len)
{
    /* ids that fit a tag of one byte, and 0 */
    const unsigned reserved =
        1u | 1u << TRACE_PACKET__TRUSTED_UID | 1u << TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID;
    const uint8_t *end = data + len;

    while (data < end) {
        unsigned tag = data[0];
        const uint8_t *next;
        uint64_t word;

        if (tag >= 0x80 || (reserved >> (tag >> 3) & 1) != 0)
            return pfl_packet_is_valid_piece(data, (size_t)(end - data));
        if ((tag & 7) == PFL_WIRE_BYTES && data[1] < 0x80) {
            next = data + 2 + data[1];
        } else if ((tag & 7) == PFL_WIRE_VARINT && data[1] < 0x80) {
            next = data + 2;
        } else if ((tag & 7) == PFL_WIRE_VARINT) {
            memcpy(&word, data + 1, sizeof(word));
            word = ~le64toh(word) & 0x8080808080808080u;
            if (word == 0)
                return pfl_packet_is_valid_piece(data, (size_t)(end - data));
            next = data + 2 + __builtin_ctzll(word) / 8;
        } else {
            return pfl_packet_is_valid_piece(data, (size_t)(end - data));
        }
        if (next > end)
            return false;
        data = next;
    }
    return true;
}

/* What the service appends to a packet. */
struct pfl_packet_trusted {
    uint32_t uid;
    uint32_t sequence_id;
    int64_t pid;           /* -1: unknown, left out */
    uint32_t machine_id;   /* 0: this host, left out */
    uint32_t loss_reasons; /* previous_packet_dropped; 0: left out */
};

#define PFL_PACKET_TRUSTED_MAX 48u
/* Writes them at `dst` (room for PFL_PACKET_TRUSTED_MAX) and returns the length. */
size_t pfl_packet_encode_trusted(uint8_t *dst, const struct pfl_packet_trusted *trusted);

/* Writes what precedes a packet in a trace file and returns its length. */
size_t pfl_packet_encode_preamble(uint8_t dst[PFL_TRACE_PREAMBLE_MAX], size_t packet_bytes);

#endif
