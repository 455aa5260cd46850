/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream's ring has no room for, in order: a queue of bytes whose middle is an unnamed file,
 * written and read by the loop's threads. Nobody else can open that file, and it is gone with the
 * process.
 *
 *     peek, use <-- front (memory) <-- file <-- back (memory) <-- write
 */
#ifndef PFL_AGENT_SPOOL_PORT_H
#define PFL_AGENT_SPOOL_PORT_H

#include <stdbool.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"

/* What one job of a thread reads or writes. */
#define PFL_SPOOL_JOB_BYTES (256u * 1024)
/* What one write may bring: a read of the service, encoded. */
#define PFL_SPOOL_WRITE_BYTES (512u * 1024)

struct pfl_spool;

/* What all streams of an agent share. Shared by reference: outlives them. */
struct pfl_spool_pool {
    const char *dir;                /* borrowed; NULL: no files */
    uint64_t used_bytes;            /* memory of all streams */
    uint64_t max_bytes;             /* above it each stream keeps one window only */
    uint64_t disk_used_bytes;       /* of all files */
    uint64_t disk_max_bytes;        /* files grow to this together */
    uint64_t disk_max_stream_bytes; /* and each of them to this */
    uint64_t gone_sent_bytes;       /* of streams that are gone: what each had sent, */
    uint64_t gone_resumes;          /* and how often it was resumed */
    uint64_t expired;               /* streams that nobody came back for, */
    uint64_t broken;                /* whose spool failed, */
    uint64_t full;                  /* whose spool was full once */
};

/* A stream is gone: its memory is, and what it did is kept. */
static inline void pfl_spool_pool_leave(struct pfl_spool_pool *self, uint64_t counted_bytes,
                                        uint64_t sent_bytes, unsigned legs)
{
    self->used_bytes -= counted_bytes;
    self->gone_sent_bytes += sent_bytes;
    self->gone_resumes += legs != 0 ? legs - 1 : 0;
}

/* Whether files can be made there: tried once, at the start. PFL_EIO; errno tells more. */
PFL_MUST_USE int pfl_spool_pool_try(const struct pfl_spool_pool *pool);

struct pfl_spool_conf {
    uv_loop_t *loop;
    struct pfl_spool_pool *pool;
    /* From the loop: there may be bytes to peek, or room, or the spool is broken. */
    void (*on_change)(void *user);
    void *user;
};

PFL_MUST_USE int pfl_spool_new(const struct pfl_spool_conf *conf, struct pfl_spool **ret_spool);
/* Calls nobody any more; frees itself when its thread is done. NULL is legal. */
void pfl_spool_close(struct pfl_spool *self);

/* At most PFL_SPOOL_WRITE_BYTES, while it is not full. PFL_ENOMEM, PFL_ELIMIT: nothing was taken.
 */
PFL_MUST_USE int pfl_spool_write(struct pfl_spool *self, struct pfl_span data);
/* Bytes that are at hand, at most `max`. Borrowed until the next call. Empty does not say that
 * there are none: on_change says when they are. */
struct pfl_span pfl_spool_peek(struct pfl_spool *self, size_t max);
void pfl_spool_use(struct pfl_spool *self, size_t len);

/* Other streams' files gave room back: a write that was put off is tried again. */
void pfl_spool_retry(struct pfl_spool *self);
/* Nothing may be written now: on_change says when. */
bool pfl_spool_is_full(const struct pfl_spool *self);
/* A thread is at work: on_change follows. */
bool pfl_spool_is_busy(const struct pfl_spool *self);
/* Bytes were lost: the file cannot be read. */
bool pfl_spool_is_broken(const struct pfl_spool *self);
size_t pfl_spool_memory_bytes(const struct pfl_spool *self);
uint64_t pfl_spool_file_bytes(const struct pfl_spool *self);

static inline bool pfl_spool_is_empty(const struct pfl_spool *self)
{
    return pfl_spool_memory_bytes(self) == 0 && pfl_spool_file_bytes(self) == 0;
}

#endif
