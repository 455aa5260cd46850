/* SPDX-License-Identifier: Apache-2.0 */
/* What one walk over a packet's own fields found: all that the merge has to know of it. Pure. */
#ifndef PFL_CONSUMER_PACKET_VIEW_H
#define PFL_CONSUMER_PACKET_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define PFL_PACKET_CUTS_MAX 8u

/* A field that is replaced, by its place in the packet. */
struct pfl_packet_cut {
    size_t at;
    size_t len;
};

struct pfl_packet_view {
    uint64_t timestamp_ns;
    uint32_t sequence;
    uint32_t machine;
    uint32_t loss_reasons;
    uint32_t flags;   /* sequence_flags */
    uint32_t special; /* id of a field with ids or clocks deeper inside; 0: none */
    uint32_t kind;    /* id of a field that every file of a recording needs; 0: none */
    bool has_sequence;
    bool has_two_special;
    bool is_compressed;
    uint32_t cuts_len;
    size_t cut_bytes;                                /* sum */
    struct pfl_packet_cut cuts[PFL_PACKET_CUTS_MAX]; /* ascending; cuts_len are written */
};

/*
 * The trusted fields that a service ends its packets with, as they were last time: nearly always
 * they are the same again, and one comparison stands for their walk.
 */
#define PFL_PACKET_TAIL_MIN 8u
#define PFL_PACKET_TAIL_MAX 16u

struct pfl_packet_tail {
    size_t len;  /* 0: none is known */
    bool is_new; /* another than at the last look; for the owner to take back */
    uint8_t bytes[PFL_PACKET_TAIL_MAX];
    uint32_t sequence;
    struct pfl_packet_cut cut; /* the sequence's field, by its place in the tail */
};

/* False when a field does not end in its slice (then ask again with the slices joined), when the
 * packet is no protobuf message, and when it has more trusted fields than fit. `tail` (begins as
 * zeros) is used and kept up to date; packets of one service come with one tail. */
bool pfl_packet_view_of(struct pfl_packet_view *self, struct pfl_packet_tail *tail,
                        const struct iovec *slices, int slices_len);

/* The usual packet, recognized by a shorter walk: nothing for the merge but the tail at its end.
 * Says nothing else: false leaves all to pfl_packet_view_of. */
bool pfl_packet_view_is_usual(const struct pfl_packet_tail *tail, const struct iovec *slice);

/*
 * Whether nothing in these fields concerns the merge: not an id, not a loss, nothing that is
 * special. Asks for PFL_PACKET_PLAIN_ROOM readable bytes behind `end`. False where a shorter look
 * cannot tell.
 */
#define PFL_PACKET_PLAIN_ROOM 8u
bool pfl_packet_view_is_plain(const uint8_t *begin, const uint8_t *end);

#endif
