/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stored descriptors: see stored_fds.h.
 *
 * take: checks LISTEN_PID; then sets name and close-on-exec of each descriptor from 3 on. The
 * variables are unset, so that no child uses the descriptors. Failure: PFL_ELIMIT, PFL_ENOMEM with
 * all descriptors closed. The list owns its descriptors.
 */
#include "base/stored_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "base/log.h"
#include "base/mem.h"

/* The next of names that are separated by colons. */
static size_t next_name(const char **names, const char **ret_name)
{
    size_t len = strcspn(*names, ":");

    *ret_name = *names;
    *names += len;
    if (**names == ':')
        (*names)++;
    return len;
}

static void add(struct pfl_stored_fds *self, int fd, const char *name, size_t name_len)
{
    struct pfl_stored_fd *next = &self->list[self->len];

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        pfl_log_warn("descriptor-not-inherited", "fd=%d errno=%d", fd, errno);
        self->left_out++;
        return;
    }
    if (name_len > PFL_STORED_FDS_NAME_MAX_BYTES) {
        pfl_log_warn("descriptor-not-inherited", "fd=%d name=%s", fd,
                     pfl_log_quote(name, name_len));
        (void)close(fd);
        self->left_out++;
        return;
    }
    next->fd = fd;
    memcpy(next->name, name, name_len);
    self->len++;
}

static int take_all(struct pfl_stored_fds *self, uint64_t fds)
{
    const char *names = getenv("LISTEN_FDNAMES");
    const unsigned first = PFL_STORED_FDS_FIRST;

    self->has_names = names != NULL;
    if (fds == 0)
        return 0;
    if (fds <= PFL_STORED_FDS_MAX)
        self->list = pfl_mem_calloc((size_t)fds, sizeof(*self->list));
    if (self->list == NULL) {
        (void)close_range(first, fds < INT_MAX ? first + (unsigned)fds - 1 : UINT_MAX, 0);
        return fds <= PFL_STORED_FDS_MAX ? PFL_ENOMEM : PFL_ELIMIT;
    }
    if (names == NULL)
        names = "";
    for (int i = 0; i < (int)fds; i++) {
        const char *name;
        size_t len = next_name(&names, &name);

        add(self, PFL_STORED_FDS_FIRST + i, name, len);
    }
    return 0;
}

int pfl_stored_fds_take(struct pfl_stored_fds *self)
{
    uint64_t pid;
    uint64_t fds;
    int rc;

    *self = (struct pfl_stored_fds){0};
    if (!pfl_env_read_number("LISTEN_PID", &pid) || pid != (uint64_t)getpid() ||
        !pfl_env_read_number("LISTEN_FDS", &fds))
        return 0;
    rc = take_all(self, fds);
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return rc;
}

void pfl_stored_fds_fini(struct pfl_stored_fds *self)
{
    for (size_t i = 0; i < self->len; i++) {
        if (self->list[i].fd >= 0)
            (void)close(self->list[i].fd);
    }
    pfl_mem_free(self->list);
    *self = (struct pfl_stored_fds){0};
}
