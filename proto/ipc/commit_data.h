/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a serialized CommitDataRequest in place (docs/abi/smb.md section 4): no allocation, no
 * copy. The whole request is checked first, so that malformed bytes have no effect; then come all
 * moves, then all patches. Values are the producer's: untrusted.
 */
#ifndef PFL_PROTO_IPC_COMMIT_DATA_H
#define PFL_PROTO_IPC_COMMIT_DATA_H

#include "base/bytes.h"
#include "base/err.h"

struct pfl_commit_data_move {
    uint32_t page_untrusted;
    uint32_t chunk_untrusted;
    uint32_t target_buffer_untrusted;
    bool has_data;        /* the message contains the chunk: no shared memory */
    bool is_incomplete;   /* chunk_incomplete; ignored without data */
    struct pfl_span data; /* borrowed from the request */
};

struct pfl_commit_data_patch {
    uint32_t offset_untrusted;
    struct pfl_span data; /* borrowed from the request; legal when 4 bytes long */
};

struct pfl_commit_data_patch_list {
    uint32_t target_buffer_untrusted;
    uint32_t writer_id_untrusted;
    uint32_t chunk_id_untrusted;
    bool has_more_patches;
    size_t patches_len;       /* how many patches pfl_commit_data_next_patch will return */
    struct pfl_reader fields; /* its position */
};

/* Members may be NULL. What is passed is borrowed until return. */
struct pfl_commit_data_visitor {
    void (*on_move)(void *user, const struct pfl_commit_data_move *move);
    void (*on_patches)(void *user, struct pfl_commit_data_patch_list *list);
    /* Called before a move with the one that follows it, if known, so that its memory can be
     * prefetched. */
    void (*on_move_ahead)(void *user, const struct pfl_commit_data_move *move);
    /* Called from time to time. False: the rest is for a later call. NULL: always true. */
    bool (*may_continue)(void *user);
    /* Did the last entry take long? Then `may_continue` is asked at once. NULL: never. */
    bool (*was_long)(void *user);
    void *user;
};

enum pfl_commit_data_part {
    PFL_COMMIT_DATA_START,
    PFL_COMMIT_DATA_MOVES,
    PFL_COMMIT_DATA_LISTS,
};

/* How far a request was read. Zero-initialized: not at all. */
struct pfl_commit_data_position {
    enum pfl_commit_data_part part;
    size_t offset; /* of the part's next field */
    size_t skip;   /* its entries from there on that were read */
    uint32_t entries;
    uint64_t flush_request_id;
};

/*
 * Reads from the position on, which is zeroed at the end or after a failure.
 * `ret_flush_request_id` is 0 when the request has none. PFL_EPARSE: nothing was called.
 * PFL_EAGAIN: `may_continue` was false; call again with the same bytes.
 */
PFL_MUST_USE int pfl_commit_data_continue(struct pfl_span request,
                                          const struct pfl_commit_data_visitor *visitor,
                                          struct pfl_commit_data_position *at,
                                          uint64_t *ret_flush_request_id);
/* All of it at once. */
PFL_MUST_USE int pfl_commit_data_read(struct pfl_span request,
                                      const struct pfl_commit_data_visitor *visitor,
                                      uint64_t *ret_flush_request_id);

/* The next patch of a list; false after the last. */
bool pfl_commit_data_next_patch(struct pfl_commit_data_patch_list *list,
                                struct pfl_commit_data_patch *ret_patch);

#endif
