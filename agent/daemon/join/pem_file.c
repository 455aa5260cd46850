/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and certificates on disk: see pem_file.h. A reader sees either the old file or the new
 * one. */
#include "agent/daemon/join/pem_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 4096u

int pfl_pem_file_write(const char *path, struct pfl_span text, const struct pfl_pem_owner *owner)
{
    char fresh[PATH_BYTES + 8];
    bool is_good;
    int fd;

    (void)snprintf(fresh, sizeof(fresh), "%.4095s.new", path);
    (void)unlink(fresh);
    fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    is_good = fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len && fsync(fd) == 0 &&
              (owner->uid == (uid_t)-1 || fchown(fd, owner->uid, owner->gid) == 0);
    if (fd >= 0 && close(fd) != 0)
        is_good = false;
    if (is_good && rename(fresh, path) == 0)
        return 0;
    (void)unlink(fresh);
    return PFL_EIO;
}
