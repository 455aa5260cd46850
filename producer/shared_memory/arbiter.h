/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One shared memory buffer and its pending messages to the service: chunks for writers, finished
 * chunks and patches for the next commit, writer ids.
 *
 * Any thread; a chunk is found without a lock, a finished one takes the lock for a few
 * instructions. Lives as long as there is a reference, so that a writer may continue when the
 * connection is lost: the arbiter is then dead, returns no chunks and forwards nothing.
 */
#ifndef PFL_PRODUCER_ARBITER_H
#define PFL_PRODUCER_ARBITER_H

#include <pthread.h>
#include <stdatomic.h>

#include "abi/ids.h"
#include "abi/state.h"
#include "base/err.h"
#include "producer/perfleet.h"
#include "producer/shared_memory/reservation.h"
#include "producer/shared_memory/search.h"

#define PFL_ARBITER_PATCHES_MAX 65536u
#define PFL_ARBITER_STALLS_MAX  300u

struct pfl_arbiter_move {
    uint32_t page;
    uint32_t chunk;
    uint32_t buffer;
};

struct pfl_arbiter_patch {
    uint32_t chunk_id;
    uint16_t writer_id;
    uint32_t buffer;
    uint32_t offset; /* from the first payload byte */
    uint8_t data[4];
    bool has_more; /* more patches of this chunk will follow */
};

/* A writer that was opened (buffer set) or closed. */
struct pfl_arbiter_writer_op {
    uint16_t writer_id;
    uint32_t buffer;
    bool is_closed;
};

#define PFL_ARBITER_LIST(type)                                                                     \
    struct {                                                                                       \
        struct type *items; /* owned */                                                            \
        size_t len;                                                                                \
        size_t cap;                                                                                \
    }

/* The content of one commit. Order on the wire: opened writers, moves, patches, flush, closed
 * ones. */
struct pfl_arbiter_batch {
    PFL_ARBITER_LIST(pfl_arbiter_move) moves;
    PFL_ARBITER_LIST(pfl_arbiter_patch) patches;
    PFL_ARBITER_LIST(pfl_arbiter_writer_op) writers;
    uint64_t flush_id; /* 0: none */
};

enum pfl_arbiter_due {
    PFL_ARBITER_NOTHING,
    PFL_ARBITER_LATER, /* with the next batch */
    PFL_ARBITER_NOW,
};

struct pfl_arbiter_conf {
    void *base; /* mapped shared; given: unmapped with the last reference */
    size_t smb_bytes;
    uint32_t page_bytes; /* pfl_limits_is_layout holds */
    int wake_fd;         /* eventfd, borrowed until pfl_arbiter_kill; -1: none */
    int connection_fd;   /* the connection, borrowed likewise: closed in the child of a fork */
    /* Called when a writer on the commit thread finds no chunk: commits pending entries at once.
     * False: the connection is lost. May be NULL. */
    bool (*commit_now)(void *user);
    /* Called on any other thread, with send_lock, when enough is pending: commits it, without
     * waiting. False: not possible now, the commit thread must do it. May be NULL. */
    bool (*commit_here)(void *user);
    void *user;
};

struct pfl_arbiter {
    struct pfl_smb smb;
    size_t smb_bytes;
    _Atomic(uint32_t) refs;
    _Atomic(uint32_t) is_dead;
    struct pfl_search search;
    bool (*commit_now)(void *user);
    bool (*commit_here)(void *user);
    void *user;
    pthread_t commit_thread;             /* the connection's own */
    struct pfl_arbiter *next_in_process; /* the process's list, for fork */
    pthread_mutex_t send_lock; /* held while a batch is taken and sent; taken before `lock` */
    bool is_online;            /* guarded by send_lock */

    pthread_mutex_t lock; /* guards all that follows */
    struct pfl_arbiter_batch pending;
    struct pfl_arbiter_batch held; /* for buffers that are only reserved */
    struct pfl_reservations reservations;
    size_t pending_bytes;
    int wake_fd;
    int connection_fd; /* read in the child of a fork without the lock */
    enum pfl_arbiter_due due;
    bool is_timed; /* the commit thread's timer runs: non-urgent entries need not wake it */
    uint64_t patches_lost;
    uint16_t last_writer_id;
    uint32_t writers_live;
    uint32_t is_writer_live[(PFL_WRITER_ID_MAX + 1) / 32];
};

