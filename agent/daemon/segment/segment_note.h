/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the agent writes down beside a segment (perfleet.Segment as a file), and the lines of the
 * service's index. Pure. What is read is not believed: a note that is not whole, or does not fit
 * its file's name, is none.
 */
#ifndef PFL_AGENT_SEGMENT_NOTE_H
#define PFL_AGENT_SEGMENT_NOTE_H

#include "agent/daemon/segment/segment_table.h"
#include "base/buf.h"
#include "perfleet/segment.pb-c.h"

#define PFL_SEGMENT_NOTE_BYTES (64u << 10) /* of one note */
#define PFL_SEGMENT_TAIL_BYTES 64u         /* bytes and hash, which follow when they are known */

/* A line of perfleetd's index. */
struct pfl_segment_line {
    uint32_t number;
    uint64_t begin_ns; /* of the boot clock */
    uint64_t end_ns;
    uint32_t unresolved;
    uint64_t losses; /* 0 of a service that does not count them */
    Perfleet__Segment__Reason reason;
};

#define PFL_SEGMENT_INDEX_HEAD_BYTES 32u /* as much of an index says which one it is */

/* How often an index was shortened, from its first bytes: another one is another file. 0: not yet.
 */
uint32_t pfl_segment_index_get_generation(struct pfl_span head_untrusted);
/* PFL_EPARSE: no line of an index; PFL_ESTATE: the one that says that it was shortened; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_segment_line_parse(struct pfl_span line_untrusted,
                                        struct pfl_segment_line *ret_line);

/* Of a file's bytes. `id`: what its name says. PFL_EPARSE, PFL_ENOMEM; the caller frees with
 * pfl_proto_free. */
PFL_MUST_USE int pfl_segment_note_parse(struct pfl_span bytes_untrusted, const char *id,
                                        Perfleet__Segment **ret_note);
/* What the table has of a note with a number. False: it is none. */
bool pfl_segment_note_get_entry(const Perfleet__Segment *note, struct pfl_segment_entry *ret_entry);
/* What the table has of a note's run. False: a name is missing or none. */
bool pfl_segment_note_get_run(const Perfleet__Segment *note, struct pfl_segment_run *ret_run);

/* The note of an entry: the run's note with the entry's numbers. A segment's bytes and hash are
 * left to `append_tail`. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_segment_note_encode(const Perfleet__Segment *run,
                                         const struct pfl_segment_entry *entry,
                                         struct pfl_buf *out);
/* In any thread: `tail` has room for PFL_SEGMENT_TAIL_BYTES. */
size_t pfl_segment_note_put_tail(uint8_t *tail, uint64_t bytes,
                                 const uint8_t sha256[PFL_SEGMENT_HASH_BYTES]);

#endif
