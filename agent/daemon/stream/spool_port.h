/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a stream that do not fit into its ring: an ordered queue in its owner's memory and then
 * in an unnamed file, written and read by a worker. No other process can open that file.
 *
 *     peek, use <-- front (a copy) <-- file <-- ring (the owner's) <-- write
 *
 * It may outlive its process if the ring's memory, the file's descriptor and the last noted state
 * are kept: these three always yield the bytes that were written and not used at that note, so that
 * the process may die between any two instructions. Therefore neither the ring's memory nor the
 * file's blocks that the last note refers to are reused or freed.
 */
#ifndef PFL_AGENT_SPOOL_PORT_H
#define PFL_AGENT_SPOOL_PORT_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/io/worker.h"
#include "base/shares.h"

/* Bytes that one job of a thread reads or writes. */
#define PFL_SPOOL_JOB_BYTES (256u * 1024)
/* Bytes that may be written before the owner checks whether it is full: those that wait to be
 * encoded, and one read of the service. */
#define PFL_SPOOL_WRITE_BYTES (672u * 1024)
/* Minimal size of a ring: what a thread writes into the file, and as much behind it. */
#define PFL_SPOOL_RING_BYTES (2048u * 1024)

struct pfl_spool;

/* What all streams of an agent share. Shared by reference: outlives them. */
struct pfl_spool_pool {
    const char *dir;           /* borrowed; NULL: no files */
    struct pfl_worker *worker; /* borrowed: its threads use the files; closed after the spools */
    uint64_t used_bytes;       /* memory of all streams */
    uint64_t max_bytes;        /* above it each stream keeps one window only */
    uint64_t disk_used_bytes;  /* of all files */
    uint64_t disk_max_bytes;   /* limit of all files together */
    uint64_t disk_max_stream_bytes; /* limit of each of them */
    struct pfl_shares used_by;      /* of used_bytes, by operator; its max is no limit */
    struct pfl_shares disk_used_by; /* the same of disk_used_bytes */
    uint64_t gone_sent_bytes;       /* of ended streams: the bytes sent, */
    uint64_t gone_resumes; /* the number of resumes (of restored streams without those before,
                              modulo 2^64), */
    uint64_t expired;      /* the number of streams that expired, */
    uint64_t broken;       /* whose spool failed, */
    uint64_t full;         /* and whose spool was ever full */
};

/* An operator may have as much as it leaves for others: base/shares.h. `who` 0: no share. */
static inline bool pfl_spool_pool_has_memory(const struct pfl_spool_pool *self, uint64_t who)
{
    return self->used_bytes <= self->max_bytes &&
           (who == 0 || pfl_shares_allow(self->max_bytes, self->used_bytes,
                                         pfl_shares_get(&self->used_by, who), 0));
}

static inline bool pfl_spool_pool_has_disk(const struct pfl_spool_pool *self, uint64_t who,
                                           uint64_t bytes)
{
    return self->disk_used_bytes + bytes <= self->disk_max_bytes &&
           (who == 0 || pfl_shares_allow(self->disk_max_bytes, self->disk_used_bytes,
                                         pfl_shares_get(&self->disk_used_by, who), bytes));
}

/* Changes one stream's or file's part of a total from `*counted` to `bytes`. */
static inline void pfl_spool_pool_count(uint64_t *total, struct pfl_shares *by, uint64_t who,
                                        uint64_t *counted, uint64_t bytes)
{
    *total += bytes - *counted; /* modulo 2^64 */
    by->max = INT64_MAX;
    if (!pfl_shares_set(by, who, counted, bytes))
        *counted = bytes; /* impossible */
}

/* A stream ended: its memory is released, and its counters are added. */
static inline void pfl_spool_pool_leave(struct pfl_spool_pool *self, uint64_t who,
                                        uint64_t *counted_bytes, uint64_t sent_bytes,
                                        unsigned h2_streams)
{
    pfl_spool_pool_count(&self->used_bytes, &self->used_by, who, counted_bytes, 0);
    self->gone_sent_bytes += sent_bytes;
    self->gone_resumes += h2_streams != 0 ? h2_streams - 1 : 0;
}

/* Whether files can be made there: tested once, at the start. PFL_EIO; see errno. */
PFL_MUST_USE int pfl_spool_pool_try(const struct pfl_spool_pool *pool);

struct pfl_spool_conf {
    struct pfl_spool_pool *pool;
    uint64_t who;      /* the operator, as in base/shares.h; 0: not bound by a share */
    uint8_t *ring;     /* borrowed until the on_idle of pfl_spool_close */
    size_t ring_bytes; /* a power of two, at least PFL_SPOOL_RING_BYTES */
    /* Called from the loop: there may be bytes to peek, or room, or the spool is broken. */
    void (*on_change)(void *user);
    /* A file was made, and is empty; borrowed until pfl_spool_close. Also called from within write,
     * use and retry. NULL: not needed. */
    void (*on_file)(void *user, int fd);
    void *user;
};

/* Positions of the queue's parts, counted in written bytes; each pair may restart at 0 while it is
 * empty. Byte n of the ring is ring[n % ring_bytes]; byte n of the file is at n. The file's bytes
 * come first. */
struct pfl_spool_state {
    uint64_t ring_begin;
    uint64_t ring_end;
    uint64_t file_begin;
    uint64_t file_end;
};

PFL_MUST_USE int pfl_spool_new(const struct pfl_spool_conf *conf, struct pfl_spool **ret_spool);
/*
 * Restores the spool of a process that died: `state` is the last that it published, conf->ring has
 * its bytes. `fd` is its file, or -1 if there was none: taken over on success. Call pfl_spool_retry
 * next. PFL_EPARSE: inconsistent; PFL_EIO; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_spool_restore(const struct pfl_spool_conf *conf, int fd,
                                   const struct pfl_spool_state *state,
                                   struct pfl_spool **ret_spool);
/*
 * The current positions. Call it after each write and use, and in each on_change, and publish the
 * result before any other call of the spool and before returning to the loop; the spool relies on
 * that. Only this frees the room of used bytes. ring_begin == ring_end: the ring is empty; once
 * that is published, its pages may be freed, until the next write.
 */
void pfl_spool_note(struct pfl_spool *self, struct pfl_spool_state *ret_state);
/* Makes no further callbacks except on_idle, once no thread reads the ring, perhaps before this
 * returns (NULL: not needed); frees itself when its thread is done. NULL is legal. */
void pfl_spool_close(struct pfl_spool *self, void (*on_idle)(void *user), void *user);

/* At most PFL_SPOOL_WRITE_BYTES, while it is not full. PFL_ELIMIT: nothing was taken. */
PFL_MUST_USE int pfl_spool_write(struct pfl_spool *self, struct pfl_span data);
/* The next bytes, at most `max`, cut at the ring's end. Borrowed until the next call. If empty,
 * there may be more later: on_change follows. */
struct pfl_span pfl_spool_peek(struct pfl_spool *self, size_t max);
void pfl_spool_use(struct pfl_spool *self, size_t len);

/* Other streams' files freed space: retries a deferred write. */
void pfl_spool_retry(struct pfl_spool *self);
/* True: do not write now; on_change follows. */
bool pfl_spool_is_full(const struct pfl_spool *self);
/* A thread is at work: on_change follows. */
bool pfl_spool_is_busy(const struct pfl_spool *self);
/* Bytes were lost: the file cannot be read. */
bool pfl_spool_is_broken(const struct pfl_spool *self);
/* Memory, including what was read from the file. */
size_t pfl_spool_memory_bytes(const struct pfl_spool *self);
uint64_t pfl_spool_file_bytes(const struct pfl_spool *self);

static inline bool pfl_spool_is_empty(const struct pfl_spool *self)
{
    return pfl_spool_memory_bytes(self) == 0 && pfl_spool_file_bytes(self) == 0;
}

#endif
