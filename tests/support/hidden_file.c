/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel without one of its files: preloaded into a program (LD_PRELOAD), nothing that ends with
 * PFL_HIDDEN_FILE can be opened or found. With options/copy_trace_marker a kernel since 6.16
 * behaves as an older one; all other files are the kernel's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_hidden(const char *path)
{
    const char *name = getenv("PFL_HIDDEN_FILE");
    size_t len = strlen(path);
    size_t end = name != NULL ? strlen(name) : 0;

    return end != 0 && len >= end && strcmp(path + len - end, name) == 0;
}

static int fail(void)
{
    errno = ENOENT;
    return -1;
}

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if ((flags & (O_CREAT | O_TMPFILE)) != 0)
        mode = (mode_t)va_arg(args, int);
    va_end(args);
    return is_hidden(path) ? fail() : (int)syscall(SYS_openat, dir, path, flags, mode);
}

int faccessat(int dir, const char *path, int mode, int flags)
{
    (void)flags;
    return is_hidden(path) ? fail() : (int)syscall(SYS_faccessat, dir, path, mode);
}
