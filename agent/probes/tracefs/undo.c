/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The undo log's file, and the writes that undo.
 *
 * Happy path: the first change makes <folder>/<pid>.undo and locks it with flock, which ends with
 * the process in any case. Every change first adds a line, undoing adds another, and when nothing
 * is left the file is removed. Failure: if the kernel refuses to undo a change, this is logged and
 * counts as done: a kprobe that another program uses meanwhile stays. But a folder that is in use
 * gets a file of its own, <pid>-<n>.undo, without an owner, and is tried again. A partly written
 * line is cut off, and the next one includes everything that is missing. A locked file of a living
 * program is skipped. Limits: undo_log.h; LEFT_MAX folders of a program.
 */
#include "agent/probes/tracefs/undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/probes/tracefs/tracefs.h"
#include "base/log.h"

#define FOLDER_DEFAULT "/run/perfleet-probes"
#define FILE_SUFFIX    ".undo"
#define FILE_MAX_BYTES (64u * 1024u * 1024u)
#define LEFT_MAX       64u

static int open_folder(bool is_made)
{
    const char *folder = getenv("RUNTIME_DIRECTORY");

    if (folder == NULL || folder[0] != '/')
        folder = FOLDER_DEFAULT;
    if (is_made && mkdir(folder, 0700) != 0 && errno != EEXIST)
        return -1;
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void name_file(char *ret_name, size_t size)
{
    (void)snprintf(ret_name, size, "%ld" FILE_SUFFIX, (long)getpid());
}

/* Writes a file without an owner for one entry, completely before it gets its name. */
static void leave(const struct pfl_undo_entry *e)
{
    int dir_fd = open_folder(true);
    int fd = dir_fd >= 0 ? openat(dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600) : -1;
    struct pfl_buf line;
    bool is_good = fd >= 0;
    char source[32];
    char name[32];

    pfl_buf_init(&line, PFL_UNDO_LINE_MAX);
    is_good = is_good && pfl_undo_log_encode(e, &line) == 0 &&
              write(fd, pfl_buf_get(&line).data, line.len) == (ssize_t)line.len;
    (void)snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
    errno = is_good ? EEXIST : errno;
    for (unsigned i = 0; i < LEFT_MAX && errno == EEXIST; i++) {
        (void)snprintf(name, sizeof(name), "%ld-%u" FILE_SUFFIX, (long)getpid(), i);
        is_good = linkat(AT_FDCWD, source, dir_fd, name, AT_SYMLINK_FOLLOW) == 0;
        errno = is_good ? 0 : errno;
    }
    if (!is_good)
        pfl_log_warn("tracefs-folder-stays", "path=\"%s\" errno=%d", e->path, errno);
    if (fd >= 0)
        close(fd);
    if (dir_fd >= 0)
        close(dir_fd);
    pfl_buf_fini(&line);
}

/* --- undoing ----------------------------------------------------------------------------- */

static bool replace(int root_fd, const char *path, const char *text)
{
    int fd = openat(root_fd, path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    bool is_good = fd >= 0;

    while (is_good && *text != '\0') {
        size_t len = strcspn(text, "\n");

        is_good = len == 0 || write(fd, text, len) == (ssize_t)len;
        is_good = is_good && write(fd, "\n", 1) == 1;
        text += len + (text[len] == '\n');
    }
    if (fd >= 0)
        close(fd);
    return is_good;
}

/* False: it is to be tried again. */
static bool undo_one(int root_fd, const struct pfl_undo_entry *e)
{
    bool is_good = false;
    int error;

    if (e->kind == PFL_UNDO_RMDIR)
        is_good = unlinkat(root_fd, e->path, AT_REMOVEDIR) == 0;
    else if (e->kind == PFL_UNDO_REPLACE)
        is_good = replace(root_fd, e->path, e->text);
    else if (e->kind == PFL_UNDO_APPEND)
        is_good = pfl_tracefs_append(root_fd, e->path, e->text) == 0;
    else
        is_good = pfl_tracefs_write(root_fd, e->path, e->text) == 0;
    error = errno;
    /* A kprobe that the kernel refused was noted before; it is not there. */
    is_good = is_good || (e->kind == PFL_UNDO_APPEND && error == ENOENT);
    if (!is_good)
        pfl_log_info("tracefs-not-put-back", "path=\"%s\" errno=%d", e->path, error);
    return is_good || e->kind != PFL_UNDO_RMDIR || error != EBUSY;
}

/* --- the file ---------------------------------------------------------------------------- */

static void open_file(struct pfl_undo *self)
{
    int dir_fd = open_folder(true);
    char name[32];

    name_file(name, sizeof(name));
    if (dir_fd >= 0) {
        self->file_fd =
            openat(dir_fd, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        close(dir_fd);
    }
    if (self->file_fd >= 0 && flock(self->file_fd, LOCK_EX | LOCK_NB) == 0)
        return;
    pfl_log_warn("tracefs-journal-missing", "folder=RUNTIME_DIRECTORY errno=%d", errno);
    if (self->file_fd >= 0)
        close(self->file_fd);
    self->file_fd = -1;
}

static void close_file(struct pfl_undo *self)
{
    int dir_fd = open_folder(false);
    char name[32];

    name_file(name, sizeof(name));
    if (dir_fd >= 0) {
        (void)unlinkat(dir_fd, name, 0);
        close(dir_fd);
    }
    close(self->file_fd);
    self->file_fd = -1;
    self->has_failed = false;
}

/* Writes all of it or, if the kernel allows, nothing. */
static bool append(const struct pfl_undo *self, struct pfl_span bytes)
{
    off_t end = lseek(self->file_fd, 0, SEEK_END);
    ssize_t n = write(self->file_fd, bytes.data, bytes.len);

    if (n == (ssize_t)bytes.len)
        return true;
    pfl_log_warn("tracefs-journal-not-written", "errno=%d", n < 0 ? errno : ENOSPC);
    if (n > 0 && end >= 0 && ftruncate(self->file_fd, end) != 0)
        pfl_log_warn("tracefs-journal-not-cut", "errno=%d", errno);
    return false;
}

static int put_done(struct pfl_buf *text, uint32_t number)
{
    char line[32];
    int len = snprintf(line, sizeof(line), "%u x\n", number);

    return pfl_buf_append(text, line, (size_t)len);
}

/* After a failure: cancels all entries from there on, whether they are in the file or not, and
 * writes those again that are still to be undone. The line before may be incomplete. */
static int put_missing(const struct pfl_undo *self, struct pfl_buf *text)
{
    struct pfl_buf line;
    int rc = pfl_buf_append(text, "\n", 1);

    pfl_buf_init(&line, PFL_UNDO_LINE_MAX);
    for (uint32_t i = self->unsure; i < self->log.next_number && rc == 0; i++)
        rc = put_done(text, i);
    for (size_t i = 0; i < self->log.count && rc == 0; i++) {
        if (self->log.entries[i].number < self->unsure)
            continue;
        rc = pfl_undo_log_encode(&self->log.entries[i], &line);
        if (rc == 0)
            rc = pfl_buf_append(text, pfl_buf_get(&line).data, pfl_buf_get(&line).len);
    }
    pfl_buf_fini(&line);
    return rc;
}

/* Entry `number` came or went, as `line` says; the log knows already. */
static void add_line(struct pfl_undo *self, struct pfl_span line, uint32_t number)
{
    struct pfl_buf missing;
    bool is_written;

    if (self->file_fd < 0)
        return;
    pfl_buf_init(&missing, FILE_MAX_BYTES);
    if (!self->has_failed)
        is_written = append(self, line);
    else
        is_written = put_missing(self, &missing) == 0 && append(self, pfl_buf_get(&missing));
    if (!is_written && (!self->has_failed || number < self->unsure))
        self->unsure = number;
    self->has_failed = !is_written;
    pfl_buf_fini(&missing);
}

void pfl_undo_init(struct pfl_undo *self, int root_fd)
{
    memset(self, 0, sizeof(*self));
    self->root_fd = root_fd;
    self->file_fd = -1;
}

int pfl_undo_add(struct pfl_undo *self, const void *owner, enum pfl_undo_kind kind,
                 const char *path, const char *text)
{
    struct pfl_buf line;
    struct pfl_span bytes;
    int rc;
    struct pfl_undo_entry entry = {
        .kind = kind, .owner = owner, .path = (char *)path, .text = (char *)text};

    if (pfl_undo_log_has(&self->log, &entry))
        return 0; /* the first value counts */
    if (self->log.count == 0 && self->file_fd < 0)
        open_file(self);
    rc = pfl_undo_log_add(&self->log, owner, kind, path, text);
    if (rc != 0)
        return rc;
    pfl_buf_init(&line, PFL_UNDO_LINE_MAX);
    rc = pfl_undo_log_encode(pfl_undo_log_get_last(&self->log, NULL), &line);
    bytes = pfl_buf_get(&line);
    if (rc == 0)
        add_line(self, bytes, self->log.next_number - 1);
    else
        pfl_undo_log_remove(&self->log, self->log.next_number - 1);
    pfl_buf_fini(&line);
    return rc;
}

static void remove_entry(struct pfl_undo *self, uint32_t number)
{
    char line[32];
    int len = snprintf(line, sizeof(line), "%u x\n", number);

    pfl_undo_log_remove(&self->log, number);
    add_line(self, pfl_span_of(line, (size_t)len), number);
    if (self->log.count == 0 && self->file_fd >= 0)
        close_file(self);
}

void pfl_undo_run(struct pfl_undo *self, const void *owner)
{
    const struct pfl_undo_entry *e;

    while ((e = pfl_undo_log_get_last(&self->log, owner)) != NULL) {
        if (!undo_one(self->root_fd, e))
            leave(e);
        remove_entry(self, e->number);
    }
}

void pfl_undo_forget(struct pfl_undo *self, const void *owner, const char *path)
{
    for (size_t i = self->log.count; i > 0; i--) {
        const struct pfl_undo_entry *e = &self->log.entries[i - 1];

        if (e->owner == owner && (path == NULL || strcmp(e->path, path) == 0))
            remove_entry(self, e->number);
    }
}

void pfl_undo_fini(struct pfl_undo *self)
{
    pfl_undo_run(self, NULL);
    pfl_undo_log_fini(&self->log);
}

/* --- of programs that are gone ----------------------------------------------------------- */

/* A file without an owner stays until its folder is removed. */
static void undo_file(int root_fd, int dir_fd, const char *name)
{
    struct pfl_undo_log log = {0};
    const struct pfl_undo_entry *e;
    bool was_left = strchr(name, '-') != NULL;
    bool is_done = true;
    struct pfl_buf text;

    pfl_buf_init(&text, FILE_MAX_BYTES);
    if (pfl_tracefs_read(dir_fd, name, &text) == 0 &&
        pfl_undo_log_parse(&log, pfl_buf_get(&text)) == 0) {
        while ((e = pfl_undo_log_get_last(&log, NULL)) != NULL) {
            bool is_over = undo_one(root_fd, e);

            if (!is_over && !was_left)
                leave(e);
            is_done = is_done && (is_over || !was_left);
            pfl_undo_log_remove(&log, e->number);
        }
        if (is_done)
            (void)unlinkat(dir_fd, name, 0);
    }
    pfl_undo_log_fini(&log);
    pfl_buf_fini(&text);
}

static bool is_ours(const char *name)
{
    size_t len = strlen(name);

    return len > strlen(FILE_SUFFIX) && strcmp(name + len - strlen(FILE_SUFFIX), FILE_SUFFIX) == 0;
}

unsigned pfl_undo_run_stale(int root_fd)
{
    int dir_fd = open_folder(false);
    DIR *dir = dir_fd >= 0 ? fdopendir(dir_fd) : NULL;
    const struct dirent *entry;
    unsigned count = 0;

    if (dir == NULL) {
        if (dir_fd >= 0)
            close(dir_fd);
        return 0;
    }
    while ((entry = readdir(dir)) != NULL) {
        int fd = is_ours(entry->d_name)
                     ? openat(dir_fd, entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW)
                     : -1;

        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            undo_file(root_fd, dir_fd, entry->d_name);
            count++;
        }
        close(fd);
    }
    closedir(dir);
    return count;
}
