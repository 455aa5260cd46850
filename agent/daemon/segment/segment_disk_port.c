/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the segments' folder: see segment_disk_port.h.
 *
 * The folder belongs to the service, which may put anything into it: no link is followed, only
 * regular files with one name are read, and notes only if they are this process's user's. Failures:
 * an error code; errno stays. Owns descriptors within a call. Limits: names of
 * PFL_SEGMENT_NAME_BYTES.
 */
#include "agent/daemon/segment/segment_disk_port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define HALF_SUFFIX  ".tmp"
#define PART_BYTES   65536u
#define ROOM_BYTES   (UINT64_C(64) << 20) /* kept free; of a small disk an eighth */
#define ROOM_DIVISOR 8u
#define NUMBER_LEN   6u /* digits at least */

/* ---- names ---- */

void pfl_segment_name_put(const struct pfl_segment_name *name, char dst[PFL_SEGMENT_NAME_BYTES])
{
    static const char *const before[] = {
        [PFL_SEGMENT_FILE_NONE] = "",           [PFL_SEGMENT_FILE_RUN] = ".run",
        [PFL_SEGMENT_FILE_TRACE] = ".pftrace.", [PFL_SEGMENT_FILE_INDEX] = ".pftrace.index",
        [PFL_SEGMENT_FILE_NOTE] = ".",          [PFL_SEGMENT_FILE_RELEASED] = ".",
        [PFL_SEGMENT_FILE_HALF] = HALF_SUFFIX,  [PFL_SEGMENT_FILE_NEW_INDEX] = ".pftrace~.index",
    };
    static const char *const behind[] = {
        [PFL_SEGMENT_FILE_TRACE] = "",
        [PFL_SEGMENT_FILE_NOTE] = ".segment",
        [PFL_SEGMENT_FILE_RELEASED] = ".released",
        [PFL_SEGMENT_FILE_HALF] = NULL,
    };

    if (behind[name->file] != NULL)
        (void)snprintf(dst, PFL_SEGMENT_NAME_BYTES, "%s%s%06u%s", name->id, before[name->file],
                       name->number, behind[name->file]);
    else
        (void)snprintf(dst, PFL_SEGMENT_NAME_BYTES, "%s%s", name->id, before[name->file]);
}

/* The number, in the one form that `put` gives it, and what follows. */
static bool parse_number(const char *text, uint32_t *ret_number, const char **ret_rest)
{
    char *end = NULL;
    unsigned long number = 0;

    if (text[0] >= '0' && text[0] <= '9')
        number = strtoul(text, &end, 10);
    if (number == 0 || number > PFL_SEGMENT_NUMBER_MAX || end < text + NUMBER_LEN ||
        (end > text + NUMBER_LEN && text[0] == '0'))
        return false;
    *ret_number = (uint32_t)number;
    *ret_rest = end;
    return true;
}

static enum pfl_segment_file parse_form(const char *rest, uint32_t *ret_number)
{
    static const char trace[] = ".pftrace.";

    if (strcmp(rest, ".run") == 0)
        return PFL_SEGMENT_FILE_RUN;
    if (strcmp(rest, ".pftrace.index") == 0)
        return PFL_SEGMENT_FILE_INDEX;
    if (strcmp(rest, ".pftrace~.index") == 0)
        return PFL_SEGMENT_FILE_NEW_INDEX;
    if (strncmp(rest, trace, strlen(trace)) == 0)
        return parse_number(rest + strlen(trace), ret_number, &rest) && *rest == '\0'
                   ? PFL_SEGMENT_FILE_TRACE
                   : PFL_SEGMENT_FILE_NONE;
    if (*rest != '.' || !parse_number(rest + 1, ret_number, &rest))
        return PFL_SEGMENT_FILE_NONE;
    if (strcmp(rest, ".segment") == 0)
        return PFL_SEGMENT_FILE_NOTE;
    return strcmp(rest, ".released") == 0 ? PFL_SEGMENT_FILE_RELEASED : PFL_SEGMENT_FILE_NONE;
}

