/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that fails or stands still at one call, for tests: preloaded into a program (LD_PRELOAD),
 * it makes PFL_DISK_CALL (write, fsync or rename) of a file called *.partial wait until a process
 * has opened the FIFO PFL_DISK_GATE for writing and closed it again, and fail with PFL_DISK_ERRNO.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX   ".partial"
#define PATH_LEN 4096u

static void *next_of(const char *name)
{
    void *next = dlsym(RTLD_NEXT, name);

    if (next == NULL)
        abort();
    return next;
}

static void wait_at_gate(void)
{
    const char *gate = getenv("PFL_DISK_GATE");
    int fd = gate != NULL ? open(gate, O_RDONLY | O_CLOEXEC) : -1;
    char byte;

    if (fd < 0)
        return;
    (void)!read(fd, &byte, 1);
    (void)close(fd);
}

/* True: the call fails, errno says why. */
static bool fails(const char *call, const char *path)
{
    const char *wanted = getenv("PFL_DISK_CALL");
    const char *err = getenv("PFL_DISK_ERRNO");
    size_t len = strlen(path);

    if (wanted == NULL || strcmp(wanted, call) != 0 || len < strlen(SUFFIX) ||
        strcmp(path + len - strlen(SUFFIX), SUFFIX) != 0)
        return false;
    wait_at_gate();
    errno = err != NULL ? (int)strtol(err, NULL, 10) : 0;
    return errno != 0;
}

static bool fails_at(const char *call, int fd)
{
    char link[64];
    char path[PATH_LEN];
    ssize_t len;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    if (len <= 0)
        return false;
    path[len] = '\0';
    return fails(call, path);
}

ssize_t write(int fd, const void *data, size_t len)
{
    ssize_t (*next)(int, const void *, size_t);

    *(void **)&next = next_of("write");
    return fails_at("write", fd) ? -1 : next(fd, data, len);
}

int fsync(int fd)
{
    int (*next)(int);

    *(void **)&next = next_of("fsync");
    return fails_at("fsync", fd) ? -1 : next(fd);
}

int rename(const char *from, const char *to)
{
    int (*next)(const char *, const char *);

    *(void **)&next = next_of("rename");
    return fails("rename", from) ? -1 : next(from, to);
}
