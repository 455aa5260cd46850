/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of segments that wait for a collector. It follows the index that perfleetd writes for
 * each run, hashes finished segments and writes a note of each: from then on the segment exists,
 * survives the agent and the host, and is given out until it is released. A quota in bytes and age
 * removes what nobody took; what it removes becomes a gap, which is given out likewise. At the
 * start the folder is read again; nothing in it is believed.
 */
#ifndef PFL_AGENT_SEGMENTS_PORT_H
#define PFL_AGENT_SEGMENTS_PORT_H

#include <uv.h>

#include "agent/daemon/segment/segment_table.h"
#include "base/buf.h"
#include "perfleet/segment.pb-c.h"

#define PFL_SEGMENT_ORDER_SUFFIX ".order"     /* of files that the folder holds for others */
#define PFL_SEGMENTS_READ_BYTES  (256u << 10) /* of one read */
#define PFL_SEGMENTS_LIST_MAX    256u         /* notes of one list */
#define PFL_SEGMENTS_LIST_BYTES  (512u << 10)
#define PFL_SEGMENTS_SETTLE_MS   30000u /* a run without end is over when nothing changed so long */

struct pfl_segments;
struct pfl_worker;
struct pfl_segments_op; /* a request that the disk is at work on */

struct pfl_segments_conf {
    uv_loop_t *loop;
    const char *dir;
    struct pfl_worker *worker;      /* of one thread; borrowed until on_closed */
    const char *boot_id;            /* of this boot; borrowed during open */
    struct pfl_segment_quota quota; /* of all */
    uint64_t tick_ms;               /* how often the index is read; 0: 1000 */
    uint64_t settle_ms;             /* 0: PFL_SEGMENTS_SETTLE_MS */
    uint64_t clock_wait_ms;         /* a segment, for a clock point after its end; 0: 3000 */
    size_t segments_max;            /* 0: PFL_SEGMENTS_MAX */
    size_t runs_max;                /* 0: PFL_SEGMENT_RUNS_MAX */
    void (*on_changed)(void *user); /* the sums did */
    /* A clock point of now is wanted, again and again until it is added. False: nobody can give
     * one. NULL: never. */
    bool (*ask_clock)(void *user);
    uint64_t (*get_unix_ns)(
        void *user);               /* when segments end, and their age; NULL: the wall clock */
    void (*on_closed)(void *user); /* last callback */
    void *user;
};

/* Reads the folder. PFL_EIO: it cannot be read or written (errno); PFL_ENOMEM. */
PFL_MUST_USE int pfl_segments_open(const struct pfl_segments_conf *conf,
                                   struct pfl_segments **ret_segments);
/* Ops are done first; on_closed follows. */
void pfl_segments_close(struct pfl_segments *self);

struct pfl_segments_result {
    int rc;                /* 0, PFL_ENOENT, PFL_ESTATE (other bytes or a grown gap), PFL_EIO */
    struct pfl_span bytes; /* of a read: data; of a list: notes, each behind its u32 length */
    bool has_more;         /* of a list */
};

/* ---- runs ---- */

struct pfl_segments_begin {
    Perfleet__Segment *note; /* what its segments have in common; borrowed during the call */
    struct pfl_segment_quota quota;
    /* The note of the run is on the disk. PFL_ELIMIT (the disk is full), PFL_EIO: it is not. Then
     * there is no such run; but a copy is there, and is to be ended with a reason. */
    void (*done)(void *user, const struct pfl_segments_result *result);
    void *user;
};

/* A new run; its incarnation is made here (`ret_id`). `done` follows from the loop, except after
 * cancel. PFL_ELIMIT: too many runs or copies; PFL_ENOMEM, PFL_EIO: nothing follows. */
PFL_MUST_USE int pfl_segments_begin_run(struct pfl_segments *self,
                                        const struct pfl_segments_begin *begin,
                                        char ret_id[PFL_SEGMENT_ID_BYTES],
                                        struct pfl_segments_op **ret_op);
/* Its session ended: whatever is left of it is taken. */
void pfl_segments_end_run(struct pfl_segments *self, const char *id);
/* The path that perfleetd gets. `room`: of dst. */
void pfl_segments_get_path(const struct pfl_segments *self, const char *id, char *dst, size_t room);
/* The quota of an order, also of its earlier runs. */
void pfl_segments_set_quota(struct pfl_segments *self, const char *orderer, const char *order,
                            const struct pfl_segment_quota *quota);
