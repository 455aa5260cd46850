/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments of many hosts, from a collector or from files, into one trace on one timeline. I/O-free:
 * it says which bytes of which segment it wants, and takes them in parts, so that its memory
 * depends neither on their sizes nor on the number of hosts.
 *
 *     pfl_segment_merge_new(&conf, &merge);
 *     pfl_segment_merge_add(merge, segment);              // each of them
 *     pfl_segment_merge_begin(merge);                     // names and clocks go to the sink
 *     while (pfl_segment_merge_want(merge, &want)) ...    // read it, then feed or fail
 *     pfl_segment_merge_is_done(merge);
 *
 * The segments of one run of an order are read one after the other, in the order of their numbers;
 * runs are read side by side, by the time of their packets. A boot of a host is a machine of the
 * trace; its clock comes from the exchanges that its segments carry (clock_graph.h).
 */
#ifndef PFL_CONSUMER_SEGMENT_MERGE_H
#define PFL_CONSUMER_SEGMENT_MERGE_H

#include "consumer/merge/merge.h"
#include "perfleet/segment.pb-c.h"

#define PFL_SEGMENT_MERGE_MAX_SEGMENTS 65536u
/* Bytes that are wanted, or fed and not merged yet, of all runs together; each has the same share,
 * at most the maximum. Beyond it goes one packet at a time, of the run that all others wait for. */
#define PFL_SEGMENT_MERGE_AHEAD_BYTES     (32u << 20)
#define PFL_SEGMENT_MERGE_SHARE_MAX_BYTES (8u << 20)
/* What a segment's compressed packets may hold: as much as deflate can at most, and a base. */
#define PFL_SEGMENT_MERGE_DECODED_BYTES (64ull << 20)
#define PFL_SEGMENT_MERGE_DECODED_RATIO 1032u
/* What a host's segments may become in sum, unless host_max_bytes says so. */
#define PFL_SEGMENT_MERGE_HOST_BYTES (256ull << 20)
#define PFL_SEGMENT_MERGE_HOST_RATIO 64u

struct pfl_segment_merge;

struct pfl_segment_merge_conf {
    struct pfl_merge_sink sink;
    struct pfl_hash_key hash_key; /* as pfl_merge_new has it */
    /* By the hosts' wall clocks: packets of one moment outside of [begin, end) are left out. Both
     * 0: whole segments. */
    uint64_t begin_unix_ns;
    uint64_t end_unix_ns;
    /* Of one host, all its boots together: decoded, or in the trace. 0:
     * PFL_SEGMENT_MERGE_HOST_BYTES, and PFL_SEGMENT_MERGE_HOST_RATIO times the bytes of its
     * segments; UINT64_MAX: no limit. */
    uint64_t host_max_bytes;
};

struct pfl_segment_want {
    size_t segment; /* in the order of add */
    uint64_t offset;
    size_t len;
};

/* One boot of a host. */
struct pfl_segment_machine {
    const char *name; /* in the trace */
    size_t runs;
    size_t segments;
    uint64_t packets;
    uint64_t bytes;            /* in the trace */
    uint64_t left_out_packets; /* outside of the window */
    uint64_t refused_packets;  /* malformed, or compressed packets that cannot be read */
    uint64_t missing_segments; /* numbers between those that were added */
    uint64_t failed_segments;
    uint64_t cut_segments;      /* not read, or not whole: its host had reached its maximum */
    uint64_t left_out_segments; /* of the host: beyond its runs or boots; with its first boot */
    bool is_reference;
    bool has_clock; /* else it is placed by its wall clock */
    int64_t offset_ns;
    int64_t drift_ns;
    int64_t error_ns; /* a bound */
};

PFL_MUST_USE int pfl_segment_merge_new(const struct pfl_segment_merge_conf *conf,
                                       struct pfl_segment_merge **ret_merge);
void pfl_segment_merge_free(struct pfl_segment_merge *self); /* NULL is legal */
/* Its record; nothing of it is kept by reference. A record of a gap, or the same number again, is
 * counted and not read. PFL_EINVAL: it makes no sense; PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_merge_add(struct pfl_segment_merge *self,
                                       const Perfleet__Segment *segment);
/* After the last one. Of more than PFL_MERGE_MAX_HOSTS runs those are left out that hosts have
 * beyond their share. PFL_ESTATE: there is none to be read; PFL_ELIMIT: there are more hosts than
 * that; PFL_ENOMEM, or what the sink returned. */
PFL_MUST_USE int pfl_segment_merge_begin(struct pfl_segment_merge *self);
/* A part to be read next; each is returned once, and several may be open. False: none now. */
bool pfl_segment_merge_want(struct pfl_segment_merge *self, struct pfl_segment_want *ret_want);
/* The next bytes of the part that is wanted of this segment. PFL_EINVAL: more than was wanted;
 * PFL_ENOMEM, or what the sink returned. */
PFL_MUST_USE int pfl_segment_merge_feed(struct pfl_segment_merge *self, size_t segment,
                                        struct pfl_span bytes);
/* It cannot be read (further): what came of it stays. Failures as feed. */
PFL_MUST_USE int pfl_segment_merge_fail(struct pfl_segment_merge *self, size_t segment);
bool pfl_segment_merge_is_done(const struct pfl_segment_merge *self);

/* After PFL_ELIMIT: the host that has most segments (of add) or runs (of begin). Borrowed until
 * free; NULL: none, or out of memory. */
const char *pfl_segment_merge_find_largest(const struct pfl_segment_merge *self, bool has_begun,
                                           size_t *ret_count);
size_t pfl_segment_merge_get_machines_len(const struct pfl_segment_merge *self);
/* Valid from begin on; texts are borrowed until free. */
void pfl_segment_merge_get_machine(const struct pfl_segment_merge *self, size_t machine,
                                   struct pfl_segment_machine *ret_machine);

#endif
