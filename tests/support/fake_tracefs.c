/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel's tracefs for tests, with what the host's kernel may lack: preloaded into a program
 * (LD_PRELOAD), it lets the folder PFL_FAKE_TRACEFS (fake_tracefs.py makes it) stand for
 * /sys/kernel/tracing, and does what the kernel does when the files are written:
 *
 * - kprobe_events makes and removes events, in all instances; EEXIST, EBUSY, ENOENT;
 * - current_tracer takes only one of available_tracers (EINVAL), while no buffer is open (EBUSY);
 * - set_ftrace_filter, set_graph_function take only functions that there are (EINVAL);
 * - trigger is taken only if the folder has the file `hist` (EINVAL);
 * - a new folder in instances is filled, a removed one is emptied first;
 * - trace_pipe_raw has data while tracing_on is 1.
 *
 * Every write is added to PFL_FAKE_TRACEFS.log: "path <- text". Any user may do all that.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL_PLACE "/sys/kernel/tracing"
#define ROOM       1024

static const char *root(void)
{
    return getenv("PFL_FAKE_TRACEFS");
}

/* The path to use: the fake's for tracefs'. */
static const char *translate(const char *path, char room[ROOM])
{
    size_t len = strlen(REAL_PLACE);

    if (root() == NULL || strncmp(path, REAL_PLACE, len) != 0 ||
        (path[len] != '/' && path[len] != '\0'))
        return path;
    (void)snprintf(room, ROOM, "%s%s", root(), path + len);
    return room;
}

static bool find_path(int fd, char room[ROOM])
{
    char link[64];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, room, ROOM - 1);
    if (n <= 0)
        return false;
    room[n] = '\0';
    return true;
}

/* Below the fake: what comes after its name; NULL: elsewhere. */
static const char *find_inside(const char *path)
{
    size_t len = root() != NULL ? strlen(root()) : 0;

    return len != 0 && strncmp(path, root(), len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static ssize_t real_write(int fd, const void *data, size_t len)
{
    return syscall(SYS_write, fd, data, len);
}

static int real_open(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0644);
}

static void store(const char *path, const char *text)
{
    int fd = real_open(path, O_WRONLY | O_CREAT | O_TRUNC);

    if (fd < 0)
        return;
    (void)real_write(fd, text, strlen(text));
    if (text[0] != '\0' && text[strlen(text) - 1] != '\n')
        (void)real_write(fd, "\n", 1);
    close(fd);
}

static void load(const char *path, char *ret_text, size_t size)
{
    int fd = real_open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? syscall(SYS_read, fd, ret_text, size - 1) : 0;

    if (fd >= 0)
        close(fd);
    ret_text[n > 0 ? n : 0] = '\0';
}

static bool has_word(const char *path, const char *word, size_t len)
{
    char text[8192];
    const char *at = text;

    load(path, text, sizeof(text));
    while (*at != '\0') {
        size_t n = strcspn(at, " \n");

        if (n == len && memcmp(at, word, len) == 0)
            return true;
        at += n + strspn(at + n, " \n");
    }
    return false;
}

/* --- instances --------------------------------------------------------------------------- */

/* A program may make two instances at once. */
static _Thread_local const char *copy_from;
static _Thread_local const char *copy_to;

static int copy_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    char to[ROOM];
    char bytes[65536];
    int in;
    int out;
    ssize_t n = 1;

    (void)st;
    (void)at;
    (void)snprintf(to, sizeof(to), "%s%s", copy_to, path + strlen(copy_from));
    if (type == FTW_D) {
        (void)syscall(SYS_mkdirat, AT_FDCWD, to, 0755);
        return 0;
    }
    in = real_open(path, O_RDONLY);
    out = real_open(to, O_WRONLY | O_CREAT | O_TRUNC);
    while (in >= 0 && out >= 0 && n > 0) {
        n = syscall(SYS_read, in, bytes, sizeof(bytes));
        if (n > 0)
            (void)real_write(out, bytes, (size_t)n);
    }
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)at;
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, type == FTW_DP ? AT_REMOVEDIR : 0);
}

static void copy_tree(const char *from, const char *to)
{
    copy_from = from;
    copy_to = to;
    (void)nftw(from, copy_one, 16, FTW_PHYS);
}

/* Runs `each` with the path of the top and of every instance. */
static int for_all(int (*each)(const char *folder, const char *event), const char *event)
{
    char path[ROOM];
    DIR *dir;
    const struct dirent *entry;
    int rc = each(root(), event);

    (void)snprintf(path, sizeof(path), "%s/instances", root());
    dir = opendir(path);
    while (rc == 0 && dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof(path), "%s/instances/%s", root(), entry->d_name);
        rc = each(path, event);
    }
    if (dir != NULL)
        closedir(dir);
    return rc;
}

/* --- kprobe_events ----------------------------------------------------------------------- */