/* Of all; 0: none. */
uint64_t pfl_segments_get_quota_bytes(const struct pfl_segments *self);
/* Is there room on the disk for a run? */
bool pfl_segments_has_room(const struct pfl_segments *self);
/* Copied; kept for segments of this boot. */
void pfl_segments_add_clock(struct pfl_segments *self, const Perfleet__ClockPoint *point);

/* ---- copies: runs of one segment that this process writes; their notes have a trigger ---- */

struct pfl_segments_part {
    const char *id;        /* of the run; borrowed during the call */
    struct pfl_buf *bytes; /* the content is taken */
    void (*done)(void *user, const struct pfl_segments_result *result);
    void *user;
};

/* Appends to the segment. `done` follows from the loop, except after cancel: PFL_ELIMIT: the disk
 * is full; PFL_EPERM, PFL_EIO. One at a time. PFL_ENOENT: there is no such run; PFL_ENOMEM,
 * PFL_EIO: nothing follows. */
PFL_MUST_USE int pfl_segments_append(struct pfl_segments *self,
                                     const struct pfl_segments_part *part,
                                     struct pfl_segments_op **ret_op);

struct pfl_segments_copy_end {
    uint64_t begin_boot_ns; /* of what is in the copy */
    uint64_t end_boot_ns;
    uint8_t why;     /* 0: it is whole; SEGMENT_GAP__...: it is given up, and becomes a gap */
    uint64_t losses; /* packets that are not in it */
};
void pfl_segments_end_copy(struct pfl_segments *self, const char *id,
                           const struct pfl_segments_copy_end *end);

/* ---- files that the folder holds for others ---- */

struct pfl_segments_other {
    const char *name;      /* below PFL_SEGMENT_OTHER_BYTES; borrowed during the call */
    struct pfl_buf *bytes; /* the content is taken; NULL: the file is removed */
    void (*done)(void *user, const struct pfl_segments_result *result); /* NULL is legal */
    void *user;
};

/* Writes the file and syncs it, or removes it, behind all that was asked for before. `done`
 * follows from the loop, except after cancel: PFL_ELIMIT: the disk is full; PFL_EIO; the file of
 * before stays. PFL_ENOMEM, PFL_EIO: nothing follows. */
PFL_MUST_USE int pfl_segments_write_other(struct pfl_segments *self,
                                          const struct pfl_segments_other *other,
                                          struct pfl_segments_op **ret_op);

/* ---- for collectors ---- */

/* What a collector asks for; it sees what is its own alone. */
struct pfl_segments_request {
    const char *collector;         /* borrowed during the call */
    struct pfl_segment_entry what; /* id and number; of a release also the hash of a segment, or
                                      is_gap and the last number of a gap. Of a list: after this
                                      one; no id: from the begin */
    bool is_newest_first;          /* of a list */
    uint64_t offset;               /* of a read */
    size_t len;
    void (*done)(void *user, const struct pfl_segments_result *result);
    void *user;
};

/* Each: PFL_ENOMEM, or `done` follows from the loop, except after cancel. */
PFL_MUST_USE int pfl_segments_list(struct pfl_segments *self,
                                   const struct pfl_segments_request *ask,
                                   struct pfl_segments_op **ret_op);
PFL_MUST_USE int pfl_segments_read(struct pfl_segments *self,
                                   const struct pfl_segments_request *ask,
                                   struct pfl_segments_op **ret_op);
PFL_MUST_USE int pfl_segments_release(struct pfl_segments *self,
                                      const struct pfl_segments_request *ask,
                                      struct pfl_segments_op **ret_op);
/* `done` will not be called. */
void pfl_segments_cancel(struct pfl_segments_op *op);

/* NULL: of any orderer, any order. */
void pfl_segments_sum(const struct pfl_segments *self, const char *orderer, const char *order,
                      struct pfl_segment_sums *ret_sums);

struct pfl_segments_figures {
    struct pfl_segment_sums sums;
    uint64_t gaps;  /* in the folder */
    uint64_t taken; /* since the start: segments */
    uint64_t taken_bytes;
    uint64_t released;
    uint64_t removed; /* by a quota, unread */
    uint64_t removed_bytes;
    uint64_t runs;
    bool has_room;
};
void pfl_segments_get_figures(const struct pfl_segments *self,
                              struct pfl_segments_figures *ret_figures);

#endif
