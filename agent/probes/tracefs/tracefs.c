/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracefs and our instance in it.
 *
 * Happy path: open finds tracefs; stale instances are removed; an instance instances/perfleet-<pid>
 * is made when the first session needs it and removed after the last one. Nothing outside of it is
 * changed, so there is nothing to restore.
 *
 * A holder locks its instance's directory with flock: the lock ends with the process, however it
 * ends. An instance with such a name that can be locked is stale, whatever the pid namespace of its
 * owner; the next process that starts removes it.
 *
 * Failure: without permission or without the kernel's support, open returns an error and the
 * program runs without kernel events.
 */
#include "agent/probes/tracefs/tracefs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define NAME_PREFIX   "perfleet-"
#define PATH_MAX_HERE 64
#define READ_STEP     16384u
#define MAKE_ATTEMPTS 20u

static int open_root(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && faccessat(fd, "instances", W_OK | X_OK, 0) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

int pfl_tracefs_open(struct pfl_tracefs *self)
{
    static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

    self->instance_fd = -1;
    self->root_fd = -1;
    self->owner = getpid();
    self->suffix = NULL;
    for (size_t i = 0; i < 2 && self->root_fd < 0; i++)
        self->root_fd = open_root(places[i]);
    if (self->root_fd >= 0)
        return 0;
    if (access(places[0], F_OK) != 0)
        return PFL_ENOENT;
    if (access("/sys/kernel/tracing/trace", F_OK) == 0)
        return PFL_EPERM; /* it is mounted, but not for us */
    if (mount("nodev", places[0], "tracefs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return errno == EPERM ? PFL_EPERM : PFL_ENOENT;
    self->root_fd = open_root(places[0]);
    return self->root_fd >= 0 ? 0 : PFL_EPERM;
}

void pfl_tracefs_close(struct pfl_tracefs *self)
{
    pfl_tracefs_remove_instance(self);
    if (self->root_fd >= 0)
        close(self->root_fd);
    self->root_fd = -1;
}

static void name_instance(char *ret_path, pid_t owner, const char *suffix)
{
    (void)snprintf(ret_path, PATH_MAX_HERE, "instances/" NAME_PREFIX "%ld%s", (long)owner,
                   suffix != NULL ? suffix : "");
}

static int open_locked(const struct pfl_tracefs *self, const char *path)
{
    int fd = openat(self->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool is_still_there(const struct pfl_tracefs *self, const char *path, int fd)
{
    struct stat here;
    struct stat there;

    return fstat(fd, &here) == 0 && fstatat(self->root_fd, path, &there, 0) == 0 &&
           here.st_ino == there.st_ino;
}

int pfl_tracefs_make_instance(struct pfl_tracefs *self)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    char path[PATH_MAX_HERE];

    if (self->instance_fd >= 0)
        return 0;
    name_instance(path, self->owner, self->suffix);
    /* Before it is locked, another program that starts just now may take it for a stale one. */
    for (unsigned i = 0; i < MAKE_ATTEMPTS; i++) {
        if (mkdirat(self->root_fd, path, 0700) != 0 && errno != EEXIST) {
            pfl_log_warn("tracefs-instance-refused", "path=%s errno=%d", path, errno);
            return PFL_EIO;
        }
        self->instance_fd = open_locked(self, path);
        if (self->instance_fd >= 0 && is_still_there(self, path, self->instance_fd))
            return 0;
        if (self->instance_fd >= 0)
            close(self->instance_fd);
        self->instance_fd = -1;
        (void)nanosleep(&pause, NULL);
    }
    pfl_log_warn("tracefs-instance-not-ours", "path=%s", path);
    return PFL_EIO;
}

void pfl_tracefs_remove_of(struct pfl_tracefs *self, pid_t owner)
{
    char path[PATH_MAX_HERE];

    name_instance(path, owner, self->suffix);
    if (unlinkat(self->root_fd, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
        pfl_log_warn("tracefs-instance-stays", "path=%s errno=%d", path, errno);
}

void pfl_tracefs_remove_instance(struct pfl_tracefs *self)
{
    if (self->instance_fd < 0)
        return;
    close(self->instance_fd);
    self->instance_fd = -1;
    pfl_tracefs_remove_of(self, self->owner);
}

unsigned pfl_tracefs_remove_stale(struct pfl_tracefs *self)
{
    int dir_fd = openat(self->root_fd, "instances", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = dir_fd >= 0 ? fdopendir(dir_fd) : NULL;
    char path[PATH_MAX_HERE];
    const struct dirent *entry;
    unsigned removed = 0;

    if (dir == NULL) {
        if (dir_fd >= 0)
            close(dir_fd);
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        int fd;

        if (strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0 ||
            strlen(entry->d_name) > 40)
            continue;
        (void)snprintf(path, sizeof(path), "instances/%.40s", entry->d_name);
        fd = open_locked(self, path);
        if (fd < 0)
            continue;
        /* Under the lock: its owner may be just about to take it. */
        removed += unlinkat(self->root_fd, path, AT_REMOVEDIR) == 0;
        close(fd);
    }
    closedir(dir);
    return removed;
}

int pfl_tracefs_read(int dir_fd, const char *path, struct pfl_buf *ret_text)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = 1;
    uint8_t *room;
    int rc = 0;

    pfl_buf_clear(ret_text);
    if (fd < 0)
        return PFL_EIO;
    while (rc == 0 && n > 0) {
        rc = pfl_buf_reserve(ret_text, READ_STEP, &room);
        if (rc != 0)
            break;
        n = read(fd, room, READ_STEP);
        if (n > 0)
            pfl_buf_extend(ret_text, (size_t)n);
    }
    close(fd);
    return rc != 0 ? rc : n < 0 ? PFL_EIO : 0;
}

static int write_text(int dir_fd, const char *path, const char *text, int flags)
{
    int fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | flags);
    size_t len = strlen(text);
    int error;
    ssize_t n;

    if (fd < 0)
        return PFL_EIO;
    n = len != 0 ? write(fd, text, len) : 0;
    error = errno;
    close(fd);
    errno = error;
    return n == (ssize_t)len ? 0 : PFL_EIO;
}

int pfl_tracefs_write(int dir_fd, const char *path, const char *text)
{
    return write_text(dir_fd, path, text, 0);
}

int pfl_tracefs_append(int dir_fd, const char *path, const char *text)
{
    return write_text(dir_fd, path, text, O_APPEND);
}

int pfl_tracefs_truncate(int dir_fd, const char *path)
{
    return write_text(dir_fd, path, "", O_TRUNC);
}

int pfl_tracefs_read_line(int dir_fd, const char *path, char *ret_line, size_t size)
{
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret_line, size - 1) : -1;

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return PFL_EIO;
    ret_line[n] = '\0';
    ret_line[strcspn(ret_line, "\n")] = '\0';
    return 0;
}
