/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of segments, for its files alone. Each uses those that come before it:
 *
 *     segments_ops_port.c       what is asked of the disk
 *     segments_runs_port.c      the runs
 *     segments_gap_port.c       gaps
 *     segments_take_port.c      from a run's index to segments
 *     segments_folder_port.c    reads the folder at the start
 *     segments_port.c           open and close, ticks, begin and end of runs
 *     segments_requests_port.c  collectors
 *     segments_copy_port.c      copies of rings
 *     segments_other_port.c     files that the folder holds for others
 */
#ifndef PFL_AGENT_SEGMENTS_IMPL_H
#define PFL_AGENT_SEGMENTS_IMPL_H

#include "agent/daemon/segment/clock_points.h"
#include "agent/daemon/segment/segment_disk_port.h"
#include "agent/daemon/segment/segment_note.h"
#include "agent/daemon/segment/segments_port.h"
#include "base/io/worker.h"
#include "base/list.h"
#include "base/retention_clock.h"

#define PFL_SEGMENTS_INDEX_BYTES 16384u /* of one read of an index */

enum pfl_segments_run_state {
    PFL_SEGMENTS_RUN_LIVE,     /* its session is ours */
    PFL_SEGMENTS_RUN_SETTLING, /* its session is over, or of a process before: waits for its end */
    PFL_SEGMENTS_RUN_OVER,     /* all is taken */
};

struct pfl_segments_run {
    struct pfl_list node;
    struct pfl_segments *s;
    enum pfl_segments_run_state state;
    Perfleet__Segment *note;      /* owned */
    struct pfl_buf text;          /* of the index, not parsed yet */
    uint64_t index_at;            /* read up to there */
    uint32_t generation;          /* of the index that this is in */
    struct pfl_segment_line line; /* the one that is taken */
    uint32_t next;                /* number */
    uint32_t left_out;            /* up to this number the index has no lines, from `next` on; 0 */
    uint8_t gap_why;              /* of a copy that failed: what its line becomes; 0: a segment */
    uint32_t marker;              /* the number of its RELEASED file; 0: none. The thread's */
    uint64_t end_boot_ns;         /* of the last segment */
    uint64_t end_unix_ns;
    uint32_t waiting;       /* the number that waits for a clock point; 0: none did */
    uint64_t waiting_until; /* the loop's clock */
    uint64_t signature;     /* of its files: changes with them */
    uint64_t quiet_since_ms;
    bool is_busy;
    bool is_index_broken;
    bool has_more; /* the index, than was read with the last scan */
    bool has_end;
    bool is_kept_back; /* the disk failed: not before the next tick */
    char id[PFL_SEGMENT_ID_BYTES];
};

struct pfl_segments_op {
    struct pfl_work work;
    struct pfl_segments *s;
    struct pfl_segments_run *run; /* of BEGIN, SCAN and TAKE: borrowed, busy */
    void (*on_done)(struct pfl_segments_op *op);
    void (*on_gap)(struct pfl_segments_run *run);
    /* NULL: cancelled, or our own. */
    void (*done)(void *user, const struct pfl_segments_result *result);
    void *user;
    struct pfl_segment_entry entry;
    struct pfl_segment_entry *keys; /* owned; of LIST */
    size_t keys_len;
    struct pfl_buf buf; /* a note, or what is read */
    uint64_t offset;
    uint32_t generation; /* of SCAN */
    uint64_t signature;
    size_t len;
    bool is_last;
    bool has_more;
    bool has_room;
    int rc;
    char other[PFL_SEGMENT_OTHER_BYTES]; /* of a file that is none of a run: its name */
};

struct pfl_segments {
    struct pfl_segments_conf conf;
    struct pfl_segment_table table;
    struct pfl_list runs;
    struct pfl_worker *worker;
    struct pfl_sha256 *sha256; /* the thread's */
    uv_timer_t timer;
    struct pfl_clock_points clock;
    struct pfl_retention_clock age; /* the wall clock, from which segments have their age */
    unsigned ops;
    int dir;
    bool is_removing; /* a gap is being written */
    bool is_looking;
    bool has_room;
    bool is_closing;
    bool is_timer_open;
    struct pfl_segments_figures figures;
    char boot_id[40];
    char path[512];
};

/* An op with room for `bytes`. PFL_ENOMEM. */
PFL_MUST_USE int pfl_segments_make_op(struct pfl_segments *self, size_t bytes,
                                      struct pfl_segments_op **ret_op);
void pfl_segments_free_op(struct pfl_segments_op *op);
/* Takes the op in every case: frees it after on_done, or when it fails. Errors of
 * pfl_worker_submit. */
PFL_MUST_USE int pfl_segments_submit(struct pfl_segments_op *op, void (*run)(struct pfl_work *work),
                                     void (*on_done)(struct pfl_segments_op *op));
struct pfl_segments_op *pfl_segments_op_of(struct pfl_work *work);
/* Frees a folder that is closing, behind its last op. */
void pfl_segments_finish(struct pfl_segments *self);
struct pfl_segment_name pfl_segments_name_of(enum pfl_segment_file file, const char *id,
                                             uint32_t number);
/* In any thread. PFL_EIO. */
int pfl_segments_remove_file(struct pfl_segments *self, enum pfl_segment_file file, const char *id,
                             uint32_t number);
void pfl_segments_notify_changed(struct pfl_segments *self);

/* Takes what is known of the run. */
void pfl_segments_pump(struct pfl_segments_run *run);
/* Reads on in its index, which is followed by a pump. It is not busy. */
void pfl_segments_scan(struct pfl_segments_run *run);
bool pfl_segments_is_of_this_boot(const struct pfl_segments_run *run);
/* Removes what passes a quota. */
void pfl_segments_enforce(struct pfl_segments *self);
/* Whether nothing follows a segment that ended so. */
static inline bool pfl_segments_is_end(Perfleet__Segment__Reason reason)
{
    return reason == PERFLEET__SEGMENT__REASON__END || reason == PERFLEET__SEGMENT__REASON__COPY;
}

/* In the thread: the one RELEASED file that the run keeps; 0: none. */
void pfl_segments_set_marker(struct pfl_segments_run *run, uint32_t number);
struct pfl_segments_run *pfl_segments_find_run(const struct pfl_segments *self, const char *id);
/* Takes the note in every case. PFL_EEXIST, PFL_ELIMIT, PFL_EPARSE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_segments_add_run(struct pfl_segments *self, Perfleet__Segment *note,
                                      enum pfl_segments_run_state state,
                                      struct pfl_segments_run **ret_run);
void pfl_segments_free_run(struct pfl_segments_run *run);
/* Removes the files of a run of which all is taken and released. */
void pfl_segments_forget_if_done(struct pfl_segments_run *run);

/* `entry` becomes a gap, or part of one; then `on_gap_made` is called. One at a time. PFL_ENOMEM,
 * errors of pfl_worker_submit. */
int pfl_segments_make_gap(struct pfl_segments_run *run, const struct pfl_segment_entry *entry,
                          uint8_t why, void (*on_gap_made)(struct pfl_segments_run *run));

/* Reads the folder into the table; `self->dir` is open. PFL_EIO (errno), PFL_ENOMEM. */
PFL_MUST_USE int pfl_segments_read_folder(struct pfl_segments *self);

#endif
