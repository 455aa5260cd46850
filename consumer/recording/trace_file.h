/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace file, written behind the loop's back: whole packets go into chunks, chunks go to disk
 * one after the other on libuv's thread pool. Bounded: past the high-water mark is_congested says
 * so, and the owner stops reading until on_writable.
 *
 * The file is valid at every moment up to the last whole packet that reached it. It is written
 * beside its path, as PATH.partial, and takes the path when it is complete and on the disk; what is
 * no regular file (a pipe, a device) is written directly.
 */
#ifndef PFL_CONSUMER_TRACE_FILE_H
#define PFL_CONSUMER_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

#define PFL_TRACE_FILE_HIGH_BYTES (16u * 1024 * 1024)
#define PFL_TRACE_FILE_LOW_BYTES  (4u * 1024 * 1024)

struct pfl_trace_file;

struct pfl_trace_file_conf {
    uv_loop_t *loop;
    const char *path;   /* "-" is standard output; borrowed until open returns */
    bool no_clobber;    /* a file that is there already is an error (EEXIST) */
    size_t chunk_bytes; /* 0: 1 MiB */
    /* The backlog fell to the low-water mark. */
    void (*on_writable)(void *user);
    /* Once, from the loop: writing failed (`err` is an errno value); everything given from then on
     * is dropped. The file has been cut to its last whole packet. */
    void (*on_failed)(void *user, int err);
    void *user;
};

/* How a file ended. */
struct pfl_trace_file_end {
    int err;                /* 0, or the errno of the first failure */
    uint64_t written_bytes; /* its length */
    const char *partial;    /* borrowed: what is left beside the path; NULL: nothing */
};

/* A path beside which nothing is written: written directly, and not replaced. */
bool pfl_trace_file_is_direct(const char *path);
/*
 * Creates PATH.partial, or replaces one that an earlier run left. On PFL_EIO errno says why: EBUSY:
 * another process writes there now; ESTALE: what is at PATH.partial is no such file of ours; ELOOP:
 * the path is a link of another user's in a folder where everybody makes files. PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_trace_file_open(const struct pfl_trace_file_conf *conf,
                                     struct pfl_trace_file **ret_file);
/* Room for one packet; see struct pfl_merge_sink. PFL_ENOMEM, PFL_EIO after a failure. */
PFL_MUST_USE int pfl_trace_file_reserve(struct pfl_trace_file *self, size_t len,
                                        uint8_t **ret_room);
void pfl_trace_file_commit(struct pfl_trace_file *self, size_t len);
/* What was committed goes to the disk now, and not when a chunk is full. */
void pfl_trace_file_push(struct pfl_trace_file *self);
bool pfl_trace_file_is_congested(const struct pfl_trace_file *self);
/* Bytes that are in the file. */
uint64_t pfl_trace_file_get_written(const struct pfl_trace_file *self);
/* It is not under its name any more: somebody removed it, or its folder. */
bool pfl_trace_file_is_gone(const struct pfl_trace_file *self);
/* Those, and what is on its way there. */
uint64_t pfl_trace_file_get_size(const struct pfl_trace_file *self);
/* How much the disk has left for it, and (may be NULL) how large it is; UINT64_MAX: unknown. */
uint64_t pfl_trace_file_get_room(const struct pfl_trace_file *self, uint64_t *ret_disk_bytes);
/*
 * Writes what is left, syncs, closes and gives the file its path, then calls on_closed and frees.
 * Once. on_failed does not come any more. A file that is not wanted is removed, what was at the
 * path stays; so it does after a failure, but then the partial file is kept, if something is in it.
 */
void pfl_trace_file_close(struct pfl_trace_file *self, bool is_wanted,
                          void (*on_closed)(void *user, const struct pfl_trace_file_end *end));

#endif
