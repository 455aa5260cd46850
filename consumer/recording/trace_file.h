/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace file, written behind the loop's back: whole packets go into chunks, chunks go to disk
 * one after the other on libuv's thread pool. Bounded: past the high-water mark is_congested says
 * so, and the owner stops reading until on_writable.
 *
 * The file is valid at every moment up to the last whole packet that reached it.
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
    size_t chunk_bytes; /* 0: 1 MiB */
    /* The backlog fell to the low-water mark. */
    void (*on_writable)(void *user);
    /* Once, from the loop: writing failed (`err` is an errno value); everything given from then on
     * is dropped. The file has been cut to its last whole packet. */
    void (*on_failed)(void *user, int err);
    void *user;
};

/* Creates or truncates. On PFL_EIO errno says why. PFL_ENOMEM. */
PFL_MUST_USE int pfl_trace_file_open(const struct pfl_trace_file_conf *conf,
                                     struct pfl_trace_file **ret_file);
/* Room for one packet; see struct pfl_merge_sink. PFL_ENOMEM, PFL_EIO after a failure. */
PFL_MUST_USE int pfl_trace_file_reserve(struct pfl_trace_file *self, size_t len,
                                        uint8_t **ret_room);
void pfl_trace_file_commit(struct pfl_trace_file *self, size_t len);
bool pfl_trace_file_is_congested(const struct pfl_trace_file *self);
/* Bytes that are in the file. */
uint64_t pfl_trace_file_get_written(const struct pfl_trace_file *self);
/*
 * Writes what is left, closes, then calls on_closed (err: 0 or the errno of a failure then or
 * before; written_bytes: the length of the file) and frees. Once. on_failed does not come any more.
 */
void pfl_trace_file_close(struct pfl_trace_file *self,
                          void (*on_closed)(void *user, int err, uint64_t written_bytes));

#endif
