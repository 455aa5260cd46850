/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of bytes through an unnamed file: see spool_port.h.
 *
 * Happy path: bytes gather in `back`; when a job's worth is there, a thread appends them to the
 * file; when `front` is empty, a thread reads the file's oldest and gives their blocks back. With
 * nothing in the file, what is in `back` is at hand without any of it. One job at a time, so that
 * the file has one owner at a time.
 * Failures: a file that cannot be made, or written (disk full, or as large as may be), makes the
 * spool full: nothing is lost, and each read tries again; what cannot be read is lost: broken.
 * Ownership: the file, the buffers, the job. Limits: PFL_SPOOL_JOB_BYTES in front and as many on
 * their way, the same and PFL_SPOOL_WRITE_BYTES in back; of the file the pool's.
 */
#include "agent/spool_port.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"

#define BACK_MAX_BYTES (PFL_SPOOL_JOB_BYTES + PFL_SPOOL_WRITE_BYTES)

enum job_kind {
    JOB_NONE,
    JOB_WRITE,
    JOB_READ,
    JOB_CLOSE,
};

struct pfl_spool {
    struct pfl_spool_conf conf;
    struct pfl_buf front;  /* read from the file, not used yet; owned by the job that reads */
    struct pfl_buf moving; /* owned by the job that writes: the file's newest */
    struct pfl_buf back;
    uv_work_t work;
    enum job_kind job;
    int fd; /* owned; -1: no file now */
    int job_errno;
    uint64_t begin;     /* of the file: its oldest byte */
    uint64_t end;       /* its newest */
    uint64_t freed;     /* blocks before it were given back; what is counted begins here */
    bool can_punch;     /* the file system gives single blocks back */
    bool is_write_held; /* a write failed: not again before something was read */
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

int pfl_spool_new(const struct pfl_spool_conf *conf, struct pfl_spool **ret_spool)
{
    struct pfl_spool *s = pfl_mem_zalloc(sizeof(*s));

    if (s == NULL)
        return PFL_ENOMEM;
    s->conf = *conf;
    s->fd = -1;
    s->can_punch = true;
    s->work.data = s;
    pfl_buf_init(&s->front, PFL_SPOOL_JOB_BYTES);
    pfl_buf_init(&s->moving, BACK_MAX_BYTES);
    pfl_buf_init(&s->back, BACK_MAX_BYTES);
    *ret_spool = s;
    return 0;
}

/* ---- in a thread ---- */

static int write_all(struct pfl_spool *s)
{
    struct pfl_span left = pfl_buf_get(&s->moving);
    uint64_t at = s->end;

    while (left.len != 0) {
        ssize_t n = pwrite(s->fd, left.data, left.len, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : EIO;
        at += (uint64_t)n;
        left = pfl_span_of(left.data + n, left.len - (size_t)n);
    }
    return 0;
}

static int read_some(struct pfl_spool *s)
{
    size_t len =
        s->end - s->begin < PFL_SPOOL_JOB_BYTES ? (size_t)(s->end - s->begin) : PFL_SPOOL_JOB_BYTES;
    uint8_t *room;

    if (pfl_buf_reserve(&s->front, len, &room) != 0)
        return ENOMEM; /* cannot be: have_file made it */
    while (len != 0) {
        ssize_t n = pread(s->fd, room, len, (off_t)(s->begin + s->front.len));

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

static void give_back(struct pfl_spool *s)
{
    uint64_t read_to = s->begin + s->front.len;

    if (read_to == s->end)
        (void)!ftruncate(s->fd, 0);
    else if (s->can_punch)
        s->can_punch = fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)s->begin,
                                 (off_t)(read_to - s->begin)) == 0;
}

static void work(uv_work_t *req)
{
    struct pfl_spool *s = req->data;

    s->job_errno = 0;
    if (s->job == JOB_WRITE)
        s->job_errno = write_all(s);
    if (s->job == JOB_READ)
        s->job_errno = read_some(s);
    if (s->job == JOB_READ && s->job_errno == 0)
        give_back(s);
    if (s->job == JOB_CLOSE && s->fd >= 0)
        (void)close(s->fd);
}

/* ---- in the loop ---- */

static void uncount(struct pfl_spool *s, uint64_t to)
{
    assert(to >= s->freed);
    s->conf.pool->disk_used_bytes -= to - s->freed;
    s->freed = to;
}

static void finish_write(struct pfl_spool *s)
{
    if (s->job_errno == 0) {
        s->end += s->moving.len;
        pfl_buf_clear(&s->moving);
        return;
    }
    s->conf.pool->disk_used_bytes -= s->moving.len;
    s->is_write_held = true;
    pfl_log_warn("spool-not-written", "bytes=%zu reason=\"%s\"", s->moving.len,
                 strerror(s->job_errno));
}

static void finish_read(struct pfl_spool *s)
{
    if (s->job_errno != 0) {
        s->is_broken = true;
        pfl_log_error("spool-not-read", "reason=\"%s\"", strerror(s->job_errno));
        return;
    }
    s->is_write_held = false;
    s->begin += s->front.len;
    if (s->begin == s->end) {
        uncount(s, s->end);
        s->begin = s->end = s->freed = 0;
    } else if (s->can_punch) {
        uncount(s, s->begin);
    }
}

static void after_work(uv_work_t *req, int status);

static void start(struct pfl_spool *s, enum job_kind kind)
{
    int rc;

    s->job = kind;
    rc = uv_queue_work(s->conf.loop, &s->work, work, after_work);
    assert(rc == 0); /* fails only without a function to run */
    (void)rc;
}

static bool may_write(const struct pfl_spool *s, size_t len)
{
    const struct pfl_spool_pool *pool = s->conf.pool;

    return pool->dir != NULL && !s->is_write_held &&
           s->end - s->freed + len <= pool->disk_max_stream_bytes &&
           pool->disk_used_bytes + len <= pool->disk_max_bytes;
}

/* The file, and the memory to read it with: a thread allocates nothing. */
static bool have_file(struct pfl_spool *s)
{
    uint8_t *room;
    int rc = pfl_buf_reserve(&s->front, PFL_SPOOL_JOB_BYTES - s->front.len, &room);

    if (rc == 0 && s->fd < 0)
        s->fd = open_file(s->conf.pool->dir);
    if (rc == 0 && s->fd >= 0)
        return true;
    s->is_write_held = true;
    pfl_log_warn("spool-not-written", "reason=\"%s\"", rc != 0 ? pfl_err_str(rc) : strerror(errno));
    return false;
}

/* Back's bytes go into the file when there is a job's worth of them, or when an earlier try left
 * some. */
static bool try_write(struct pfl_spool *s)
{
    struct pfl_buf taken;

    if (s->moving.len == 0) {
        if (s->back.len < PFL_SPOOL_JOB_BYTES)
            return false;
        taken = s->moving;
        s->moving = s->back;
        s->back = taken;
    }
    if (!may_write(s, s->moving.len) || !have_file(s))
        return false;
    s->conf.pool->disk_used_bytes += s->moving.len;
    start(s, JOB_WRITE);
    return true;
}

static bool try_read(struct pfl_spool *s)
{
    if (s->front.len != 0 || s->begin == s->end || s->is_broken)
        return false;
    start(s, JOB_READ);
    return true;
}

/* The operator's side first: it is what frees room. */
static void go_on(struct pfl_spool *s)
{
    if (s->job != JOB_NONE || s->is_closing)
        return;
    if (!try_read(s))
        (void)try_write(s);
}

static void free_spool(struct pfl_spool *s)
{
    pfl_buf_fini(&s->front);
    pfl_buf_fini(&s->moving);
    pfl_buf_fini(&s->back);
    pfl_mem_free(s);
}

static void after_work(uv_work_t *req, int status)
{
    struct pfl_spool *s = req->data;
    enum job_kind kind = s->job;

    (void)status;
    s->job = JOB_NONE;
    if (kind == JOB_CLOSE) {
        free_spool(s);
        return;
    }
    if (s->is_closing) {
        start(s, JOB_CLOSE);
        return;
    }
    if (kind == JOB_WRITE)
        finish_write(s);
    else
        finish_read(s);
    go_on(s);
    s->conf.on_change(s->conf.user);
}

void pfl_spool_close(struct pfl_spool *self)
{
    if (self == NULL || self->is_closing)
        return;
    self->is_closing = true;
    if (self->job == JOB_WRITE)
        self->conf.pool->disk_used_bytes -= self->moving.len;
    uncount(self, self->end);
    if (self->job != JOB_NONE)
        return; /* goes on after it */
    if (self->fd < 0)
        free_spool(self);
    else
        start(self, JOB_CLOSE); /* a large file's blocks take their time */
}

int pfl_spool_write(struct pfl_spool *self, struct pfl_span data)
{
    int rc = pfl_buf_append(&self->back, data.data, data.len);

    if (rc == 0)
        go_on(self);
    return rc;
}

/* The oldest bytes that are in memory; NULL when older ones are in the file or on their way. */
static struct pfl_buf *get_oldest(struct pfl_spool *s)
{
    if (s->job != JOB_READ && s->front.len != 0)
        return &s->front;
    if (s->begin != s->end || s->job != JOB_NONE)
        return NULL;
    return s->moving.len != 0 ? &s->moving : &s->back;
}

struct pfl_span pfl_spool_peek(struct pfl_spool *self, size_t max)
{
    struct pfl_buf *oldest = get_oldest(self);
    struct pfl_span data = oldest != NULL ? pfl_buf_get(oldest) : pfl_span_of(NULL, 0);

    return data.len > max ? pfl_span_of(data.data, max) : data;
}

void pfl_spool_use(struct pfl_spool *self, size_t len)
{
    struct pfl_buf *oldest = get_oldest(self);

    assert(oldest != NULL);
    pfl_buf_consume(oldest, len);
    if (oldest != &self->front) /* there is room in memory: the disk may be tried again */
        self->is_write_held = false;
    go_on(self);
    if (pfl_spool_is_empty(self) && self->job == JOB_NONE) {
        pfl_buf_fini(&self->front);
        pfl_buf_fini(&self->moving);
        pfl_buf_fini(&self->back);
    }
}

void pfl_spool_retry(struct pfl_spool *self)
{
    self->is_write_held = false;
    go_on(self);
}

bool pfl_spool_is_full(const struct pfl_spool *self)
{
    return self->back.len >= PFL_SPOOL_JOB_BYTES || self->is_broken;
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
    return (self->job != JOB_READ ? self->front.len : 0) + self->moving.len + self->back.len;
}

uint64_t pfl_spool_file_bytes(const struct pfl_spool *self)
{
    return self->end - self->begin;
}
