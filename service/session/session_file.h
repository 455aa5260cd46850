/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that writes into a file itself (TraceConfig.write_into_file): passes over its buffers,
 * every period and once at the end. A core: the disk is behind pfl_disk_ops.
 */
#ifndef PFL_SERVICE_SESSION_FILE_H
#define PFL_SERVICE_SESSION_FILE_H

#include "service/core/disk.h"
#include "service/session/rotation.h"
#include "service/session/session_read.h"

#define PFL_SESSION_FILE_BATCH_BYTES (1u << 20)
#define PFL_SESSION_FILE_PACKET_MAX  (1u << 29) /* bytes kept in memory for the disk */

enum pfl_session_file_job {
    PFL_SESSION_FILE_NO_JOB,
    PFL_SESSION_FILE_WRITE,
    PFL_SESSION_FILE_END_SEGMENT, /* and writes what is left of it */
    PFL_SESSION_FILE_CLOSE,       /* likewise of the file */
};

/* A cut begins between two passes. Where packets are compressed, a pass comes before each cut: its
 * packets can be. */
enum pfl_session_file_drain {
    PFL_SESSION_FILE_NO_DRAIN,
    PFL_SESSION_FILE_WANTS_DRAIN, /* the next pass is that one */
    PFL_SESSION_FILE_DRAINING,    /* the pass that runs is that one */
    PFL_SESSION_FILE_DRAINED,     /* the producers are asked for the cut */
};

enum pfl_session_file_trouble {
    PFL_SESSION_FILE_WELL,
    PFL_SESSION_FILE_FAILED, /* the file is full, or there is no memory; logged */
    PFL_SESSION_FILE_BROKEN, /* the disk failed: open files are closed, nothing more is written */
};

enum pfl_session_file_stage {
    PFL_SESSION_FILE_GOES_ON,
    PFL_SESSION_FILE_LAST_PASS, /* the next pass is the last, or it runs */
    PFL_SESSION_FILE_OVER,      /* nothing more is written: failed, or the last pass is done */
    PFL_SESSION_FILE_FULL,      /* likewise: it has max_file_size_bytes */
};

struct pfl_session_file {
    struct pfl_service *service;   /* borrowed */
    struct pfl_session *session;   /* borrowed: it owns this file */
    struct pfl_disk_file *disk;    /* owned; NULL: closed */
    struct pfl_session_read read;  /* the current pass */
    struct pfl_buf out;            /* owned: what the next job writes */
    uint64_t written_bytes;        /* by completed jobs */
    size_t long_left;              /* bytes to come of a packet that is appended in parts */
    struct pfl_buf *long_to;       /* borrowed: its buffer, `out` or the next segment's */
    uint64_t next_write_ms;        /* PFL_SESSION_NEVER: no period */
    struct pfl_rotation *rotation; /* owned; NULL: one file */
    enum pfl_session_file_job job; /* in progress */
    enum pfl_session_file_trouble trouble;
    enum pfl_session_file_drain drain;
    enum pfl_session_file_stage stage;
    bool is_reading; /* a pass runs */
    bool wants_pass;
    bool wants_cut; /* the producers have flushed for a cut: the next pass is its last */
    bool is_period; /* the pass of a write period: a cut may be due after it */
    bool is_orphan; /* the session left the service: freed when the file is closed */
    bool is_copy;   /* a clone's: its consumer is answered when the file is closed */
};

/* Takes `fd`, or, if it is -1, creates plan->file.path; `ret_why` explains a failure. PFL_EINVAL,
 * PFL_ENOMEM; `fd` is then still the caller's. */
PFL_MUST_USE int pfl_session_file_open(struct pfl_service *service, struct pfl_session *session,
                                       int fd, char ret_why[PFL_PLAN_WHY_BYTES]);
/* No job may be in progress. NULL is legal. */
void pfl_session_file_free(struct pfl_session_file *self);
/* False when everything is written and closed, and for NULL. */
bool pfl_session_file_is_open(const struct pfl_session_file *self);

/* True if no data is in transit to the file: neither a pass nor a job, nor a cut, during which one
 * file does not have all. */
bool pfl_session_file_is_idle(const struct pfl_session_file *self);
/*
 * Opens a clone's file: what `source`, which is idle, has written so far, followed by the clone's
 * buffers. Takes `fd` and begins; on_file_closed of the session follows as usual. PFL_EIO: the
 * source cannot be read; PFL_ENOMEM; `fd` is then still the caller's.
 */
PFL_MUST_USE int pfl_session_file_copy(struct pfl_service *service, struct pfl_session *clone,
                                       const struct pfl_session_file *source, int fd);

/* The session starts: the first period begins. */
void pfl_session_file_start(struct pfl_session_file *self);
/* The period is over: flushes first if the plan says so, then writes. */
void pfl_session_file_run(struct pfl_session_file *self);
/* Runs a pass, now or after the current one. */
void pfl_session_file_write(struct pfl_session_file *self);
/* The producers have flushed for the next segment. */
void pfl_session_file_cut(struct pfl_session_file *self);
/* The session is DISABLED: the last pass, with statistics; then the file is closed and
 * on_file_closed of the session is called, never from within. */
void pfl_session_file_finish(struct pfl_session_file *self);
/* A pass that waited for packets may continue. */
void pfl_session_file_resume(struct pfl_session_file *self);

#endif
