/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes chunks to disk.
 *
 *     reserve/commit -> current chunk -> queue -> (one write at a time, worker) -> spare
 *
 * Happy path: packets fill the current chunk; a full one is queued; the worker writes the head of
 * the queue, a short write is continued, a written chunk is kept for reuse. A packet larger than a
 * chunk gets a chunk of its own size.
 *
 * At the end the worker syncs the file, renames it from PATH.partial to PATH and syncs the folder:
 * the old file is there until the new one is complete.
 *
 * Failures: a failed write (disk full) ends writing: the file is truncated after its last whole
 * packet, on_failed is called once, later packets are dropped with PFL_EIO; the partial file stays.
 * If the folder is not writable, the path itself is written. Without a thread the loop writes.
 * Ownership: all chunks belong to the file; one work is at the worker at most. Limits: the owner
 * stops at the high-water mark; one more read callback may add to it.
 */
#include "consumer/recording/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/mem.h"

#define DEFAULT_CHUNK_BYTES (1024u * 1024)
#define SPARES_MAX          16u /* the high-water mark's */
#define PARTIAL_SUFFIX      ".partial"
#define LINKS_MAX           40u /* the kernel's number */

struct chunk {
    struct pfl_list node;
    size_t capacity;
    size_t len;
    size_t sent;
    uint8_t data[];
};

struct pfl_trace_file {
    struct pfl_trace_file_conf conf; /* path not valid */
    char *path;                      /* owned; NULL: written directly */
    char *partial;                   /* owned; NULL with path */
    int fd;                          /* owned */
    struct pfl_list queue;           /* of struct chunk, owned; the head is being written */
    struct pfl_list spares;          /* owned */
    struct chunk *current;           /* owned; NULL: none */
    size_t spares_len;
    size_t backlog_bytes; /* queued, current excluded */
    uint64_t written_bytes;
    uint64_t whole_bytes; /* end of the last chunk that is written */
    struct pfl_work work; /* writes the head, or ends the file */
    ssize_t result;       /* of the write; negative: an errno value */
    bool is_writing;
    bool was_congested;
    bool is_closing;
    enum pfl_trace_file_fate fate;
    bool has_partial; /* it is there under that name */
    int error;        /* errno of the first failure */
    void (*on_closed)(void *user, const struct pfl_trace_file_end *end);
};

static void write_next(struct pfl_trace_file *f);

/* ---- where it lies ---- */

/* Names of open files: such a file may be regular, but only its owner may rename it. */
static bool is_open_files_name(const char *path)
{
    static const char *const standard[] = {"-", "/dev/stdout", "/dev/stderr"};

    for (size_t i = 0; i < sizeof(standard) / sizeof(standard[0]); i++)
        if (strcmp(path, standard[i]) == 0)
            return true;
    return strncmp(path, "/dev/fd/", 8) == 0 || strncmp(path, "/proc/", 6) == 0;
}

bool pfl_trace_file_is_direct(const char *path)
{
    struct stat st;

    return is_open_files_name(path) || (stat(path, &st) == 0 && !S_ISREG(st.st_mode));
}

