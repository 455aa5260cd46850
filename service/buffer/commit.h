/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies a CommitData request: copies chunks from shared memory (or from the message, for
 * producers without shared memory) into central buffers, then applies patches (docs/abi/smb.md 4,
 * 8). The request is read in place. A core: callbacks supply what the session knows.
 */
#ifndef PFL_SERVICE_COMMIT_H
#define PFL_SERVICE_COMMIT_H

#include "proto/ipc/commit_data.h"
#include "service/buffer/copy_area.h"
#include "service/buffer/smb_map.h"
#include "service/buffer/trace_buffer.h"

/* The producer that commits; stored with every chunk. */
struct pfl_commit_identity {
    uint16_t producer_id;
    uint32_t producer_serial; /* tells it from an earlier producer with this id */
    uint32_t uid;
    int64_t pid; /* -1 unknown */
    uint32_t machine_id;
    uint64_t who;                           /* the user who is charged: base/shares.h */
    struct pfl_trace_buffer_credit *credit; /* borrowed; NULL: none */
};

/* TraceStats of the whole service, and the number of entries that did not match the state of the
 * shared memory. */
struct pfl_commit_counters {
    uint64_t chunks_discarded;
    uint64_t patches_discarded;
    uint64_t entries_skipped;
    uint64_t chunks_stuck; /* could not be released: the producer changed the page meanwhile */
};

struct pfl_commit_conf {
    struct pfl_commit_identity identity;
    struct pfl_smb_map *map; /* borrowed; it may be empty if `next_copy` is set */
    bool is_emulated;        /* chunks come as `data`; `map` may be empty */
    /* The next chunk of the memory, which a copier took out, in the order of the moves. NULL, of
     * the function: they are taken out here. NULL: the rest is for a later call. */
    const struct pfl_copy_entry *(*next_copy)(void *user, const uint8_t **ret_payload);
    bool (*has_more_copies)(void *user);
    /* The buffer, if it exists and this producer may write to it and this writer is not registered
     * for another one; else NULL. */
    struct pfl_trace_buffer *(*get_allowed_buffer)(void *user, uint16_t buffer_id,
                                                   uint16_t writer_id);
    /* The buffer if it exists, permission or not. */
    struct pfl_trace_buffer *(*get_buffer)(void *user, uint16_t buffer_id);
    /* Asked from time to time. False: the rest is for a later call. NULL: always true. */
    bool (*may_continue)(void *user);
    void *user;
    struct pfl_commit_counters *counters; /* borrowed; incremented */
};

/*
 * Applies the serialized CommitDataRequest `args`: all moves in order, then all patches.
 * `ret_flush_request_id` is 0 if the request acknowledges no flush. PFL_ESTATE: no shared memory
 * was set up yet; the whole request is ignored (answer with a failure). PFL_EPARSE: malformed;
 * nothing was applied. PFL_EAGAIN: `may_continue` was false; call again with the same bytes and
 * position (zeroed at first, and at the end).
 */
PFL_MUST_USE int pfl_commit_apply(const struct pfl_commit_conf *conf, struct pfl_span args,
                                  struct pfl_commit_data_position *at,
                                  uint64_t *ret_flush_request_id);

#endif
