/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes files in threads.
 *
 * open starts the file's thread, which waits. submit gives it a copy of the job; it does the steps
 * and posts the file to the loop, which calls `done`. close asks the thread to exit after its
 * current job; then the last note joins it and frees the file. A write is repeated until all is
 * written or it fails; the first failure skips the following steps, except the closing ones.
 *
 * A file is made and removed by its name in a folder that was opened once: a user who may rename
 * folders on the path cannot have another folder's files removed.
 *
 * create: an open may block forever, too, on a file system whose server does not answer. Each
 * creation has its own thread, and the loop waits at most CREATE_WAIT_MS for it; after a creation
 * that took longer, only CREATE_WAIT_AGAIN_MS for a minute. An abandoned creation closes and
 * removes its file when it returns; there are at most CREATIONS_MAX of them. A removal (discard) is
 * done, waited for and counted the same way; if there is no slot the file stays.
 *
 * The thread and the loop share `job`, `result` and the flags under `lock`; the descriptors belong
 * to the thread once it runs. Limits: one job at a time; as many threads as the service allows
 * sessions that write.
 */
#include "service/port/disk_port.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/closer.h"
#include "base/log.h"
#include "base/mem.h"
#include "service/port/disk_index.h"

/* One write(2) of a descriptor that hangs cannot be interrupted; keep them short. */
#define WRITE_MAX_BYTES ((size_t)1 << 20)
#define COPY_MAX_BYTES  65536u /* at a time, on the thread's stack */

#define PLACES_WAIT_NS UINT64_C(20000000)

#define CREATIONS_MAX        4u
#define CREATE_WAIT_MS       300u
#define CREATE_WAIT_AGAIN_MS 20u
#define CREATE_WARY_MS       60000u

enum creation_state {
    CREATION_NONE,
    CREATION_WAITED_FOR, /* by the loop */
    CREATION_DONE,
    CREATION_GIVEN_UP,
};

struct creation {
    enum creation_state state; /* under the lock, as are fd and error */
    int fd;
    int error;
    int folder;          /* the thread's, owned; -1: none */
    char path[PATH_MAX]; /* the thread's */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t done; /* CLOCK_MONOTONIC */
    bool is_ready;
    uint64_t wary_until_ms;
    struct creation list[CREATIONS_MAX];
} creations = {.lock = PTHREAD_MUTEX_INITIALIZER};

static unsigned busy; /* the loop's: jobs and closings that have not ended */
static atomic_uint_fast64_t progress;

enum job_state {
    JOB_NONE,
    JOB_GIVEN, /* the thread shall do it, or does */
    JOB_DONE,  /* the loop shall take the result */
};

enum thread_state {
    THREAD_SERVES,
    THREAD_SHALL_EXIT, /* after its job */
    THREAD_HAS_LEFT,
};

struct pfl_disk_file {
    struct pfl_wakeup_note note; /* first: on_note casts */
    struct pfl_wakeup *wakeup;   /* borrowed; held */
    uv_thread_t thread;
    uv_mutex_t lock;
    uv_cond_t wake;
    pfl_disk_done_cb done; /* NULL once closed */
    void *user;
    int fds[PFL_DISK_SLOTS];      /* the thread's */
    off_t places[PFL_DISK_SLOTS]; /* where the thread is in them; -1: they have none */
    struct pfl_disk_job job;
    struct pfl_disk_result result;
    enum job_state job_state;
    enum thread_state thread_state;
    bool is_posted;
    bool is_placed; /* `places` are known */
};