static int make_event(const char *folder, const char *event)
{
    char from[ROOM];
    char to[ROOM];
    char *slash;

    if (snprintf(from, sizeof(from), "%s.kprobes/%s", root(), event) >= ROOM ||
        snprintf(to, sizeof(to), "%s/events/%s", folder, event) >= ROOM)
        return ENAMETOOLONG;
    slash = strrchr(to, '/');
    *slash = '\0';
    (void)syscall(SYS_mkdirat, AT_FDCWD, to, 0755);
    *slash = '/';
    copy_tree(from, to);
    return 0;
}

static int is_enabled(const char *folder, const char *event)
{
    char path[ROOM];
    char text[8];

    (void)snprintf(path, sizeof(path), "%s/events/%s/enable", folder, event);
    load(path, text, sizeof(text));
    return text[0] == '1' ? EBUSY : 0;
}

static int remove_event(const char *folder, const char *event)
{
    char path[ROOM];

    (void)snprintf(path, sizeof(path), "%s/events/%s", folder, event);
    (void)nftw(path, remove_one, 16, FTW_PHYS | FTW_DEPTH);
    return 0;
}

/* "p:group/name function", "r1024:group/name function", "-:group/name" */
static int define(const char *text)
{
    char path[ROOM];
    char event[256] = "";
    char function[128] = "";
    const char *colon = strchr(text, ':');

    if (colon == NULL || sscanf(colon + 1, "%255s %127s", event, function) < 1)
        return EINVAL;
    (void)snprintf(path, sizeof(path), "%s/events/%s", root(), event);
    if (text[0] == '-') {
        if (access(path, F_OK) != 0)
            return ENOENT;
        return for_all(is_enabled, event) != 0 ? EBUSY : for_all(remove_event, event);
    }
    if (access(path, F_OK) == 0)
        return EEXIST;
    (void)snprintf(path, sizeof(path), "%s/available_filter_functions", root());
    if (!has_word(path, function, strlen(function)))
        return ENOENT;
    return for_all(make_event, event);
}

/* --- other files ------------------------------------------------------------------------- */

static bool is_buffer_open(const char *folder)
{
    char path[ROOM];
    char prefix[ROOM];
    bool is_open = false;

    (void)snprintf(prefix, sizeof(prefix), "%s/per_cpu/", folder);
    for (int fd = 0; fd < 256 && !is_open; fd++)
        is_open = find_path(fd, path) && strncmp(path, prefix, strlen(prefix)) == 0 &&
                  strstr(path, "/trace_pipe_raw") != NULL;
    return is_open;
}

static int set_tracer(const char *folder, const char *text)
{
    char path[ROOM];

    (void)snprintf(path, sizeof(path), "%s/available_tracers", folder);
    if (!has_word(path, text, strcspn(text, "\n")))
        return EINVAL;
    return is_buffer_open(folder) ? EBUSY : 0;
}

static int judge_function(const char *text)
{
    char path[ROOM];
    size_t len = strcspn(text, "\n ");

    (void)snprintf(path, sizeof(path), "%s/available_filter_functions", root());
    return len == 0 || memchr(text, '*', len) != NULL || has_word(path, text, len) ? 0 : EINVAL;
}

static void store_clock(const char *path, const char *text)
{
    static const char *const clocks[] = {"boot", "global", "mono_raw"};
    char line[128] = "";

    for (size_t i = 0; i < 3; i++) {
        const char *form = strncmp(clocks[i], text, strlen(clocks[i])) == 0 ? "[%s] " : "%s ";

        (void)snprintf(line + strlen(line), sizeof(line) - strlen(line), form, clocks[i]);
    }
    store(path, line);
}

static void note(const char *inside, const char *text)
{
    char path[ROOM];
    char line[ROOM];
    int len = snprintf(line, sizeof(line), "%s <- %.*s\n", inside, (int)strcspn(text, "\n"), text);
    int fd;

    (void)snprintf(path, sizeof(path), "%s.log", root());
    fd = real_open(path, O_WRONLY | O_CREAT | O_APPEND);
    if (fd >= 0 && text[0] != '\n')
        (void)real_write(fd, line, (size_t)len);
    if (fd >= 0)
        close(fd);
}

static int act(const char *path, const char *name, const char *text, bool *ret_is_done)
{
    char folder[ROOM];

    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(name - path - 1), path);
    *ret_is_done = false;
    if (strcmp(name, "set_ftrace_filter") == 0 || strcmp(name, "set_graph_function") == 0)
        return judge_function(text);
    if (strcmp(name, "set_event_pid") == 0)
        return 0;
    if (strcmp(name, "trigger") == 0) {
        char hist[ROOM];

        (void)snprintf(hist, sizeof(hist), "%s/hist", root());
        *ret_is_done = text[0] == '!';
        if (text[0] == '!')
            store(path, "");
        return access(hist, F_OK) == 0 ? 0 : EINVAL;
    }
    *ret_is_done = true;
    if (strcmp(name, "kprobe_events") == 0)
        return define(text);
    if (strcmp(name, "current_tracer") == 0 && set_tracer(folder, text) != 0)
        return set_tracer(folder, text);
    if (strcmp(name, "trace_clock") == 0)
        store_clock(path, text);
    else
        store(path, text);
    return 0;
}

