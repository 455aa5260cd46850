/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the load's writers and readers agree on: the text of a packet, which says whose it is, and
 * the writer's own account, which survives a kill.
 *
 * TracePacket {timestamp 8, for_testing 900 {str 1: pfl_load_text, filler}}; filler and header are
 * covered by the checksum. Native byte order: both ends are on one machine.
 */
#ifndef PFL_TESTS_LOAD_PACKET_H
#define PFL_TESTS_LOAD_PACKET_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PFL_LOAD_MAGIC      0x64616f4cu
#define PFL_LOAD_SLOTS      8192u /* writers of one life of a producer */
#define PFL_LOAD_FILLER_MAX 65536u
#define PFL_LOAD_FIELD_TIME 8u
#define PFL_LOAD_FIELD_TEST 900u
#define PFL_LOAD_FIELD_STR  1u

/* The writer is (producer, life, slot); a slot is used once in a life. */
struct pfl_load_text {
    uint32_t magic;
    uint32_t session;
    uint32_t producer;
    uint32_t life;
    uint32_t slot;
    uint32_t chunk;   /* in which the packet begins: the writer's count, from 0 */
    uint64_t number;  /* of the writer's packets, from 0, lost ones included */
    uint64_t dropped; /* of the packets before it, those the library dropped */
    uint32_t filler_bytes;
    uint32_t checksum;
};

/* One writer's account, in a file that is mapped: what is stored here is there after SIGKILL. */
struct pfl_load_slot {
    uint32_t session;
    uint32_t thread;
    _Atomic(uint64_t) begun; /* packets begun, then ended: equal but for one at a kill */
    _Atomic(uint64_t) ended;
    _Atomic(uint64_t) dropped; /* by the library, of those ended */
    _Atomic(uint64_t) chunks;  /* the writer had */
    _Atomic(uint32_t) is_closed;
    uint32_t flags;
};

/* A line of the chunk log: `ended` packets were over when the writer got its chunk `chunk`. */
struct pfl_load_chunk {
    uint32_t slot;
    uint32_t chunk;
    uint64_t ended;
};

enum pfl_load_flags {
    PFL_LOAD_LOG_CHUNKS = 1, /* the session's account goes down to single chunks */
    PFL_LOAD_NESTED = 2,     /* messages in messages: sizes may need patches */
};

static inline uint32_t pfl_load_sum(uint32_t sum, const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t a = sum, word;

    for (; len >= sizeof(word); p += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, p, sizeof(word));
        a = (a ^ word) * 0x9e3779b97f4a7c15ull;
        a ^= a >> 29;
    }
    for (; len > 0; len--)
        a = (a ^ *p++) * 0x100000001b3ull;
    return (uint32_t)(a ^ a >> 32);
}

/* Over the header, whose checksum counts as 0, and the filler. */
static inline uint32_t pfl_load_checksum(const struct pfl_load_text *text, const void *filler)
{
    struct pfl_load_text header = *text;

    header.checksum = 0;
    return pfl_load_sum(pfl_load_sum(1, &header, sizeof(header)), filler, text->filler_bytes);
}

#endif
