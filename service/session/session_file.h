/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that writes into a file itself (TraceConfig.write_into_file): passes over its buffers,
 * every period and once more at the end. A core: the disk is behind pfl_disk_ops.
 */
#ifndef PFL_SERVICE_SESSION_FILE_H
#define PFL_SERVICE_SESSION_FILE_H

#include "service/core/disk.h"
#include "service/session/rotation.h"
#include "service/session/session_read.h"

#define PFL_SESSION_FILE_BATCH_BYTES (1u << 20)
#define PFL_SESSION_FILE_PACKET_MAX  (1u << 29) /* bytes kept in memory for the disk */

struct pfl_session_file {
    struct pfl_service *service;   /* borrowed */
    struct pfl_session *session;   /* borrowed: it owns this file */
    struct pfl_disk_file *disk;    /* owned; NULL: closed */
    struct pfl_session_read read;  /* the pass that runs */
    struct pfl_buf out;            /* owned: what the next job writes */
    uint64_t written_bytes;        /* by jobs that are done */
    uint64_t next_write_ms;        /* PFL_SESSION_NEVER: not by time */
    struct pfl_rotation *rotation; /* owned; NULL: one file */
    bool is_reading;               /* a pass runs */
    bool has_job;                  /* the disk works */
    bool wants_pass;
    bool wants_cut;   /* the pass that is wanted begins the next segment */
    bool is_cut_over; /* the job under way ends the old one */
    bool is_final;    /* the pass that is wanted is the last */
    bool is_failed;   /* and over: the log said so */
    bool is_broken;   /* by the disk: what is open is closed and nothing more written */
    bool is_over;     /* nothing more is written: full, failed, or the last pass is done */
    bool is_ending;   /* the job under way closes the file */
    bool is_orphan;   /* the session is out of the service: freed when the file is closed */
    bool is_copy;     /* of another session's: its clone is answered when the file is closed */
};

/* Takes `fd`, or creates plan->file.path when it is -1, which `ret_why` then explains. PFL_EINVAL,
 * PFL_ENOMEM; `fd` is then still the caller's. */
PFL_MUST_USE int pfl_session_file_open(struct pfl_service *service, struct pfl_session *session,
                                       int fd, char ret_why[PFL_PLAN_WHY_BYTES]);
/* No job may be under way. NULL is legal. */
void pfl_session_file_free(struct pfl_session_file *self);
/* Is it still written? False for NULL. */
bool pfl_session_file_is_open(const struct pfl_session_file *self);

/* Is there nothing between its buffers and its file: neither a pass nor a job? */
bool pfl_session_file_is_idle(const struct pfl_session_file *self);
/*
 * A clone's file: what `source`, which is idle, has written so far, and then what the clone's
 * buffers have. Takes `fd` and begins; pfl_session_on_file_closed as ever. PFL_EIO: the source
 * cannot be read; PFL_ENOMEM; `fd` is then still the caller's.
 */
PFL_MUST_USE int pfl_session_file_copy(struct pfl_service *service, struct pfl_session *clone,
                                       const struct pfl_session_file *source, int fd);

/* The session starts: the first period begins. */
void pfl_session_file_start(struct pfl_session_file *self);
/* The period is over: flushes first where the plan says so, then writes. */
void pfl_session_file_run(struct pfl_session_file *self);
/* A pass, now or when the one that runs is over. */
void pfl_session_file_write(struct pfl_session_file *self);
/* The producers have flushed for the next segment. */
void pfl_session_file_cut(struct pfl_session_file *self);
/* The session is DISABLED: the last pass, with statistics; then the file is closed and
 * pfl_session_on_file_closed is called, never from within. */
void pfl_session_file_finish(struct pfl_session_file *self);
/* A pass that waited for packets may go on. */
void pfl_session_file_resume(struct pfl_session_file *self);

#endif