/* --- what is taken from libc ------------------------------------------------------------- */

ssize_t write(int fd, const void *data, size_t len)
{
    char path[ROOM];
    char text[ROOM];
    const char *inside;
    bool is_done;
    int error;

    if (root() == NULL || len >= sizeof(text) || !find_path(fd, path) ||
        (inside = find_inside(path)) == NULL)
        return real_write(fd, data, len);
    memcpy(text, data, len);
    text[len] = '\0';
    note(inside, text);
    error = act(path, strrchr(path, '/') + 1, text, &is_done);
    if (error != 0) {
        errno = error;
        return -1;
    }
    return is_done ? (ssize_t)len : real_write(fd, data, len);
}

static bool records(const char *folder, size_t len)
{
    char path[ROOM];
    char on[8];
    char tracer[32];

    (void)snprintf(path, sizeof(path), "%.*s/tracing_on", (int)len, folder);
    load(path, on, sizeof(on));
    (void)snprintf(path, sizeof(path), "%.*s/current_tracer", (int)len, folder);
    load(path, tracer, sizeof(tracer));
    (void)snprintf(path, sizeof(path), "%.*s/events/perfetto_kprobes", (int)len, folder);
    return on[0] == '1' && (strncmp(tracer, "nop", 3) != 0 || access(path, F_OK) == 0);
}

ssize_t read(int fd, void *data, size_t len)
{
    char path[ROOM];
    char *cpu;
    ssize_t n;

    if (root() == NULL || !find_path(fd, path) || find_inside(path) == NULL ||
        strstr(path, "/trace_pipe_raw") == NULL || (cpu = strstr(path, "/per_cpu/")) == NULL)
        return syscall(SYS_read, fd, data, len);
    n = records(path, (size_t)(cpu - path)) ? syscall(SYS_read, fd, data, len) : 0;
    if (n > 0)
        return n;
    errno = EAGAIN;
    return -1;
}

static int open_translated(int dir, const char *path, int flags, mode_t mode)
{
    char room[ROOM];
    int fd = (int)syscall(SYS_openat, dir, translate(path, room), flags, mode);
    char where[ROOM];

    if (fd >= 0 && root() != NULL && (flags & O_TRUNC) != 0 && find_path(fd, where) &&
        find_inside(where) != NULL)
        note(find_inside(where), "(emptied)");
    return fd;
}

static mode_t take_mode(int flags, va_list args)
{
    return (flags & O_CREAT) != 0 ? (mode_t)va_arg(args, int) : 0;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list args;                                                                              \
        int fd;                                                                                    \
        va_start(args, flags);                                                                     \
        fd = open_translated(AT_FDCWD, path, flags, take_mode(flags, args));                       \
        va_end(args);                                                                              \
        return fd;                                                                                 \
    }
#define OPENAT(name)                                                                               \
    int name(int dir, const char *path, int flags, ...)                                            \
    {                                                                                              \
        va_list args;                                                                              \
        int fd;                                                                                    \
        va_start(args, flags);                                                                     \
        fd = open_translated(dir, path, flags, take_mode(flags, args));                            \
        va_end(args);                                                                              \
        return fd;                                                                                 \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int access(const char *path, int mode)
{
    char room[ROOM];

    return (int)syscall(SYS_faccessat, AT_FDCWD, translate(path, room), mode);
}

DIR *opendir(const char *path)
{
    char room[ROOM];
    int fd = real_open(translate(path, room), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd >= 0 ? fdopendir(fd) : NULL;
}

int mkdirat(int dir, const char *path, mode_t mode)
{
    char where[ROOM];
    char from[ROOM];
    int rc = (int)syscall(SYS_mkdirat, dir, path, mode);
    int fd;

    if (rc != 0 || root() == NULL)
        return rc;
    fd = (int)syscall(SYS_openat, dir, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0 && find_path(fd, where) && find_inside(where) != NULL) {
        (void)snprintf(from, sizeof(from), "%s.instance", root());
        copy_tree(from, where);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

int unlinkat(int dir, const char *path, int flags)
{
    char where[ROOM];
    int fd = -1;

    if (root() != NULL && (flags & AT_REMOVEDIR) != 0)
        fd = (int)syscall(SYS_openat, dir, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 || !find_path(fd, where) || find_inside(where) == NULL) {
        if (fd >= 0)
            close(fd);
        return (int)syscall(SYS_unlinkat, dir, path, flags);
    }
    close(fd);
    return nftw(where, remove_one, 16, FTW_PHYS | FTW_DEPTH);
}