static int open_name(const char *path)
{
    if (strcmp(path, "-") == 0)
        return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

/* The same as the kernel with fs.protected_symlinks, which does not apply to readlink(2), and with
 * fs.protected_fifos and _regular: in a folder such as /tmp another user's link may point at any
 * file of ours, and what is written into another user's pipe or file, that user has. */
static bool may_use(const char *folder, const struct stat *there)
{
    struct stat dir;

    if (stat(folder, &dir) != 0)
        return false;
    if ((dir.st_mode & S_ISVTX) == 0 || (dir.st_mode & S_IWOTH) == 0)
        return true;
    /* A second name of a file of ours may be another user's doing. */
    return there->st_uid == geteuid() ? !S_ISREG(there->st_mode) || there->st_nlink == 1
                                      : there->st_uid == dir.st_uid;
}

static void name_folder(const char *path, char ret_folder[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        (void)snprintf(ret_folder, PATH_MAX, ".");
    else
        (void)snprintf(ret_folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* `path` becomes what the link there says. False: there is none; errno, not 0: it is not followed.
 */
static bool follow_link(char path[PATH_MAX])
{
    char folder[PATH_MAX];
    char target[PATH_MAX];
    struct stat st;
    ssize_t len = -1;
    int n = 0;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC); /* the link that is judged is read */

    errno = 0;
    if (fd < 0)
        return false;
    name_folder(path, folder);
    if (fstat(fd, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (may_use(folder, &st))
            len = readlinkat(fd, "", target, sizeof(target) - 1);
        if (len > 0)
            n = snprintf(path, PATH_MAX, "%s%s%.*s", target[0] == '/' ? "" : folder,
                         target[0] == '/' ? "" : "/", (int)len, target);
        errno = len > 0 && n > 0 && n < PATH_MAX ? 0 : ELOOP;
    }
    (void)close(fd);
    return errno == 0 && len > 0;
}

/* Of the file that is to be replaced, behind symbolic links; or of what is to be made. 0 or an
 * errno. */
static int name_paths(struct pfl_trace_file *f, const char *path)
{
    char real[PATH_MAX];
    unsigned links = 0;
    size_t size;

    if (snprintf(real, sizeof(real), "%s", path) >= (int)sizeof(real))
        return ENAMETOOLONG;
    errno = 0;
    while (links < LINKS_MAX && !is_open_files_name(real) && follow_link(real))
        links++;
    if (links == LINKS_MAX || errno != 0)
        return ELOOP;
    f->path = pfl_mem_strdup(real);
    if (f->path == NULL)
        return ENOMEM;
    size = strlen(f->path) + sizeof(PARTIAL_SUFFIX);
    f->partial = pfl_mem_alloc(size);
    if (f->partial == NULL)
        return ENOMEM;
    snprintf(f->partial, size, "%s" PARTIAL_SUFFIX, f->path);
    return 0;
}

static void forget_paths(struct pfl_trace_file *f)
{
    pfl_mem_free(f->path);
    pfl_mem_free(f->partial);
    f->path = NULL;
    f->partial = NULL;
}

/* What an earlier run left. Not what another user put there, or what has another name, too: that
 * name's file would be cut. */
static bool is_left_over(const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1;
}

/* One that another process writes is left alone; it may as well be renamed in the meantime. */
static int open_left_over(const struct pfl_trace_file *f)
{
    int fd = open(f->partial, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int err = ESTALE;
    struct stat st;
    struct stat named;

    if (fd >= 0 && fstat(fd, &st) == 0 && is_left_over(&st)) {
        err = flock(fd, LOCK_EX | LOCK_NB) != 0 || lstat(f->partial, &named) != 0 ||
                      st.st_ino != named.st_ino || st.st_dev != named.st_dev
                  ? EBUSY
                  : 0;
        if (err == 0 && ftruncate(fd, 0) != 0)
            err = errno;
    }
    if (err == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    errno = err;
    return -1;
}

/* It stays as readable as the file that it replaces; of another user's file, at most so. */
static void take_mode(const struct pfl_trace_file *f, int fd)
{
    struct stat old;
    struct stat new;

    if (lstat(f->path, &old) != 0 || !S_ISREG(old.st_mode) || fstat(fd, &new) != 0)
        return;
    if (old.st_uid != geteuid())
        old.st_mode &= new.st_mode;
    (void)fchmod(fd, old.st_mode & 0777);
}

static int open_partial(const struct pfl_trace_file *f)
{
    int fd = open(f->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (fd < 0 && errno == EEXIST)
        fd = open_left_over(f);
    else if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) { /* another process was faster */
        close(fd);
        errno = EBUSY;
        fd = -1;
    }
    if (fd >= 0)
        take_mode(f, fd);
    return fd;
}

static bool is_beside_impossible(int err)
{
    return err == EACCES || err == EPERM || err == ENAMETOOLONG;
}

/* 0 or an errno. */
static int judge_there(const char *path, const struct stat *there, bool no_clobber)
{
    char folder[PATH_MAX];

    name_folder(path, folder);
    if (S_ISLNK(there->st_mode))
        return ELOOP;
    if (S_ISREG(there->st_mode) && no_clobber)
        return EEXIST;
    return may_use(folder, there) ? 0 : EPERM;
}

/* The path itself, behind links: a pipe or a device, or a file that none can be beside. What was
 * judged is opened, whatever has its name meanwhile. */
static int open_there(const char *path, bool no_clobber)
{
    int path_fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    char name[32];
    struct stat st;
    int err;
    int fd = -1;

    if (path_fd < 0)
        return errno != ENOENT ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
    err = fstat(path_fd, &st) != 0 ? errno : judge_there(path, &st, no_clobber);
    if (err == 0) {
        fd = open(name, O_WRONLY | (S_ISREG(st.st_mode) ? O_TRUNC : 0) | O_CLOEXEC);
        err = errno;
    }
    (void)close(path_fd);
    errno = err;
    return fd;
}

static bool is_irregular(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Behind links. */
static int open_path(struct pfl_trace_file *f)
{
    char there[PATH_MAX];
    int fd = -1;

    (void)snprintf(there, sizeof(there), "%s", f->path);
    if (!is_open_files_name(there) && !is_irregular(there)) {
        fd = open_partial(f);
        if (fd >= 0 || !is_beside_impossible(errno))
            return fd;
    }
    forget_paths(f);
    return is_open_files_name(there) ? open_name(there) : open_there(there, f->conf.no_clobber);
}

static int open_file(struct pfl_trace_file *f)
{
    const char *path = f->conf.path;
    struct stat st;

    if (is_open_files_name(path))
        return open_name(path);
    if (f->conf.no_clobber && lstat(path, &st) == 0 && !pfl_trace_file_is_direct(path)) {
        errno = EEXIST;
        return -1;
    }
    errno = name_paths(f, path);
    return errno == 0 ? open_path(f) : -1;
}

int pfl_trace_file_open(const struct pfl_trace_file_conf *conf, struct pfl_trace_file **ret_file)
{
    struct pfl_trace_file *f = pfl_mem_zalloc(sizeof(*f));
    int err;

    if (f == NULL)
        return PFL_ENOMEM;
    f->conf = *conf;
    if (f->conf.chunk_bytes == 0)
        f->conf.chunk_bytes = DEFAULT_CHUNK_BYTES;
    pfl_list_init(&f->queue);
    pfl_list_init(&f->spares);
    f->fd = open_file(f);
    f->conf.path = NULL;
    if (f->fd < 0) {
        err = errno;
        forget_paths(f);
        pfl_mem_free(f);
        errno = err;
        return err == ENOMEM ? PFL_ENOMEM : PFL_EIO;
    }
    f->has_partial = f->partial != NULL;
    *ret_file = f;
    return 0;
}

bool pfl_trace_file_is_gone(const struct pfl_trace_file *self)
{
    struct stat st;
    struct stat named;

    return self->has_partial && fstat(self->fd, &st) == 0 &&
           (lstat(self->partial, &named) != 0 || st.st_ino != named.st_ino ||
            st.st_dev != named.st_dev);
}

uint64_t pfl_trace_file_get_room(const struct pfl_trace_file *self, uint64_t *ret_disk_bytes)
{
    struct statvfs fs;
    struct stat st;

    if (ret_disk_bytes != NULL)
        *ret_disk_bytes = UINT64_MAX;
    if (fstat(self->fd, &st) != 0 || !S_ISREG(st.st_mode) || fstatvfs(self->fd, &fs) != 0 ||
        fs.f_blocks == 0)
        return UINT64_MAX;
    if (ret_disk_bytes != NULL)
        *ret_disk_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    return (uint64_t)(geteuid() == 0 ? fs.f_bfree : fs.f_bavail) * fs.f_frsize;
}

/* ---- chunks ---- */

static struct chunk *take_chunk(struct pfl_trace_file *f, size_t len)
{
    size_t capacity = len > f->conf.chunk_bytes ? len : f->conf.chunk_bytes;
    struct chunk *c;

    if (capacity == f->conf.chunk_bytes && !pfl_list_is_empty(&f->spares)) {
        c = PFL_CONTAINER_OF(f->spares.prev, struct chunk, node); /* of all, soonest in a cache */
        pfl_list_remove(&c->node);
        f->spares_len--;
    } else {
        c = pfl_mem_alloc(sizeof(*c) + capacity);
    }
    if (c != NULL) {
        memset(c, 0, sizeof(*c));
        c->capacity = capacity;
    }
    return c;
}

static void give_chunk_back(struct pfl_trace_file *f, struct chunk *c)
{
    if (c->capacity != f->conf.chunk_bytes || f->spares_len == SPARES_MAX) {
        pfl_mem_free(c);
        return;
    }
    pfl_list_append(&f->spares, &c->node);
    f->spares_len++;
}

static void queue_current(struct pfl_trace_file *f)
{
    if (f->current == NULL)
        return;
    f->backlog_bytes += f->current->len;
    pfl_list_append(&f->queue, &f->current->node);
    f->current = NULL;
    write_next(f);
}

int pfl_trace_file_reserve(struct pfl_trace_file *self, size_t len, uint8_t **ret_room)
{
    if (self->error != 0)
        return PFL_EIO;
    if (self->current != NULL && self->current->capacity - self->current->len < len) {
        if (self->current->len == 0) {
            give_chunk_back(self, self->current);
            self->current = NULL;
        }
        queue_current(self);
    }
    if (self->current == NULL)
        self->current = take_chunk(self, len);
    if (self->current == NULL)
        return PFL_ENOMEM;
    *ret_room = self->current->data + self->current->len;
    return 0;
}

void pfl_trace_file_commit(struct pfl_trace_file *self, size_t len)
{
    self->current->len += len;
}

void pfl_trace_file_push(struct pfl_trace_file *self)
{
    if (!self->is_writing && self->error == 0 && self->current != NULL && self->current->len != 0)
        queue_current(self);
}

bool pfl_trace_file_is_congested(const struct pfl_trace_file *self)
{
    return self->backlog_bytes >= PFL_TRACE_FILE_HIGH_BYTES;
}

uint64_t pfl_trace_file_get_written(const struct pfl_trace_file *self)
{
    return self->written_bytes;
}

uint64_t pfl_trace_file_get_size(const struct pfl_trace_file *self)
{
    uint64_t size = self->whole_bytes + self->backlog_bytes;

    return self->current != NULL ? size + self->current->len : size;
}

/* How many of the first `len` bytes of a chunk belong to packets that lie in them whole. */
static size_t whole_packets(const struct chunk *c, size_t len)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(c->data, len));
    struct pfl_field f;
    size_t whole = 0;

    while (pfl_reader_field(&r, &f))
        whole += f.raw.len;
    return whole;
}

static void drop_chunks(struct pfl_list *list)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    PFL_LIST_EACH_SAFE (it, tmp, list)
        pfl_mem_free(PFL_CONTAINER_OF(it, struct chunk, node));
    pfl_list_init(list);
}

static void fail(struct pfl_trace_file *f, int err)
{
    struct chunk *head = PFL_CONTAINER_OF(f->queue.next, struct chunk, node);
    uint64_t whole = f->whole_bytes + whole_packets(head, head->sent);

    f->error = err;
    if (ftruncate(f->fd, (off_t)whole) == 0)
        f->written_bytes = whole;
    drop_chunks(&f->queue);
    f->backlog_bytes = 0;
    pfl_mem_free(f->current);
    f->current = NULL;
    if (!f->is_closing)
        f->conf.on_failed(f->conf.user, err);
}

/* ---- the end, in a thread ---- */

/* What cannot be synced (a pipe) is no failure. */
static int sync_fd(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP ? 0 : errno;
}

static int sync_folder(const char *path)
{
    char folder[PATH_MAX];
    int err;
    int fd;

    name_folder(path, folder);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* one may write into a folder that one may not read */
    err = sync_fd(fd);
    close(fd);
    return err;
}

/* Two that write the same path: with no_clobber the second one fails. */
static int take_path(const struct pfl_trace_file *f)
{
    if (!f->conf.no_clobber)
        return rename(f->partial, f->path) == 0 ? 0 : errno;
    if (link(f->partial, f->path) == 0)
        return unlink(f->partial) == 0 ? 0 : errno;
    if (errno == EEXIST)
        return EEXIST;
    /* A file system without links. */
    return access(f->path, F_OK) == 0 ? EEXIST : rename(f->partial, f->path) == 0 ? 0 : errno;
}

static void run_end(struct pfl_work *work)
{
    struct pfl_trace_file *f = PFL_CONTAINER_OF(work, struct pfl_trace_file, work);
    bool is_gone = pfl_trace_file_is_gone(f);
    bool is_kept = f->fate != PFL_TRACE_FILE_REMOVED && f->error == 0;
    int err = is_kept ? is_gone ? ESTALE : sync_fd(f->fd) : 0;

    if (err == 0 && is_kept && f->fate == PFL_TRACE_FILE_WHOLE && f->has_partial) {
        err = take_path(f);
        if (err == 0) {
            f->has_partial = false;
            err = sync_folder(f->path);
        } else if (err == ENOENT && pfl_trace_file_is_gone(f)) { /* while it was synced */
            is_gone = true;
            err = ESTALE;
        }
    }
    if (is_gone) {
        f->has_partial = false;
        f->written_bytes = 0;
    }
    if ((f->fate == PFL_TRACE_FILE_REMOVED || f->written_bytes == 0) && f->has_partial &&
        unlink(f->partial) == 0)
        f->has_partial = false;
    if (close(f->fd) != 0 && err == 0 && is_kept)
        err = errno;
    if (f->error == 0)
        f->error = err;
}

static void on_ended(struct pfl_work *work)
{
    struct pfl_trace_file *f = PFL_CONTAINER_OF(work, struct pfl_trace_file, work);
    void (*on_closed)(void *user, const struct pfl_trace_file_end *end) = f->on_closed;
    struct pfl_trace_file_end end = {.err = f->error,
                                     .written_bytes = f->written_bytes,
                                     .partial = f->has_partial ? f->partial : NULL};

    drop_chunks(&f->queue);
    drop_chunks(&f->spares);
    pfl_mem_free(f->current);
    on_closed(f->conf.user, &end);
    forget_paths(f);
    pfl_mem_free(f);
}

static void finish(struct pfl_trace_file *f)
{
    f->work = (struct pfl_work){.run = run_end, .on_done = on_ended};
    pfl_worker_run(f->conf.worker, &f->work);
}

/* ---- writing ---- */

/* In a thread. */
static void run_write(struct pfl_work *work)
{
    struct pfl_trace_file *f = PFL_CONTAINER_OF(work, struct pfl_trace_file, work);
    const struct chunk *head = PFL_CONTAINER_OF(f->queue.next, struct chunk, node);

    f->result = write(f->fd, head->data + head->sent, head->len - head->sent);
    if (f->result < 0)
        f->result = -errno;
}

static void finish_head(struct pfl_trace_file *f, struct chunk *head)
{
    pfl_list_remove(&head->node);
    f->backlog_bytes -= head->len;
    f->whole_bytes += head->len;
    give_chunk_back(f, head);
}

static void on_written(struct pfl_work *work)
{
    struct pfl_trace_file *f = PFL_CONTAINER_OF(work, struct pfl_trace_file, work);
    struct chunk *head = PFL_CONTAINER_OF(f->queue.next, struct chunk, node);

    f->is_writing = false;
    if (f->result > 0) {
        head->sent += (size_t)f->result;
        f->written_bytes += (uint64_t)f->result;
        if (head->sent == head->len)
            finish_head(f, head);
    } else if (f->result != -EINTR && f->result != -EAGAIN) {
        fail(f, f->result == 0 ? ENOSPC : (int)-f->result);
    }
    f->was_congested = f->was_congested || pfl_trace_file_is_congested(f);
    write_next(f);
    if (f->is_closing && !f->is_writing) {
        finish(f);
        return;
    }
    if (f->was_congested && f->backlog_bytes <= PFL_TRACE_FILE_LOW_BYTES) {
        f->was_congested = false;
        f->conf.on_writable(f->conf.user);
    }
}

static void write_next(struct pfl_trace_file *f)
{
    f->was_congested = f->was_congested || pfl_trace_file_is_congested(f);
    if (f->is_writing || f->error != 0 || pfl_list_is_empty(&f->queue))
        return;
    f->work = (struct pfl_work){.run = run_write, .on_done = on_written};
    f->is_writing = true;
    pfl_worker_run(f->conf.worker, &f->work);
}

void pfl_trace_file_close(struct pfl_trace_file *self, enum pfl_trace_file_fate fate,
                          void (*on_closed)(void *user, const struct pfl_trace_file_end *end))
{
    self->is_closing = true;
    self->fate = fate;
    self->on_closed = on_closed;
    if (self->current != NULL && self->current->len != 0)
        queue_current(self);
    if (!self->is_writing)
        finish(self);
}