void pfl_segment_name_parse(const char *text_untrusted, struct pfl_segment_name *ret_name)
{
    struct pfl_segment_name name = {.file = PFL_SEGMENT_FILE_NONE};
    size_t len = strlen(text_untrusted);

    (void)snprintf(name.id, sizeof(name.id), "%s", text_untrusted);
    if (len > sizeof(name.id) && len < PFL_SEGMENT_NAME_BYTES && pfl_segment_is_id(name.id)) {
        if (strcmp(text_untrusted + len - strlen(HALF_SUFFIX), HALF_SUFFIX) == 0)
            name.file = PFL_SEGMENT_FILE_HALF;
        else
            name.file = parse_form(text_untrusted + sizeof(name.id) - 1, &name.number);
    }
    *ret_name = name;
}

/* ---- steps ---- */

static int read_error(void)
{
    if (errno == ENOENT)
        return PFL_ENOENT;
    if (errno == ENOSPC || errno == EDQUOT)
        return PFL_ELIMIT;
    return errno == ELOOP || errno == EACCES ? PFL_EPERM : PFL_EIO;
}

static int write_all(int fd, struct pfl_span bytes)
{
    size_t at = 0;

    while (at < bytes.len) {
        ssize_t n = write(fd, bytes.data + at, bytes.len - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return read_error();
        at += (size_t)n;
    }
    return 0;
}

static int sync_file(int fd)
{
    return fsync(fd) == 0 ? 0 : read_error();
}

static int write_file(int dir, const char *half_path, const char *path, struct pfl_span bytes)
{
    int fd;
    int rc;

    (void)unlinkat(dir, half_path, 0);
    fd = openat(dir, half_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return read_error();
    rc = write_all(fd, bytes);
    if (rc == 0)
        rc = sync_file(fd);
    (void)close(fd);
    if (rc == 0 && (renameat(dir, half_path, dir, path) != 0 || fsync(dir) != 0))
        rc = read_error();
    if (rc != 0)
        (void)unlinkat(dir, half_path, 0);
    return rc;
}

int pfl_segment_disk_write(int dir, const struct pfl_segment_name *name, struct pfl_span bytes)
{
    struct pfl_segment_name half = *name;
    char path[PFL_SEGMENT_NAME_BYTES];
    char half_path[PFL_SEGMENT_NAME_BYTES];

    half.file = PFL_SEGMENT_FILE_HALF;
    pfl_segment_name_put(name, path);
    pfl_segment_name_put(&half, half_path);
    return write_file(dir, half_path, path, bytes);
}

int pfl_segment_disk_write_other(int dir, const char *name, struct pfl_span bytes)
{
    char half_path[PFL_SEGMENT_OTHER_BYTES + 1];

    (void)snprintf(half_path, sizeof(half_path), ".%s", name);
    return write_file(dir, half_path, name, bytes);
}

int pfl_segment_disk_remove_other(int dir, const char *name)
{
    return unlinkat(dir, name, 0) == 0 || errno == ENOENT ? 0 : PFL_EIO;
}

static int open_file(int dir, const struct pfl_segment_name *name, bool is_own, int *ret_fd,
                     struct stat *ret_st)
{
    char path[PFL_SEGMENT_NAME_BYTES];
    int fd;

    pfl_segment_name_put(name, path);
    fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return read_error();
    if (fstat(fd, ret_st) != 0 || !S_ISREG(ret_st->st_mode) || ret_st->st_nlink > 1 ||
        (is_own && ret_st->st_uid != geteuid())) {
        (void)close(fd);
        return PFL_EPERM;
    }
    *ret_fd = fd;
    return 0;
}

static int read_some(int fd, uint64_t offset, uint8_t *dst, size_t room, size_t *ret_len)
{
    size_t len = 0;

    while (len < room) {
        ssize_t n = pread(fd, dst + len, room - len, (off_t)(offset + len));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return PFL_EIO;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    *ret_len = len;
    return 0;
}

int pfl_segment_disk_read(int dir, const struct pfl_segment_part *part, size_t *ret_len)
{
    struct stat st;
    int fd = -1;
    int rc;

    if (part->offset > INT64_MAX - part->room)
        return PFL_EIO;
    rc = open_file(dir, part->name, part->is_own, &fd, &st);
    if (rc != 0)
        return rc;
    rc = read_some(fd, part->offset, part->dst, part->room, ret_len);
    (void)close(fd);
    return rc;
}

int pfl_segment_disk_hash(int dir, const struct pfl_segment_name *name, struct pfl_sha256 *sha256,
                          uint64_t *ret_bytes, uint8_t ret_hash[PFL_SEGMENT_HASH_BYTES])
{
    uint8_t part[PART_BYTES];
    uint64_t bytes = 0;
    size_t len = 0;
    struct stat st;
    int fd = -1;
    int hash_rc;
    int rc = open_file(dir, name, false, &fd, &st);

    if (rc != 0)
        return rc;
    do {
        rc = read_some(fd, bytes, part, sizeof(part), &len);
        if (rc == 0)
            pfl_sha256_add(sha256, pfl_span_of(part, len));
        bytes += len;
    } while (rc == 0 && len == sizeof(part));
    if (rc == 0)
        rc = sync_file(fd);
    (void)close(fd);
    hash_rc = pfl_sha256_end(sha256, ret_hash);
    *ret_bytes = bytes;
    return rc != 0 ? rc : hash_rc;
}

int pfl_segment_disk_append(int dir, const struct pfl_segment_name *name, struct pfl_span bytes)
{
    char path[PFL_SEGMENT_NAME_BYTES];
    struct stat st;
    int rc;
    int fd;

    if (!pfl_segment_disk_has_room(dir))
        return PFL_ELIMIT;
    pfl_segment_name_put(name, path);
    fd = openat(dir, path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                0600);
    if (fd < 0)
        return read_error();
    rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 1 && st.st_uid == geteuid()
             ? write_all(fd, bytes)
             : PFL_EPERM;
    (void)close(fd);
    return rc;
}

bool pfl_segment_disk_stat(int dir, const struct pfl_segment_name *name, uint64_t *ret_bytes,
                           uint64_t *ret_unix_ns)
{
    char path[PFL_SEGMENT_NAME_BYTES];
    struct stat st;

    pfl_segment_name_put(name, path);
    if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return false;
    *ret_bytes = (uint64_t)st.st_size;
    *ret_unix_ns =
        (uint64_t)st.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)st.st_mtim.tv_nsec;
    return true;
}

int pfl_segment_disk_remove(int dir, const struct pfl_segment_name *name)
{
    char path[PFL_SEGMENT_NAME_BYTES];

    pfl_segment_name_put(name, path);
    return unlinkat(dir, path, 0) == 0 || errno == ENOENT ? 0 : PFL_EIO;
}

int pfl_segment_disk_release(int dir, const struct pfl_segment_name *name)
{
    struct pfl_segment_name released = *name;
    char path[PFL_SEGMENT_NAME_BYTES];
    char released_path[PFL_SEGMENT_NAME_BYTES];

    released.file = PFL_SEGMENT_FILE_RELEASED;
    pfl_segment_name_put(name, path);
    pfl_segment_name_put(&released, released_path);
    if (renameat(dir, path, dir, released_path) != 0)
        return read_error();
    return fsync(dir) == 0 ? 0 : PFL_EIO;
}

bool pfl_segment_disk_has_room(int dir)
{
    struct statvfs fs;
    uint64_t total;
    uint64_t least;

    if (fstatvfs(dir, &fs) != 0)
        return false;
    total = (uint64_t)fs.f_blocks * fs.f_frsize;
    least = total / ROOM_DIVISOR < ROOM_BYTES ? total / ROOM_DIVISOR : ROOM_BYTES;
    return (uint64_t)fs.f_bavail * fs.f_frsize >= least;
}
