/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shortens an index: see disk_index.h.
 *
 * Happy path: the lines are copied in pieces into NAME~.index, except those whose segment's file
 * is gone; then its first line is written, it is synced, and renamed. At any kill there is one
 * whole index; the next call removes a new one that was left. Failures: any call's errno; the new
 * file is removed. A line whose file cannot be looked up, or that names none, stays. Owns the new
 * descriptor until the rename. Limits: a line of IN_BYTES.
 */
#include "service/port/disk_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

#define IN_BYTES  16384u
#define OUT_BYTES 16384u

static const char suffix[] = ".index";
/* Before the suffix; no rotation's path may have this character, so the file is no other index. */
static const char fresh_mark[] = "~";
static const char head_begin[] = "{\"shortened\":";

struct shortening {
    int folder;
    int from;
    int to;
    uint64_t size;      /* of `from` */
    uint64_t at;        /* in it, behind the lines that were judged */
    uint64_t shortened; /* so does the new first line say */
    uint64_t segments;
    uint64_t losses;
    uint64_t left; /* lines, now */
    size_t in_len;
    size_t out_len;
    char in[IN_BYTES + 1]; /* and a NUL */
    uint8_t out[OUT_BYTES];
};

/* The number behind a key, in a line that ends with a NUL; 0: none. */
static uint64_t find_number(const char *line, const char *key)
{
    const char *at = strstr(line, key);

    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static int flush_out(struct shortening *s)
{
    for (size_t at = 0; at < s->out_len;) {
        ssize_t n = write(s->to, s->out + at, s->out_len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += (size_t)n;
    }
    s->out_len = 0;
    return 0;
}

static int put(struct shortening *s, const void *bytes, size_t len)
{
    int error = len > OUT_BYTES - s->out_len ? flush_out(s) : 0;

    if (error != 0)
        return error;
    memcpy(s->out + s->out_len, bytes, len);
    s->out_len += len;
    return 0;
}

static int put_head(struct shortening *s)
{
    char head[PFL_DISK_INDEX_HEAD_BYTES + 1];
    int len =
        snprintf(head, sizeof(head), "%s%" PRIu64 ",\"segments\":%" PRIu64 ",\"losses\":%" PRIu64,
                 head_begin, s->shortened, s->segments, s->losses);

    memset(head + len, ' ', sizeof(head) - (size_t)len);
    head[PFL_DISK_INDEX_HEAD_BYTES - 2] = '}';
    head[PFL_DISK_INDEX_HEAD_BYTES - 1] = '\n';
    return put(s, head, PFL_DISK_INDEX_HEAD_BYTES);
}

static bool is_gone(const struct shortening *s, const char *line)
{
    static const char key[] = "\"file\":\"";
    const char *begin = strstr(line, key);
    const char *end = begin != NULL ? strchr(begin + strlen(key), '"') : NULL;
    char name[NAME_MAX + 1];
    struct stat st;

    if (end == NULL || (size_t)(end - begin) - strlen(key) >= sizeof(name))
        return false;
    memcpy(name, begin + strlen(key), (size_t)(end - begin) - strlen(key));
    name[(size_t)(end - begin) - strlen(key)] = '\0';
    return fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

/* Its newline is a NUL now. */
static int judge_line(struct shortening *s, char *line, size_t len)
{
    if (strncmp(line, head_begin, strlen(head_begin)) == 0) {
        s->shortened += find_number(line, head_begin);
        s->segments += find_number(line, "\"segments\":");
        s->losses += find_number(line, "\"losses\":");
        return 0;
    }
    if (s->at != s->size && is_gone(s, line)) {
        s->segments++;
        s->losses += find_number(line, "\"losses\":");
        s->left++;
        return 0;
    }
    line[len] = '\n';
    return put(s, line, len + 1);
}

/* The whole lines of what was read. */
static int judge_lines(struct shortening *s)
{
    size_t begin = 0;
    char *end;
    int error = 0;

    while (error == 0 && (end = memchr(s->in + begin, '\n', s->in_len - begin)) != NULL) {
        size_t len = (size_t)(end - s->in) - begin;

        *end = '\0';
        s->at += len + 1;
        error = judge_line(s, s->in + begin, len);
        begin += len + 1;
    }
    if (error == 0 && begin == 0 && s->in_len == IN_BYTES)
        return EINVAL; /* no line is that long */
    s->in_len -= begin;
    memmove(s->in, s->in + begin, s->in_len);
    return error;
}

static int copy_lines(struct shortening *s)
{
    int error = put_head(s); /* room for the one that comes last */

    while (error == 0) {
        ssize_t n =
            pread(s->from, s->in + s->in_len, IN_BYTES - s->in_len, (off_t)(s->at + s->in_len));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            error = n < 0 ? errno : s->in_len != 0 ? EINVAL : 0; /* a line without its end */
            break;
        }
        s->in_len += (size_t)n;
        error = judge_lines(s);
    }
    return error == 0 ? flush_out(s) : error;
}

static int write_head(struct shortening *s)
{
    int error;

    if (lseek(s->to, 0, SEEK_SET) < 0)
        return errno;
    s->shortened++;
    error = put_head(s);
    if (error == 0)
        error = flush_out(s);
    if (error == 0 && (lseek(s->to, 0, SEEK_END) < 0 || fdatasync(s->to) != 0))
        error = errno;
    return error;
}

/* Is it the one that we write, under its name? */
static int check_file(struct shortening *s, const char *name)
{
    struct stat ours;
    struct stat named;

    if (fstat(s->from, &ours) != 0 || fstatat(s->folder, name, &named, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    s->size = (uint64_t)ours.st_size;
    return ours.st_dev == named.st_dev && ours.st_ino == named.st_ino ? 0 : ESTALE;
}

/* What a service that was killed left, of the same user. */
static void remove_left(int folder, const char *name)
{
    struct stat st;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        st.st_uid == geteuid())
        (void)unlinkat(folder, name, 0);
}

static int replace(struct shortening *s, const char *name, const char *fresh)
{
    int error;

    remove_left(s->folder, fresh);
    s->to = openat(s->folder, fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->to < 0)
        return errno;
    error = fchmod(s->to, 0644) == 0 ? copy_lines(s) : errno;
    if (error == 0 && s->left != 0) {
        error = write_head(s);
        if (error == 0)
            error = check_file(s, name);
        if (error == 0 && renameat(s->folder, fresh, s->folder, name) == 0)
            return 0;
        error = error != 0 ? error : errno;
    }
    (void)unlinkat(s->folder, fresh, 0);
    (void)close(s->to);
    s->to = -1;
    return error;
}

int pfl_disk_index_shorten(int folder, const char *name, int *fd)
{
    struct shortening s = {.folder = folder, .from = *fd, .to = -1};
    size_t len = strlen(name);
    char fresh[NAME_MAX + 1];
    int error;

    if (len <= strlen(suffix) || len + sizeof(fresh_mark) > sizeof(fresh) ||
        strcmp(name + len - strlen(suffix), suffix) != 0)
        return EINVAL;
    (void)snprintf(fresh, sizeof(fresh), "%.*s%s%s", (int)(len - strlen(suffix)), name, fresh_mark,
                   suffix);
    error = check_file(&s, name);
    if (error == 0)
        error = replace(&s, name, fresh);
    if (error != 0 || s.to < 0)
        return error;
    (void)close(*fd);
    *fd = s.to;
    return 0;
}
