/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stream's ring has no room for, in order: a queue of bytes in its owner's memory and behind
 * that in an unnamed file, written and read by the loop's threads. Nobody else can open that file.
 *
 *     peek, use <-- front (a copy) <-- file <-- ring (the owner's) <-- write
 *
 * It may outlive its process, when somebody keeps the ring's memory, the file's descriptor and the
 * last state that was noted: these three always give what was written and not used at that note, so
 * that a death may come between any two instructions. For that nothing that the last note needs is
 * touched: neither is the ring's memory used again, nor are the file's blocks given back.
 */
#ifndef PFL_AGENT_SPOOL_PORT_H
#define PFL_AGENT_SPOOL_PORT_H

#include <stdbool.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/shares.h"

/* What one job of a thread reads or writes. */
#define PFL_SPOOL_JOB_BYTES (256u * 1024)
/* What may come, at once or not, before the owner looks whether it is full: what waits to be
 * encoded, with a read of the service. */
#define PFL_SPOOL_WRITE_BYTES (672u * 1024)
/* The least that a ring may be: what a thread writes into the file, and as much behind it. */
#define PFL_SPOOL_RING_BYTES (2048u * 1024)

struct pfl_spool;

/* What all streams of an agent share. Shared by reference: outlives them. */
struct pfl_spool_pool {
    const char *dir;                /* borrowed; NULL: no files */
    uint64_t used_bytes;            /* memory of all streams */
    uint64_t max_bytes;             /* above it each stream keeps one window only */
    uint64_t disk_used_bytes;       /* of all files */
    uint64_t disk_max_bytes;        /* files grow to this together */
    uint64_t disk_max_stream_bytes; /* and each of them to this */
    struct pfl_shares used_by;      /* of used_bytes, by operator; its max bounds nothing */
    struct pfl_shares disk_used_by; /* the same of disk_used_bytes */
    uint64_t gone_sent_bytes;       /* of streams that are gone: what each had sent, */
    uint64_t gone_resumes;          /* and how often it was resumed; of those that were taken back,
                                       less what they had before (modulo 2^64) */
    uint64_t expired;               /* streams that nobody came back for, */
    uint64_t broken;                /* whose spool failed, */
    uint64_t full;                  /* whose spool was full once */
};

/* An operator may have as much as he leaves for others: base/shares.h. `who` 0: all there is. */
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

/* What one stream or file has of a total, `*counted` so far, becomes `bytes`. */
static inline void pfl_spool_pool_count(uint64_t *total, struct pfl_shares *by, uint64_t who,
                                        uint64_t *counted, uint64_t bytes)
{
    *total += bytes - *counted; /* modulo 2^64 */
    by->max = INT64_MAX;
    if (!pfl_shares_set(by, who, counted, bytes))
        *counted = bytes; /* cannot be */
}

/* A stream is gone: its memory is, and what it did is kept. */
static inline void pfl_spool_pool_leave(struct pfl_spool_pool *self, uint64_t who,
                                        uint64_t *counted_bytes, uint64_t sent_bytes, unsigned legs)
{
    pfl_spool_pool_count(&self->used_bytes, &self->used_by, who, counted_bytes, 0);
    self->gone_sent_bytes += sent_bytes;
    self->gone_resumes += legs != 0 ? legs - 1 : 0;
}

/* Whether files can be made there: tried once, at the start. PFL_EIO; errno tells more. */
PFL_MUST_USE int pfl_spool_pool_try(const struct pfl_spool_pool *pool);

struct pfl_spool_conf {
    uv_loop_t *loop;
    struct pfl_spool_pool *pool;
    uint64_t who;      /* the operator, as in base/shares.h; 0: he is not bound by a share */
    uint8_t *ring;     /* borrowed until the on_idle of pfl_spool_close */
    size_t ring_bytes; /* a power of two, at least PFL_SPOOL_RING_BYTES */
    /* From the loop: there may be bytes to peek, or room, or the spool is broken. */
    void (*on_change)(void *user);
    /* A file was made, before anything is in it; borrowed until pfl_spool_close. From within write,
     * use and retry, too. NULL: nobody wants to know. */
    void (*on_file)(void *user, int fd);
    void *user;
};

/* Where everything is: positions in what was written, but each pair may begin anew at 0 while it is
 * empty. Byte n of the ring is ring[n % ring_bytes]; byte n of the file is at n. The file's come
 * first. */
struct pfl_spool_state {
    uint64_t ring_begin;
    uint64_t ring_end;
    uint64_t file_begin;
    uint64_t file_end;
};

PFL_MUST_USE int pfl_spool_new(const struct pfl_spool_conf *conf, struct pfl_spool **ret_spool);
/*
 * The spool of a process that died: `state` is the last that it published, conf->ring has the bytes
 * it had then. `fd` is its file, or -1 when there was none: taken over on success. Begins with
 * pfl_spool_retry. PFL_EPARSE: these do not belong together; PFL_EIO; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_spool_restore(const struct pfl_spool_conf *conf, int fd,
                                   const struct pfl_spool_state *state,
                                   struct pfl_spool **ret_spool);
/*
 * Where everything is now. To be called after each write and use, and in each on_change; and
 * published before anything else of the spool is called, and before going back to the loop: that it
 * was is taken for granted then. What was used becomes room only by it.
 * ring_begin == ring_end: nothing is in the ring's memory; once that is published, its pages may be
 * given back, until the next write.
 */
void pfl_spool_note(struct pfl_spool *self, struct pfl_spool_state *ret_state);
/* Calls nobody any more but on_idle, once no thread reads the ring, perhaps before this returns
 * (NULL: nobody wants to know); frees itself when its thread is done. NULL is legal. */
void pfl_spool_close(struct pfl_spool *self, void (*on_idle)(void *user), void *user);

/* At most PFL_SPOOL_WRITE_BYTES, while it is not full. PFL_ELIMIT: nothing was taken. */
PFL_MUST_USE int pfl_spool_write(struct pfl_spool *self, struct pfl_span data);
/* Bytes that are at hand, at most `max`; the ring's end cuts. Borrowed until the next call. Empty
 * does not say that there are none: on_change says when they are. */
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
/* What is read from the file counts as memory. */
size_t pfl_spool_memory_bytes(const struct pfl_spool *self);
uint64_t pfl_spool_file_bytes(const struct pfl_spool *self);

static inline bool pfl_spool_is_empty(const struct pfl_spool *self)
{
    return pfl_spool_memory_bytes(self) == 0 && pfl_spool_file_bytes(self) == 0;
}

#endif
