/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of bytes through a ring and an unnamed file: see spool_port.h.
 *
 * Happy path: bytes collect in the ring; when there are enough for a job, a thread appends them to
 * the file. When `front` is empty, a thread reads a copy of the file's oldest bytes, and frees the
 * blocks of used ones. While the file is empty, bytes are taken straight from the ring. A file that
 * was used up is truncated and starts again. One job at a time, so that the file has one owner at a
 * time. Process deaths: bytes that a thread wrote count after the next note; used ones may be
 * overwritten, or their blocks freed, from the call after their note on (ring_kept, file_kept).
 * Failures: if a file cannot be made or written (disk full, or the limit), the spool becomes full:
 * nothing is lost, and each read tries again. Bytes that cannot be read are lost: broken. Without a
 * thread the loop does the jobs itself.
 * Ownership: the file, the front, the job; the ring is the owner's. Limits: PFL_SPOOL_JOB_BYTES in
 * front; in the ring those and PFL_SPOOL_WRITE_BYTES, twice; of the file the pool's.
 */
#include "agent/daemon/stream/spool_port.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"

enum job_kind {
    JOB_NONE,
    JOB_WRITE,
    JOB_READ,
    JOB_WAIT,  /* does nothing: after it a note was published */
    JOB_EMPTY, /* all of the file was used */
    JOB_CLOSE,
};

struct pfl_spool {
    struct pfl_spool_conf conf;
    void (*on_idle)(void *user); /* after close, as long as a thread reads the ring */
    struct pfl_spool_state now;
    uint64_t ring_kept;   /* the ring's begin at the last note: from there on it stays */
    uint64_t file_kept;   /* the same of the file */
    struct pfl_buf front; /* a copy of the file's oldest; owned by the job that reads */
    struct pfl_work work;
    enum job_kind job;
    size_t job_len; /* of the ring, for the job that writes */
    uint64_t job_free_to;
    int fd; /* owned; -1: no file now */
    int job_errno;
    uint64_t counted_bytes; /* of the disk, in the pool */
    uint64_t freed;         /* blocks before it were freed; counted bytes begin here */
    bool can_punch;         /* the file system gives single blocks back */
    bool is_write_held;     /* a write failed: not again before something was read */
    bool is_broken;
    bool is_closing;
};

