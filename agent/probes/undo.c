/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The undo log's file, and the writes that undo.
 *
 * Happy path: the first change makes <folder>/<pid>.undo and locks it with flock, which ends with
 * the process however it ends; every change adds a line first, undoing adds another, and when
 * nothing is left the file goes. Failure: what the kernel refuses when undoing is logged, and
 * counts as done: a kprobe that somebody else uses meanwhile stays theirs. A file of a living
 * program is locked and left alone. Limits: undo_log.h.
 */
#include "agent/probes/undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/probes/tracefs.h"
#include "base/log.h"

#define FOLDER_DEFAULT "/run/perfleet-probes"
#define FILE_SUFFIX    ".undo"
#define FILE_MAX_BYTES (64u * 1024u * 1024u)

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

static void undo_one(int root_fd, const struct pfl_undo_entry *e)
{
    bool is_good = false;

    if (e->kind == PFL_UNDO_RMDIR)
        is_good = unlinkat(root_fd, e->path, AT_REMOVEDIR) == 0;
    else if (e->kind == PFL_UNDO_REPLACE)
        is_good = replace(root_fd, e->path, e->text);
    else if (e->kind == PFL_UNDO_APPEND)
        is_good = pfl_tracefs_append(root_fd, e->path, e->text) == 0;
    else
        is_good = pfl_tracefs_write(root_fd, e->path, e->text) == 0;
    if (!is_good)
        pfl_log_info("tracefs-not-put-back", "path=\"%s\" errno=%d", e->path, errno);
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
}

static void add_line(const struct pfl_undo *self, const void *line, size_t len)
{
    if (self->file_fd >= 0 && write(self->file_fd, line, len) != (ssize_t)len)
        pfl_log_warn("tracefs-journal-not-written", "errno=%d", errno);
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
        return 0; /* what was there first counts */
    if (self->log.count == 0 && self->file_fd < 0)
        open_file(self);
    rc = pfl_undo_log_add(&self->log, owner, kind, path, text);
    if (rc != 0)
        return rc;
    pfl_buf_init(&line, PFL_UNDO_LINE_MAX);
    rc = pfl_undo_log_encode(pfl_undo_log_get_last(&self->log, NULL), &line);
    bytes = pfl_buf_get(&line);
    if (rc == 0)
        add_line(self, bytes.data, bytes.len);
    else
        pfl_undo_log_remove(&self->log, self->log.next_number - 1);
    pfl_buf_fini(&line);
    return rc;
}

void pfl_undo_run(struct pfl_undo *self, const void *owner)
{
    const struct pfl_undo_entry *e;
    char line[32];

    while ((e = pfl_undo_log_get_last(&self->log, owner)) != NULL) {
        undo_one(self->root_fd, e);
        (void)snprintf(line, sizeof(line), "%u x\n", e->number);
        add_line(self, line, strlen(line));
        pfl_undo_log_remove(&self->log, e->number);
    }
    if (self->log.count == 0 && self->file_fd >= 0)
        close_file(self);
}

void pfl_undo_fini(struct pfl_undo *self)
{
    pfl_undo_run(self, NULL);
    pfl_undo_log_fini(&self->log);
}

/* --- of programs that are gone ----------------------------------------------------------- */

static void undo_file(int root_fd, int dir_fd, const char *name)
{
    struct pfl_undo_log log = {0};
    const struct pfl_undo_entry *e;
    struct pfl_buf text;

    pfl_buf_init(&text, FILE_MAX_BYTES);
    if (pfl_tracefs_read(dir_fd, name, &text) == 0 &&
        pfl_undo_log_parse(&log, pfl_buf_get(&text)) == 0) {
        while ((e = pfl_undo_log_get_last(&log, NULL)) != NULL) {
            undo_one(root_fd, e);
            pfl_undo_log_remove(&log, e->number);
        }
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
