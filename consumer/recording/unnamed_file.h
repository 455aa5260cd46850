/* SPDX-License-Identifier: Apache-2.0 */
/* A file for a page's trace: without a name, of mode 0600, in TMPDIR or /var/tmp. */
#ifndef PFL_CONSUMER_UNNAMED_FILE_H
#define PFL_CONSUMER_UNNAMED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What stays free of a disk: one part in so many, at most so much. */
#define PFL_UNNAMED_FILE_KEEP_FREE_SHARE     20u
#define PFL_UNNAMED_FILE_KEEP_FREE_MAX_BYTES (1ull << 30)

struct pfl_unnamed_file {
    int fd;           /* owned; -1: none */
    char folder[256]; /* in which its bytes are */
    char path[32];    /* by which this process can open it */
};

/* False: `ret_why` (room for why_len) has the reason and the remedy. */
bool pfl_unnamed_file_open(struct pfl_unnamed_file *self, char *ret_why, size_t why_len);
static inline uint64_t pfl_unnamed_file_keep_free(uint64_t disk_bytes)
{
    uint64_t share = disk_bytes / PFL_UNNAMED_FILE_KEEP_FREE_SHARE;

    return share < PFL_UNNAMED_FILE_KEEP_FREE_MAX_BYTES ? share
                                                        : PFL_UNNAMED_FILE_KEEP_FREE_MAX_BYTES;
}

/* May another process continue to write it? False: it has more than max_bytes, or the disk has less
 * than is to stay free; `ret_why` has the sentence. */
bool pfl_unnamed_file_has_room(const struct pfl_unnamed_file *self, uint64_t max_bytes,
                               char *ret_why, size_t why_len);
/* Gives the descriptor to the caller. */
int pfl_unnamed_file_take(struct pfl_unnamed_file *self);
/* Idempotent; its bytes go when nobody has it open. */
void pfl_unnamed_file_close(struct pfl_unnamed_file *self);

#endif