static int open_file(const char *dir)
{
    return open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

int pfl_spool_pool_try(const struct pfl_spool_pool *pool)
{
    int fd = open_file(pool->dir);

    if (fd < 0)
        return PFL_EIO;
    (void)close(fd);
    return 0;
}

static size_t get_ring_len(const struct pfl_spool *s)
{
    return (size_t)(s->now.ring_end - s->now.ring_begin);
}

static bool is_file_empty(const struct pfl_spool *s)
{
    return s->now.file_begin == s->now.file_end;
}

/* Of the `len` bytes from `at` on, those up to the ring's end. */
static struct pfl_span get_ring_piece(const struct pfl_spool *s, uint64_t at, size_t len)
{
    size_t offset = (size_t)at & (s->conf.ring_bytes - 1);
    size_t left = s->conf.ring_bytes - offset;

    return pfl_span_of(s->conf.ring + offset, len < left ? len : left);
}

/* ---- in a thread ---- */

static int write_piece(int fd, struct pfl_span left, uint64_t at)
{
    while (left.len != 0) {
        ssize_t n = pwrite(fd, left.data, left.len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += (uint64_t)n;
        left = pfl_span_of(left.data + n, left.len - (size_t)n);
    }
    return 0;
}

static int write_all(struct pfl_spool *s)
{
    size_t done = 0;
    int err = 0;

    while (err == 0 && done < s->job_len) {
        struct pfl_span piece = get_ring_piece(s, s->now.ring_begin + done, s->job_len - done);

        err = write_piece(s->fd, piece, s->now.file_end + done);
        done += piece.len;
    }
    return err;
}

static int read_some(struct pfl_spool *s)
{
    uint64_t there = s->now.file_end - s->now.file_begin;
    size_t len = there < PFL_SPOOL_JOB_BYTES ? (size_t)there : PFL_SPOOL_JOB_BYTES;
    uint8_t *room;

    if (pfl_buf_reserve(&s->front, len, &room) != 0)
        return ENOMEM; /* cannot be: have_front made it */
    while (len != 0) {
        ssize_t n = pread(s->fd, room, len, (off_t)(s->now.file_begin + s->front.len));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        pfl_buf_extend(&s->front, (size_t)n);
        room += n;
        len -= (size_t)n;
    }
    return 0;
}

static bool punch(int fd, uint64_t from, uint64_t to)
{
    return from == to || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                                   (off_t)(to - from)) == 0;
}

static void run_job(struct pfl_work *work)
{
    struct pfl_spool *s = PFL_CONTAINER_OF(work, struct pfl_spool, work);

    s->job_errno = 0;
    if (s->job == JOB_WRITE)
        s->job_errno = write_all(s);
    if (s->job == JOB_READ)
        s->job_errno = read_some(s);
    if (s->job == JOB_READ && s->can_punch)
        s->can_punch = punch(s->fd, s->freed, s->job_free_to);
    if (s->job == JOB_EMPTY)
        (void)!ftruncate(s->fd, 0);
    if (s->job == JOB_CLOSE && s->fd >= 0)
        (void)close(s->fd);
}

/* ---- in the loop ---- */

/* Of the disk. */
static void count(struct pfl_spool *s, uint64_t bytes)
{
    pfl_spool_pool_count(&s->conf.pool->disk_used_bytes, &s->conf.pool->disk_used_by, s->conf.who,
                         &s->counted_bytes, bytes);
}

static void uncount(struct pfl_spool *s, uint64_t to)
{
    assert(to >= s->freed);
    count(s, s->counted_bytes - (to - s->freed));
    s->freed = to;
}

static void finish_write(struct pfl_spool *s)
{
    if (s->job_errno == 0) {
        s->now.file_end += s->job_len;
        s->now.ring_begin += s->job_len;
        return;
    }
    count(s, s->counted_bytes - s->job_len);
    s->is_write_held = true;
    pfl_log_warn("spool-not-written", "bytes=%zu reason=\"%s\"", s->job_len,
                 strerror(s->job_errno));
}

static void finish_read(struct pfl_spool *s)
{
    if (s->job_errno != 0) {
        s->is_broken = true;
        pfl_buf_clear(&s->front);
        pfl_log_error("spool-not-read", "reason=\"%s\"", strerror(s->job_errno));
        return;
    }
    s->is_write_held = false;
    if (s->can_punch)
        uncount(s, s->job_free_to);
}

static void finish_empty(struct pfl_spool *s)
{
    uncount(s, s->now.file_end);
    s->now.file_begin = s->now.file_end = s->file_kept = s->freed = 0;
    s->is_write_held = false;
}

static void start(struct pfl_spool *s, enum job_kind kind)
{
    s->job = kind;
    pfl_worker_run(s->conf.pool->worker, &s->work);
}

static bool may_write(const struct pfl_spool *s, size_t len)
{
    const struct pfl_spool_pool *pool = s->conf.pool;

    return pool->dir != NULL && !s->is_write_held &&
           s->now.file_end - s->freed + len <= pool->disk_max_stream_bytes &&
           pfl_spool_pool_has_disk(pool, s->conf.who, len);
}

/* The memory to read the file with: a thread allocates nothing. */
static int have_front(struct pfl_spool *s)
{
    uint8_t *room;

    return s->front.len != 0 ? 0 : pfl_buf_reserve(&s->front, PFL_SPOOL_JOB_BYTES, &room);
}

static bool have_file(struct pfl_spool *s)
{
    int rc = have_front(s);

    if (rc == 0 && s->fd < 0) {
        s->fd = open_file(s->conf.pool->dir);
        if (s->fd >= 0 && s->conf.on_file != NULL)
            s->conf.on_file(s->conf.user, s->fd);
    }
    if (rc == 0 && s->fd >= 0)
        return true;
    s->is_write_held = true;
    pfl_log_warn("spool-not-written", "reason=\"%s\"", rc != 0 ? pfl_err_str(rc) : strerror(errno));
    return false;
}

static bool is_file_used_up(const struct pfl_spool *s)
{
    return is_file_empty(s) && s->now.file_end != 0;
}

/* The ring's bytes go into the file when there are enough for a job. */
static bool try_write(struct pfl_spool *s)
{
    size_t len = get_ring_len(s);

    if (len < PFL_SPOOL_JOB_BYTES || is_file_used_up(s) || !may_write(s, len) || !have_file(s))
        return false;
    count(s, s->counted_bytes + len);
    s->job_len = len;
    start(s, JOB_WRITE);
    return true;
}

static bool try_read(struct pfl_spool *s)
{
    if (s->front.len != 0 || is_file_empty(s) || s->is_broken)
        return false;
    s->job_free_to = s->file_kept;
    start(s, JOB_READ);
    return true;
}

static bool try_empty(struct pfl_spool *s)
{
    if (!is_file_used_up(s) || s->file_kept != s->now.file_end)
        return false;
    start(s, JOB_EMPTY);
    return true;
}

/* The operator's side first: it is what frees room. */
static void proceed(struct pfl_spool *s)
{
    if (s->job != JOB_NONE || s->is_closing)
        return;
    if (!try_read(s) && !try_empty(s))
        (void)try_write(s);
}

static void free_spool(struct pfl_spool *s)
{
    pfl_buf_fini(&s->front);
    pfl_mem_free(s);
}

/* Freeing the blocks of a large file takes time. */
static bool try_close(struct pfl_spool *s)
{
    if (s->fd < 0)
        return false;
    s->job = JOB_CLOSE;
    if (pfl_worker_submit(s->conf.pool->worker, &s->work) == 0)
        return true;
    run_job(&s->work); /* no thread exists, or the worker is being closed */
    return false;
}

/* The spool is no longer needed. Its file's descriptor is closed in another job. */
static void close_after(struct pfl_spool *s, enum job_kind kind)
{
    void (*on_idle)(void *user) = s->on_idle;
    void *user = s->conf.user;

    s->on_idle = NULL;
    if (kind == JOB_CLOSE || !try_close(s))
        free_spool(s);
    if (on_idle != NULL)
        on_idle(user);
}

static void on_job_done(struct pfl_work *work)
{
    struct pfl_spool *s = PFL_CONTAINER_OF(work, struct pfl_spool, work);
    enum job_kind kind = s->job;

    s->job = JOB_NONE;
    if (s->is_closing) {
        close_after(s, kind);
        return;
    }
    if (kind == JOB_WRITE)
        finish_write(s);
    else if (kind == JOB_READ)
        finish_read(s);
    else if (kind == JOB_EMPTY)
        finish_empty(s);
    proceed(s);
    s->conf.on_change(s->conf.user);
}

void pfl_spool_close(struct pfl_spool *self, void (*on_idle)(void *user), void *user)
{
    bool is_writing = self != NULL && self->job == JOB_WRITE;

    if (self != NULL) {
        assert(!self->is_closing);
        self->is_closing = true;
        self->on_idle = is_writing ? on_idle : NULL;
        self->conf.user = user;
        count(self, 0);
    }
    if (self != NULL && self->job == JOB_NONE)
        close_after(self, JOB_NONE); /* otherwise it continues after its job */
    if (!is_writing && on_idle != NULL)
        on_idle(user);
}

/* ---- beginning ---- */

int pfl_spool_new(const struct pfl_spool_conf *conf, struct pfl_spool **ret_spool)
{
    struct pfl_spool *s;

    assert(conf->ring_bytes >= PFL_SPOOL_RING_BYTES &&
           (conf->ring_bytes & (conf->ring_bytes - 1)) == 0);
    s = pfl_mem_zalloc(sizeof(*s));
    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = *conf;
    s->fd = -1;
    s->can_punch = true;
    s->work = (struct pfl_work){.run = run_job, .on_done = on_job_done, .who = conf->who};
    pfl_buf_init(&s->front, PFL_SPOOL_JOB_BYTES);
    *ret_spool = s;
    return 0;
}

static bool can_be(const struct pfl_spool_conf *conf, int fd, const struct pfl_spool_state *state)
{
    struct stat is;

    if (state->ring_begin > state->ring_end ||
        state->ring_end - state->ring_begin > conf->ring_bytes ||
        state->file_begin > state->file_end || state->file_end > INT64_MAX)
        return false;
    if (fd < 0)
        return state->file_begin == state->file_end;
    return fstat(fd, &is) == 0 && S_ISREG(is.st_mode) &&
           (state->file_begin == state->file_end || (uint64_t)is.st_size >= state->file_end);
}

/* Bytes that a dead thread wrote past the file's end, and used ones before its begin, are freed, so
 * that the count is correct. */
static int take_file(struct pfl_spool *s, int fd)
{
    if (ftruncate(fd, (off_t)s->now.file_end) != 0)
        return PFL_EIO;
    s->can_punch = punch(fd, 0, s->now.file_begin);
    s->freed = s->can_punch ? s->now.file_begin : 0;
    s->file_kept = s->now.file_begin;
    s->fd = fd;
    count(s, s->now.file_end - s->freed);
    return 0;
}

int pfl_spool_restore(const struct pfl_spool_conf *conf, int fd,
                      const struct pfl_spool_state *state, struct pfl_spool **ret_spool)
{
    struct pfl_spool *s;
    int rc;

    if (!can_be(conf, fd, state))
        return PFL_EPARSE;
    rc = pfl_spool_new(conf, &s);
    if (rc != 0)
        return rc;
    s->now = *state;
    s->ring_kept = state->ring_begin;
    if (is_file_empty(s))
        s->now.file_begin = s->now.file_end = 0;
    else
        rc = have_front(s);
    if (rc == 0 && fd >= 0)
        rc = take_file(s, fd);
    if (rc != 0) {
        free_spool(s);
        return rc;
    }
    *ret_spool = s;
    return 0;
}

/* ---- use ---- */

void pfl_spool_note(struct pfl_spool *self, struct pfl_spool_state *ret_state)
{
    *ret_state = self->now;
    self->ring_kept = self->now.ring_begin;
    self->file_kept = self->now.file_begin;
    if (self->job == JOB_NONE && is_file_used_up(self))
        start(self, JOB_WAIT); /* it is published when that is done: the file can be emptied */
}

static size_t get_room(const struct pfl_spool *s)
{
    return s->conf.ring_bytes - (size_t)(s->now.ring_end - s->ring_kept);
}

int pfl_spool_write(struct pfl_spool *self, struct pfl_span data)
{
    if (self->ring_kept == self->now.ring_end) /* the same pages again */
        self->ring_kept = self->now.ring_begin = self->now.ring_end = 0;
    if (data.len > get_room(self))
        return PFL_ELIMIT;
    while (data.len != 0) {
        struct pfl_span room = get_ring_piece(self, self->now.ring_end, data.len);

        memcpy(self->conf.ring + (room.data - self->conf.ring), data.data, room.len);
        self->now.ring_end += room.len;
        data = pfl_span_of(data.data + room.len, data.len - room.len);
    }
    proceed(self);
    return 0;
}

/* The ring's bytes are the oldest, and no thread moves them. */
static bool is_ring_next(const struct pfl_spool *s)
{
    return is_file_empty(s) && s->job != JOB_WRITE;
}

struct pfl_span pfl_spool_peek(struct pfl_spool *self, size_t max)
{
    struct pfl_span data = pfl_span_of(NULL, 0);

    if (is_ring_next(self))
        data = get_ring_piece(self, self->now.ring_begin, get_ring_len(self));
    else if (self->job != JOB_READ)
        data = pfl_buf_get(&self->front);
    return data.len > max ? pfl_span_of(data.data, max) : data;
}

void pfl_spool_use(struct pfl_spool *self, size_t len)
{
    if (is_ring_next(self)) {
        assert(len <= get_ring_len(self));
        self->now.ring_begin += len;
        self->is_write_held = false; /* there is room in memory: the disk may be tried again */
    } else {
        assert(self->job != JOB_READ && len <= self->front.len);
        pfl_buf_consume(&self->front, len);
        self->now.file_begin += len;
    }
    proceed(self);
    if (pfl_spool_is_empty(self) && self->job == JOB_NONE)
        pfl_buf_fini(&self->front);
}

void pfl_spool_retry(struct pfl_spool *self)
{
    self->is_write_held = false;
    proceed(self);
}

bool pfl_spool_is_full(const struct pfl_spool *self)
{
    size_t moving = self->job == JOB_WRITE ? self->job_len : 0;

    return self->is_broken || get_ring_len(self) - moving >= PFL_SPOOL_JOB_BYTES ||
           get_room(self) < PFL_SPOOL_WRITE_BYTES;
}

bool pfl_spool_is_busy(const struct pfl_spool *self)
{
    return self->job != JOB_NONE;
}

bool pfl_spool_is_broken(const struct pfl_spool *self)
{
    return self->is_broken;
}

size_t pfl_spool_memory_bytes(const struct pfl_spool *self)
{
    return (self->job != JOB_READ ? self->front.len : 0) + get_ring_len(self);
}

uint64_t pfl_spool_file_bytes(const struct pfl_spool *self)
{
    return self->now.file_end - self->now.file_begin -
           (self->job != JOB_READ ? self->front.len : 0);
}
