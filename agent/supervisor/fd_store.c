/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of descriptors: see fd_store.h.
 *
 * add: moves the descriptor to a number above those that the program gets (3 and on), so that a new
 * process only has to duplicate them down (child.c). Same file: kcmp(2), if the kernel has it and
 * permits it; otherwise a descriptor that was given twice is stored twice. Limits:
 * PFL_FD_STORE_MAX.
 */
#include "agent/supervisor/fd_store.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/closer.h"

static bool is_same_file(int a, int b)
{
    long pid = getpid();

    return syscall(SYS_kcmp, pid, pid, KCMP_FILE, (long)a, (long)b) == 0;
}

static int find_room(const struct pfl_fd_store *self, const char *name, int fd)
{
    for (size_t i = 0; i < self->len; i++) {
        if (strcmp(self->list[i].name, name) == 0 && is_same_file(self->list[i].fd, fd))
            return PFL_EEXIST;
    }
    return self->len < self->max ? 0 : PFL_ELIMIT;
}

int pfl_fd_store_add(struct pfl_fd_store *self, const char *name, int fd)
{
    int rc = find_room(self, name, fd);
    int kept = -1;

    if (rc == 0) {
        kept = fcntl(fd, F_DUPFD_CLOEXEC, PFL_STORED_FDS_FIRST + (int)self->max);
        rc = kept >= 0 ? 0 : PFL_ELIMIT;
    }
    pfl_closer_close(fd, getuid());
    if (rc != 0)
        return rc;
    self->list[self->len].fd = kept;
    memcpy(self->list[self->len].name, name, strlen(name) + 1);
    self->len++;
    return 0;
}

size_t pfl_fd_store_remove(struct pfl_fd_store *self, const char *name)
{
    size_t kept = 0;
    size_t removed;

    for (size_t i = 0; i < self->len; i++) {
        if (strcmp(self->list[i].name, name) == 0)
            pfl_closer_close(self->list[i].fd, getuid());
        else
            self->list[kept++] = self->list[i];
    }
    removed = self->len - kept;
    self->len = kept;
    return removed;
}

void pfl_fd_store_fini(struct pfl_fd_store *self)
{
    for (size_t i = 0; i < self->len; i++)
        (void)close(self->list[i].fd);
    self->len = 0;
}
