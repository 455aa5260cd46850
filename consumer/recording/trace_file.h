/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace file, written asynchronously: whole packets are collected in chunks, which a worker
 * writes one after the other. Bounded: past the high-water mark is_congested is true,
 * and the owner stops reading until on_writable.
 *
 * The file is valid at every moment up to the last whole packet that reached it. It is written as
 * PATH.partial, and renamed to its path when it is complete and on the disk; a pipe or a device is
 * written directly.
 */
#ifndef PFL_CONSUMER_TRACE_FILE_H
#define PFL_CONSUMER_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/io/worker.h"

#define PFL_TRACE_FILE_HIGH_BYTES (16u * 1024 * 1024)
#define PFL_TRACE_FILE_LOW_BYTES  (4u * 1024 * 1024)

struct pfl_trace_file;

struct pfl_trace_file_conf {
    struct pfl_worker *worker; /* borrowed until on_closed */
    const char *path;          /* "-" is standard output; borrowed until open returns */
    bool no_clobber;           /* an existing file is an error (EEXIST) */
    size_t chunk_bytes;        /* 0: 1 MiB */
    /* The backlog fell to the low-water mark. */
    void (*on_writable)(void *user);
    /* Once, from the loop: writing failed (`err` is an errno value); further packets are dropped.
     * The file has been truncated after its last whole packet. */
    void (*on_failed)(void *user, int err);
    void *user;
};

/* What becomes of a file at its end. */
enum pfl_trace_file_fate {
    PFL_TRACE_FILE_REMOVED = 0, /* the old one at the path stays */
    PFL_TRACE_FILE_PARTIAL,     /* it stays under that name, if not empty; so does the old one */
    PFL_TRACE_FILE_WHOLE,       /* it takes its path */
};

/* The result of a file. */
struct pfl_trace_file_end {
    int err;                /* 0, or the errno of the first failure */
    uint64_t written_bytes; /* its length */
    const char *partial;    /* borrowed: the remaining partial file; NULL: none */
};

/* A path without a partial file: written directly, and not replaced. */
bool pfl_trace_file_is_direct(const char *path);
/*
 * Creates PATH.partial, or replaces one that an earlier run left. On PFL_EIO errno has the reason:
 * EBUSY: another process is writing it; ESTALE: PATH.partial is not such a file of ours; ELOOP: the
 * path is another user's link in a world-writable folder. PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_trace_file_open(const struct pfl_trace_file_conf *conf,
                                     struct pfl_trace_file **ret_file);
/* Room for one packet; see struct pfl_merge_sink. PFL_ENOMEM, PFL_EIO after a failure. */
PFL_MUST_USE int pfl_trace_file_reserve(struct pfl_trace_file *self, size_t len,
                                        uint8_t **ret_room);
void pfl_trace_file_commit(struct pfl_trace_file *self, size_t len);
/* Writes committed packets to the disk now, instead of when a chunk is full. */
void pfl_trace_file_push(struct pfl_trace_file *self);
bool pfl_trace_file_is_congested(const struct pfl_trace_file *self);
/* Bytes that are in the file. */
uint64_t pfl_trace_file_get_written(const struct pfl_trace_file *self);
/* Its name is gone: it, or its folder, was removed. */
bool pfl_trace_file_is_gone(const struct pfl_trace_file *self);
/* Those, and queued ones. */
uint64_t pfl_trace_file_get_size(const struct pfl_trace_file *self);
/* Free bytes on its disk, and (may be NULL) the disk's size; UINT64_MAX: unknown. */
uint64_t pfl_trace_file_get_room(const struct pfl_trace_file *self, uint64_t *ret_disk_bytes);
/*
 * Writes the rest, syncs, closes the file and gives it its fate, then calls on_closed and frees.
 * Once. on_failed is not called any more. After a failure a whole file stays partial.
 */
void pfl_trace_file_close(struct pfl_trace_file *self, enum pfl_trace_file_fate fate,
                          void (*on_closed)(void *user, const struct pfl_trace_file_end *end));

#endif