/* A writer's request. */
struct pfl_arbiter_want {
    uint32_t buffer; /* an unresolved reservation: drop is the only policy */
    uint16_t writer_id;
    uint16_t packets; /* the header's packets word */
    uint32_t chunk_id;
    enum perfleet_policy policy;
    uint64_t *stalls; /* counts sleeps */
};

/* The calling thread becomes the commit thread. PFL_ENOMEM (the mapping stays the caller's). */
PFL_MUST_USE int pfl_arbiter_new(const struct pfl_arbiter_conf *conf, struct pfl_arbiter **ret);
void pfl_arbiter_ref(struct pfl_arbiter *self);
void pfl_arbiter_unref(struct pfl_arbiter *self);
/* The connection is lost: wakes nobody any more, stalled writers fail. */
void pfl_arbiter_kill(struct pfl_arbiter *self);

/* PFL_ELIMIT (all ids live), PFL_ENOMEM, PFL_ECLOSED (dead). */
PFL_MUST_USE int pfl_arbiter_open_writer(struct pfl_arbiter *self, uint32_t buffer,
                                         uint16_t *ret_writer_id);
void pfl_arbiter_close_writer(struct pfl_arbiter *self, uint16_t writer_id, uint32_t buffer);

/* A placeholder for a buffer id; 0: all are used. Entries with it are held back until it is
 * resolved. */
uint32_t pfl_arbiter_reserve(struct pfl_arbiter *self);
/* Returns the last reservation if nothing has used it. */
void pfl_arbiter_unreserve(struct pfl_arbiter *self, uint32_t reservation);
/* Resolves it to a buffer id, or to 0: then the service frees the chunks. */
void pfl_arbiter_resolve(struct pfl_arbiter *self, uint32_t reservation, uint32_t buffer);
/* The calling thread becomes the commit thread, before there are writers. */
void pfl_arbiter_set_commit_thread(struct pfl_arbiter *self);
/* Whether commits can be sent, and the connection that the child of a fork must close. Initially
 * online if the conf has a connection. */
void pfl_arbiter_set_online(struct pfl_arbiter *self, bool is_online, int connection_fd);

/* False: no memory within the limits of the policy. */
bool pfl_arbiter_get_chunk(struct pfl_arbiter *self, const struct pfl_arbiter_want *want,
                           struct pfl_arbiter_chunk *ret_chunk);
/* Marks the chunk complete and lists it for the next commit; chunk->header becomes NULL. */
void pfl_arbiter_give_chunk(struct pfl_arbiter *self, struct pfl_arbiter_chunk *chunk,
                            uint32_t buffer);
void pfl_arbiter_add_patch(struct pfl_arbiter *self, const struct pfl_arbiter_patch *patch);
/* Acknowledges flushes up to flush_id with the next commit. */
void pfl_arbiter_ack_flush(struct pfl_arbiter *self, uint64_t flush_id);

/* Commit thread: is there anything to commit, and how urgent is it? */
enum pfl_arbiter_due pfl_arbiter_get_due(struct pfl_arbiter *self);
/* Commit thread: its timer runs (non-urgent entries need not wake it), or no longer. */
void pfl_arbiter_set_timed(struct pfl_arbiter *self, bool is_timed);
/* With send_lock: exchanges the pending batch for `batch`, which must be empty. */
void pfl_arbiter_take(struct pfl_arbiter *self, struct pfl_arbiter_batch *batch);
/* Commit thread, memory that is not shared: frees the chunks of these moves, which were sent. */
void pfl_arbiter_free_moved(struct pfl_arbiter *self, const struct pfl_arbiter_batch *batch,
                            size_t first, size_t end);
void pfl_arbiter_batch_clear(struct pfl_arbiter_batch *batch);
void pfl_arbiter_batch_fini(struct pfl_arbiter_batch *batch);

/* In the child of a fork: replaces every mapped SMB of the process by private memory, and closes
 * the connections, so that the service sees the end of the parent and not of the child. The list
 * is locked around the fork by the two others. */
void pfl_arbiter_list_lock(void);
void pfl_arbiter_list_unlock(void);
void pfl_arbiter_detach_all(void);

#endif
