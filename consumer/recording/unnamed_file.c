/* SPDX-License-Identifier: Apache-2.0 */
/* A file without a name: see unnamed_file.h. A file system without O_TMPFILE gets a name that is
 * removed at once. */
#include "consumer/recording/unnamed_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/closer.h"

#define DEFAULT_FOLDER "/var/tmp"

bool pfl_unnamed_file_open(struct pfl_unnamed_file *self, char *ret_why, size_t why_len)
{
    const char *folder = getenv("TMPDIR");
    char name[sizeof(self->folder) + 32];

    (void)snprintf(self->folder, sizeof(self->folder), "%s",
                   folder != NULL && folder[0] == '/' ? folder : DEFAULT_FOLDER);
    self->fd = open(self->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (self->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        (void)snprintf(name, sizeof(name), "%s/perfleet-XXXXXX", self->folder);
        self->fd = mkostemp(name, O_CLOEXEC);
        if (self->fd >= 0)
            (void)unlink(name);
    }
    if (self->fd < 0)
        (void)snprintf(ret_why, why_len,
                       "no file for the trace can be made in %s: %s; start perfleet with another "
                       "TMPDIR",
                       self->folder, strerror(errno));
    else
        (void)snprintf(self->path, sizeof(self->path), "/proc/self/fd/%d", self->fd);
    return self->fd >= 0;
}

bool pfl_unnamed_file_has_room(const struct pfl_unnamed_file *self, uint64_t max_bytes,
                               char *ret_why, size_t why_len)
{
    struct statvfs disk;
    struct stat file;
    uint64_t room;
    uint64_t keep_free;

    if (fstat(self->fd, &file) != 0 || fstatvfs(self->fd, &disk) != 0)
        return true;
    if ((uint64_t)file.st_size > max_bytes) {
        (void)snprintf(ret_why, why_len, "the trace has more than %" PRIu64 " MiB",
                       max_bytes >> 20);
        return false;
    }
    room = (uint64_t)(geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
    keep_free = pfl_unnamed_file_keep_free((uint64_t)disk.f_blocks * disk.f_frsize);
    if (room < keep_free)
        (void)snprintf(ret_why, why_len,
                       "the disk of %s has %.1f MB left, and %.1f MB are to stay free; start "
                       "perfleet with another TMPDIR",
                       self->folder, (double)room / 1e6, (double)keep_free / 1e6);
    return room >= keep_free;
}

int pfl_unnamed_file_take(struct pfl_unnamed_file *self)
{
    int fd = self->fd;

    self->fd = -1;
    return fd;
}

void pfl_unnamed_file_close(struct pfl_unnamed_file *self)
{
    pfl_closer_close(self->fd, geteuid());
    self->fd = -1;
}
