/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room of a disk for a file that is being written. A file that has no room at all is refused before
 * it begins; but only a piece is taken ahead of what was written: how long the file will be is a
 * host's word, and who does not write takes no room from others.
 */
#ifndef PFL_COLLECTOR_STORE_DISK_ROOM_H
#define PFL_COLLECTOR_STORE_DISK_ROOM_H

#include <stdint.h>

#define PFL_DISK_ROOM_PIECE_BYTES (UINT64_C(8) << 20)

struct pfl_disk_room {
    int fd;         /* borrowed */
    uint64_t bytes; /* of the whole file */
    uint64_t taken; /* bytes from its beginning */
};

/* Begins with a new and empty file. 0, or -1 with errno: ENOSPC, EDQUOT, EFBIG. */
int pfl_disk_room_begin(struct pfl_disk_room *self, int fd, uint64_t bytes);
/* Before the file has `end` bytes. The same. */
int pfl_disk_room_take(struct pfl_disk_room *self, uint64_t end);

#endif