static const char *get_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static int create_file(int folder, const char *path, int *ret_fd)
{
    int fd = openat(folder, get_name(path), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error;

    if (fd < 0)
        return errno;
    if (fchmod(fd, 0644) != 0) {
        error = errno;
        (void)close(fd);
        return error;
    }
    *ret_fd = fd;
    return 0;
}

/* A missing file is not a failure. */
static int remove_file(int folder, const char *path)
{
    return unlinkat(folder, get_name(path), 0) == 0 || errno == ENOENT ? 0 : errno;
}

static int write_all(int fd, struct pfl_span bytes, uint64_t *written)
{
    size_t at = 0;

    while (at < bytes.len) {
        size_t len = bytes.len - at < WRITE_MAX_BYTES ? bytes.len - at : WRITE_MAX_BYTES;
        ssize_t n = write(fd, bytes.data + at, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += (size_t)n;
        *written += (uint64_t)n;
        atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed);
    }
    return 0;
}

/* The file is appended to meanwhile; its first bytes stay. */
static int copy_bytes(int from, int to, uint64_t bytes)
{
    uint8_t part[COPY_MAX_BYTES];
    uint64_t written = 0;
    int error = 0;

    while (error == 0 && written < bytes) {
        uint64_t left = bytes - written;
        ssize_t n =
            pread(from, part, left < sizeof(part) ? (size_t)left : sizeof(part), (off_t)written);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO; /* another process truncated it */
        error = write_all(to, pfl_span_of(part, (size_t)n), &written);
    }
    return error;
}

/* Pipes, sockets and terminals cannot be synchronized (EINVAL), nor can what is on a file system
 * that cannot be written (EROFS): no failure. */
static int sync_file(int fd)
{
    return fdatasync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : errno;
}

static void close_slot(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static int do_step(struct pfl_disk_file *file, const struct pfl_disk_step *step,
                   struct pfl_disk_result *result)
{
    int *fd = &file->fds[step->slot];

    switch (step->kind) {
    case PFL_DISK_WRITE:
        return write_all(*fd, step->bytes, &result->written[step->slot]);
    case PFL_DISK_SYNC:
        return sync_file(*fd);
    case PFL_DISK_CREATE:
        close_slot(fd);
        return create_file(file->fds[PFL_DISK_FOLDER_SLOT], step->path, fd);
    case PFL_DISK_REMOVE:
        return remove_file(file->fds[PFL_DISK_FOLDER_SLOT], step->path);
    case PFL_DISK_COPY:
        return copy_bytes(file->fds[step->from], *fd, step->copy_bytes);
    case PFL_DISK_SHORTEN:
        result->shorten_error =
            pfl_disk_index_shorten(file->fds[PFL_DISK_FOLDER_SLOT], get_name(step->path), fd);
        return 0;
    case PFL_DISK_CLOSE:
        break;
    }
    close_slot(fd);
    return 0;
}

static struct pfl_disk_result do_job(struct pfl_disk_file *file, const struct pfl_disk_job *job)
{
    struct pfl_disk_result result = {0};

    for (size_t i = 0; i < job->steps_len; i++) {
        atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed);
        if (result.error == 0)
            result.error = do_step(file, &job->steps[i], &result);
        else if (job->steps[i].kind == PFL_DISK_CLOSE)
            (void)do_step(file, &job->steps[i], &result);
    }
    return result;
}

/* Gives up the lock: the loop takes it as soon as it knows, and shall not wait for this thread. */
static void unlock_and_post(struct pfl_disk_file *file)
{
    bool is_posted = file->is_posted;

    file->is_posted = true;
    uv_mutex_unlock(&file->lock);
    if (!is_posted)
        pfl_wakeup_post(file->wakeup, &file->note);
}

/* In the thread: another process that has the file open can keep its position locked (a read of a
 * FUSE file). Returns locked. */
static void find_places(struct pfl_disk_file *file)
{
    off_t places[PFL_DISK_SLOTS];

    for (size_t i = 0; i < PFL_DISK_SLOTS; i++)
        places[i] = file->fds[i] >= 0 ? lseek(file->fds[i], 0, SEEK_CUR) : -1;
    uv_mutex_lock(&file->lock);
    memcpy(file->places, places, sizeof(places));
    file->is_placed = true;
}

static void run_thread(void *user)
{
    struct pfl_disk_file *file = user;
    sigset_t all;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    find_places(file);
    uv_cond_signal(&file->wake); /* share */
    while (file->job_state == JOB_GIVEN || file->thread_state == THREAD_SERVES) {
        struct pfl_disk_result result;

        if (file->job_state != JOB_GIVEN) {
            uv_cond_wait(&file->wake, &file->lock);
            continue;
        }
        uv_mutex_unlock(&file->lock);
        result = do_job(file, &file->job);
        find_places(file);
        file->result = result;
        file->job_state = JOB_DONE;
        unlock_and_post(file);
        uv_mutex_lock(&file->lock);
    }
    for (size_t i = 0; i < PFL_DISK_SLOTS; i++)
        close_slot(&file->fds[i]);
    file->thread_state = THREAD_HAS_LEFT;
    unlock_and_post(file);
}

static void free_file(struct pfl_disk_file *file)
{
    uv_cond_destroy(&file->wake);
    uv_mutex_destroy(&file->lock);
    pfl_mem_free(file);
}

static void on_note(struct pfl_wakeup_note *note)
{
    struct pfl_disk_file *file = (struct pfl_disk_file *)(void *)note;
    struct pfl_disk_result result;
    bool has_result;
    bool has_left;

    uv_mutex_lock(&file->lock);
    result = file->result;
    has_result = file->job_state == JOB_DONE;
    has_left = file->thread_state == THREAD_HAS_LEFT;
    if (has_result)
        file->job_state = JOB_NONE;
    file->is_posted = false;
    uv_mutex_unlock(&file->lock);
    busy -= (unsigned)has_result + has_left;
    if (has_left) {
        (void)uv_thread_join(&file->thread);
        pfl_wakeup_release(file->wakeup);
        free_file(file);
        return;
    }
    if (has_result && file->done != NULL)
        file->done(file->user, &result);
}

/* ---- creating ---- */

static int open_folder_of(char *path, int *ret_fd)
{
    char *slash = strrchr(path, '/');

    if (slash != NULL)
        slash[slash == path ? 1 : 0] = '\0';
    *ret_fd = open(slash != NULL ? path : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return *ret_fd >= 0 ? 0 : errno;
}

/* Of a file, or without a folder of the folder itself. */
static void *run_creation(void *user)
{
    struct creation *self = user;
    int fd = -1;
    int error = self->folder >= 0 ? create_file(self->folder, self->path, &fd)
                                  : open_folder_of(self->path, &fd);

    (void)pthread_mutex_lock(&creations.lock);
    if (self->state == CREATION_GIVEN_UP) {
        (void)pthread_mutex_unlock(&creations.lock);
        if (error == 0 && self->folder >= 0)
            (void)remove_file(self->folder, self->path);
        if (error == 0)
            (void)close(fd);
        close_slot(&self->folder);
        (void)pthread_mutex_lock(&creations.lock);
        self->state = CREATION_NONE;
    } else {
        close_slot(&self->folder);
        self->fd = fd;
        self->error = error;
        self->state = CREATION_DONE;
        (void)pthread_cond_signal(&creations.done);
    }
    (void)pthread_mutex_unlock(&creations.lock);
    return NULL;
}

static void *run_removal(void *user)
{
    struct creation *self = user;
    int error = remove_file(self->folder, self->path);

    close_slot(&self->folder);
    (void)pthread_mutex_lock(&creations.lock);
    self->error = error;
    self->state = self->state == CREATION_GIVEN_UP ? CREATION_NONE : CREATION_DONE;
    (void)pthread_cond_broadcast(&creations.done);
    (void)pthread_mutex_unlock(&creations.lock);
    return NULL;
}

static int start_creation(struct creation *self, void *(*run)(void *))
{
    pthread_condattr_t clock;
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    int error;

    if (!creations.is_ready) {
        (void)pthread_condattr_init(&clock);
        (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&creations.done, &clock);
        (void)pthread_condattr_destroy(&clock);
        creations.is_ready = true;
    }
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    self->state = CREATION_WAITED_FOR;
    error = pthread_create(&thread, &attr, run, self);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (error != 0) {
        self->state = CREATION_NONE;
        close_slot(&self->folder);
    }
    return error;
}

static uint64_t get_now_ms(void)
{
    return pfl_clock_now_ns(PFL_CLOCK_MONOTONIC) / 1000000;
}

/* Locked. 0 or an errno. */
static int wait_for_creation(struct creation *self)
{
    uint64_t now_ms = get_now_ms();
    uint64_t end_ms =
        now_ms + (now_ms < creations.wary_until_ms ? CREATE_WAIT_AGAIN_MS : CREATE_WAIT_MS);
    struct timespec end = {.tv_sec = (time_t)(end_ms / 1000),
                           .tv_nsec = (long)(end_ms % 1000) * 1000000};

    while (self->state == CREATION_WAITED_FOR) {
        if (pthread_cond_timedwait(&creations.done, &creations.lock, &end) == 0 ||
            self->state == CREATION_DONE)
            continue;
        self->state = CREATION_GIVEN_UP;
        creations.wary_until_ms = get_now_ms() + CREATE_WARY_MS;
        return ETIMEDOUT;
    }
    self->state = CREATION_NONE;
    return self->error;
}

/* In a thread; 0 or an errno. */
static int run_for_path(int folder, const char *path, void *(*run)(void *), int *ret_fd)
{
    struct creation *free_one = NULL;
    int error = EBUSY;

    if (strlen(path) >= PATH_MAX)
        return ENAMETOOLONG;
    (void)pthread_mutex_lock(&creations.lock);
    for (size_t i = 0; i < CREATIONS_MAX && free_one == NULL; i++) {
        if (creations.list[i].state == CREATION_NONE)
            free_one = &creations.list[i];
    }
    if (free_one != NULL) {
        (void)memcpy(free_one->path, path, strlen(path) + 1);
        free_one->folder = folder >= 0 ? fcntl(folder, F_DUPFD_CLOEXEC, 0) : -1;
        error = folder >= 0 && free_one->folder < 0 ? errno : start_creation(free_one, run);
    }
    if (error == 0)
        error = wait_for_creation(free_one);
    if (error == 0)
        *ret_fd = free_one->fd;
    (void)pthread_mutex_unlock(&creations.lock);
    return error;
}

static int open_folder(void *disk, const char *path, int *ret_folder)
{
    (void)disk;
    return run_for_path(-1, path, run_creation, ret_folder);
}

static int create(void *disk, int folder, const char *path, int *ret_fd)
{
    (void)disk;
    return run_for_path(folder, path, run_creation, ret_fd);
}

static void discard(void *disk, int folder, const char *path, int fd)
{
    int error = 0;
    int unused;

    (void)disk;
    pfl_closer_close(fd, PFL_CLOSER_NOBODY);
    if (path != NULL)
        error = run_for_path(folder, path, run_removal, &unused);
    if (error != 0)
        pfl_log_warn("file-not-removed", "path=%s reason=\"%s\"", pfl_log_quote_str(path),
                     error == ETIMEDOUT || error == EBUSY ? "its file system does not answer"
                                                          : strerror(error));
}

static int start_thread(struct pfl_disk_file *file)
{
    if (uv_mutex_init(&file->lock) != 0)
        goto no_lock;
    if (uv_cond_init(&file->wake) != 0)
        goto no_cond;
    if (uv_thread_create(&file->thread, run_thread, file) == 0)
        return 0;
    uv_cond_destroy(&file->wake);
no_cond:
    uv_mutex_destroy(&file->lock);
no_lock:
    pfl_mem_free(file);
    return PFL_ENOMEM;
}

static int open_file(void *disk, const int fds[PFL_DISK_SLOTS], pfl_disk_done_cb done, void *user,
                     struct pfl_disk_file **ret_file)
{
    struct pfl_disk_file *file = pfl_mem_zalloc(sizeof(*file));
    int rc;

    if (file == NULL)
        return PFL_ENOMEM;
    memcpy(file->fds, fds, sizeof(file->fds));
    file->note.on_note = on_note;
    file->wakeup = disk;
    file->done = done;
    file->user = user;
    rc = start_thread(file);
    if (rc != 0)
        return rc;
    pfl_wakeup_hold(file->wakeup);
    *ret_file = file;
    return 0;
}

static void submit(struct pfl_disk_file *file, const struct pfl_disk_job *job)
{
    uv_mutex_lock(&file->lock);
    file->job = *job;
    file->job_state = JOB_GIVEN;
    uv_cond_signal(&file->wake);
    uv_mutex_unlock(&file->lock);
    busy++;
}

static void close_file(struct pfl_disk_file *file)
{
    file->done = NULL;
    uv_mutex_lock(&file->lock);
    file->thread_state = THREAD_SHALL_EXIT;
    uv_cond_signal(&file->wake);
    uv_mutex_unlock(&file->lock);
    busy++;
}

unsigned pfl_disk_port_get_busy(void)
{
    return busy;
}

uint64_t pfl_disk_port_get_progress(void)
{
    return atomic_load_explicit(&progress, memory_order_relaxed);
}

/* Descriptors may be duplicated while the thread waits for a job, or starts, which others can
 * delay. */
static int share(struct pfl_disk_file *file, unsigned slot, int *ret_fd, uint64_t *ret_bytes)
{
    int fd = file->fds[slot];
    int flags = fcntl(fd, F_GETFL);
    off_t offset = -1;

    uv_mutex_lock(&file->lock);
    if (!file->is_placed)
        (void)uv_cond_timedwait(&file->wake, &file->lock, PLACES_WAIT_NS);
    if (file->is_placed)
        offset = file->places[slot];
    uv_mutex_unlock(&file->lock);
    if (flags < 0 || offset < 0)
        return EBUSY;
    if ((flags & O_ACCMODE) == O_WRONLY)
        return EACCES;
    fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    *ret_fd = fd;
    *ret_bytes = (uint64_t)offset;
    return 0;
}

const struct pfl_disk_ops pfl_disk_port_ops = {.open_folder = open_folder,
                                               .create = create,
                                               .discard = discard,
                                               .share = share,
                                               .open = open_file,
                                               .submit = submit,
                                               .close = close_file};
