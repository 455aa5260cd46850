/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room of a disk: see disk_room.h. Happy path: the file system tells that there is enough for all;
 * pieces are taken as the file grows. Failures: the disk is full, or a quota; a file system that
 * cannot take room ahead is no failure. Owns nothing. Limits: PFL_DISK_ROOM_PIECE_BYTES ahead; the
 * last part of the disk is the index's: without room it can note no deletion.
 */
#include "collector/store/disk_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>

#define LEFT_BYTES (64u << 20) /* of the disk for others, and no more than its LEFT_PART */
#define LEFT_PART  16u

/* fallocate of more than there is takes all of it before it fails, and others have none meanwhile.
 */
static int check(int fd, uint64_t bytes)
{
    struct statvfs fs;
    uint64_t left;

    if (fstatvfs(fd, &fs) != 0 || fs.f_frsize == 0 || fs.f_blocks == 0) /* it does not say */
        return 0;
    left = LEFT_BYTES / fs.f_frsize;
    if (left > fs.f_blocks / LEFT_PART)
        left = fs.f_blocks / LEFT_PART;
    if (bytes / fs.f_frsize + left < fs.f_bavail)
        return 0;
    errno = ENOSPC;
    return -1;
}

int pfl_disk_room_begin(struct pfl_disk_room *self, int fd, uint64_t bytes)
{
    *self = (struct pfl_disk_room){.fd = fd, .bytes = bytes};
    if (bytes == 0)
        return 0;
    return check(fd, bytes) == 0 ? pfl_disk_room_take(self, 1) : -1;
}

int pfl_disk_room_take(struct pfl_disk_room *self, uint64_t end)
{
    uint64_t want = end + PFL_DISK_ROOM_PIECE_BYTES - 1;

    want -= want % PFL_DISK_ROOM_PIECE_BYTES;
    want = want < self->bytes ? want : self->bytes;
    if (want <= self->taken)
        return 0;
    if (check(self->fd, want - self->taken) != 0 ||
        (fallocate(self->fd, FALLOC_FL_KEEP_SIZE, (off_t)self->taken,
                   (off_t)(want - self->taken)) != 0 &&
         (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)))
        return -1;
    self->taken = want;
    return 0;
}
