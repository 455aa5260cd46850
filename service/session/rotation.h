/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A long trace in segments, each of which opens alone (docs/control-path.md): when to cut, which
 * packet belongs to which side of a cut, the names and the index. A core.
 *
 *     PATH.000001 PATH.000002 ...    the segments
 *     PATH.index                     one line of JSON for each complete segment
 */
#ifndef PFL_SERVICE_ROTATION_H
#define PFL_SERVICE_ROTATION_H

#include <sys/uio.h>

#include "base/buf.h"
#include "service/core/disk.h"
#include "service/plan/session_plan.h"
#include "service/session/rotation_sequences.h"

#define PFL_ROTATION_INDEX_SLOT    2u
#define PFL_ROTATION_LINE_BYTES    1024u
#define PFL_ROTATION_NUMBER_DIGITS 6u /* at least, after a dot */

enum pfl_rotation_phase {
    PFL_ROTATION_WRITING, /* one segment is open */
    PFL_ROTATION_DUE,     /* the pass that runs, or one that compresses, ends first */
    PFL_ROTATION_CUTTING, /* from the request to clear state and flush until the pass after it:
                             all passes sort packets into the old and the next segment */
};

enum pfl_rotation_reason {
    PFL_ROTATION_BY_SIZE,
    PFL_ROTATION_BY_TIME,
    PFL_ROTATION_AT_END, /* of the session, or of max_file_size_bytes */
};

struct pfl_rotation {
    const struct pfl_plan_file *plan; /* borrowed from the session */
    enum pfl_rotation_phase phase;
    enum pfl_rotation_reason reason; /* of the current cut */
    uint32_t number;                 /* of the open segment, from 1 */
    unsigned slot;                   /* its disk slot, 0 or 1; the next segment has the other */
    uint64_t begin_ns;               /* BOOTTIME */
    uint64_t bytes;
    uint32_t unresolved; /* sequences whose first packet here needs state from before it */
    uint64_t losses;     /* of the session, until the end of the last segment */
    uint32_t lines;      /* of the index, since it was shortened */
    struct pfl_buf next; /* owned: what the next job writes into the next segment */
    uint64_t next_begin_ns;
    uint64_t next_bytes;
    bool is_last_pass;                       /* the cut ends with the pass that runs */
    bool has_next;                           /* its file exists, or the current job creates it */
    struct pfl_rotation_sequences sequences; /* states: enum of rotation.c */
    char *path;                              /* owned */
    char *next_path;                         /* owned; of the path, room for a suffix */
    char *old_path;                          /* likewise */
    char *index_path;                        /* likewise */
    char line[PFL_ROTATION_LINE_BYTES];
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_rotation_new(const struct pfl_plan_file *plan, uint64_t boottime_ns,
                                  struct pfl_rotation **ret_rotation);
void pfl_rotation_free(struct pfl_rotation *self); /* NULL is legal */
/* PATH.index, borrowed as long as the rotation; the path of a segment, until the next call. */
const char *pfl_rotation_get_index_path(struct pfl_rotation *self);
const char *pfl_rotation_get_path(struct pfl_rotation *self, uint32_t number);

/* Could this be the name of a segment, or of an index? Another user's file of that name would stop
 * a rotation, which makes new files only. */
bool pfl_rotation_may_name(struct pfl_span path);

/* Has the open segment reached its size or its time? */
bool pfl_rotation_is_due(struct pfl_rotation *self, uint64_t boottime_ns);
/* The producers are asked to clear their state: every pass from here on sorts. */
void pfl_rotation_begin_cut(struct pfl_rotation *self, uint64_t boottime_ns);
/* The producers have flushed: the pass that begins is the last one of the cut. */
void pfl_rotation_begin_last_pass(struct pfl_rotation *self, uint64_t boottime_ns);
/* Notes the packet; true when it belongs to the next segment. */
bool pfl_rotation_goes_next(struct pfl_rotation *self, struct pfl_span packet);
/* The same for a long packet: its first part, and its trusted fields. */
bool pfl_rotation_long_goes_next(struct pfl_rotation *self, struct pfl_span begin,
                                 struct pfl_span trusted);
/* Notes a packet that goes into the open segment in another form: its slices, then its tail. */
void pfl_rotation_note(struct pfl_rotation *self, const struct iovec *slices, size_t slices_len,
                       struct pfl_span tail);
/* Adds the steps that write both sides. */
void pfl_rotation_add_steps(struct pfl_rotation *self, struct pfl_disk_job *job,
                            struct pfl_span packets);
/* And those that make the next segment the open one, or end the last one. */
struct pfl_rotation_end {
    uint64_t boottime_ns;
    size_t bytes;    /* that this job writes into it */
    uint64_t losses; /* of the session so far */
};
void pfl_rotation_add_end(struct pfl_rotation *self, struct pfl_disk_job *job,
                          const struct pfl_rotation_end *end);
/* `is_in_packet`: what follows is the rest of a packet, for which there is memory. */
void pfl_rotation_on_written(struct pfl_rotation *self, const struct pfl_disk_result *result,
                             bool is_in_packet);
/* The old segment is complete: the next one is open. */
void pfl_rotation_end_cut(struct pfl_rotation *self);

#endif
