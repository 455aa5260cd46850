/* SPDX-License-Identifier: Apache-2.0 */
/* The result of one walk over a packet's own fields: all that the merge needs. Pure. */
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
 * The trusted fields at the end of the previous packet of a service: nearly always they are the
 * same again, and one comparison replaces their walk.
 */
#define PFL_PACKET_TAIL_MIN 8u
#define PFL_PACKET_TAIL_MAX 16u

struct pfl_packet_tail {
    size_t len;  /* 0: none is known */
    bool is_new; /* differs from the last one; the owner resets it */
    uint8_t bytes[PFL_PACKET_TAIL_MAX];
    uint32_t sequence;
    struct pfl_packet_cut cut; /* the sequence's field, by its place in the tail */
};

/* False if a field does not end in its slice (then try again with the slices joined), if the packet
 * is no protobuf message, and if it has more trusted fields than fit. `tail` (initially zeroed) is
 * used and updated; packets of one service share one tail. */
bool pfl_packet_view_of(struct pfl_packet_view *self, struct pfl_packet_tail *tail,
                        const struct iovec *slices, int slices_len);

/* Recognizes the usual packet by a shorter walk: only the tail at its end concerns the merge.
 * False: use pfl_packet_view_of. */
bool pfl_packet_view_is_usual(const struct pfl_packet_tail *tail, const struct iovec *slice);

/*
 * Whether nothing in these fields concerns the merge: no id, no loss, nothing special. Needs
 * PFL_PACKET_PLAIN_ROOM readable bytes after `end`. False also if this short check cannot decide.
 */
#define PFL_PACKET_PLAIN_ROOM 8u
bool pfl_packet_view_is_plain(const uint8_t *begin, const uint8_t *end);

#endif
