/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks on their way to disk.
 *
 *     reserve/commit -> current chunk -> queue -> (one write at a time, thread pool) -> spare
 *
 * Happy path: packets fill the current chunk; a full one is queued; the loop writes the head of the
 * queue, a short write goes on where it ended, a written chunk is kept for reuse. A packet larger
 * than a chunk gets a chunk of its own size.
 *
 * Failures: a write that fails (disk full) ends writing: the file is cut at the last whole packet
 * that lies in it, on_failed is called once, later packets are dropped with PFL_EIO.
 * Ownership: all chunks belong to the file; one uv_fs_t is in flight at most.
 * Limits: the owner stops at the high-water mark; what one read callback still brings goes on top.
 */
#include "consumer/recording/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/mem.h"

#define DEFAULT_CHUNK_BYTES (1024u * 1024)
#define SPARES_MAX          16u /* the high-water mark's */

struct chunk {
    struct pfl_list node;
    size_t capacity;
    size_t len;
    size_t sent;
    uint8_t data[];
};

struct pfl_trace_file {
    struct pfl_trace_file_conf conf; /* path not valid */
    int fd;                          /* owned */
    struct pfl_list queue;           /* of struct chunk, owned; the head is being written */
    struct pfl_list spares;          /* owned */
    struct chunk *current;           /* owned; NULL: none */
    size_t spares_len;
    size_t backlog_bytes; /* queued, current excluded */
    uint64_t written_bytes;
    uint64_t whole_bytes; /* end of the last chunk that is written */
    uv_fs_t request;
    bool is_writing;
    bool was_congested;
    bool is_closing;
    int error; /* errno of the first failure */
    void (*on_closed)(void *user, int err, uint64_t written_bytes);
};

static void write_next(struct pfl_trace_file *f);

int pfl_trace_file_open(const struct pfl_trace_file_conf *conf, struct pfl_trace_file **ret_file)
{
    struct pfl_trace_file *f = pfl_mem_zalloc(sizeof(*f));

    if (f == NULL)
        return PFL_ENOMEM;
    f->conf = *conf;
    f->conf.path = NULL;
    if (f->conf.chunk_bytes == 0)
        f->conf.chunk_bytes = DEFAULT_CHUNK_BYTES;
    pfl_list_init(&f->queue);
    pfl_list_init(&f->spares);
    if (strcmp(conf->path, "-") == 0)
        f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    else
        f->fd = open(conf->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (f->fd < 0) {
        pfl_mem_free(f);
        return PFL_EIO;
    }
    *ret_file = f;
    return 0;
}

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

bool pfl_trace_file_is_congested(const struct pfl_trace_file *self)
{
    return self->backlog_bytes >= PFL_TRACE_FILE_HIGH_BYTES;
}

uint64_t pfl_trace_file_get_written(const struct pfl_trace_file *self)
{
    return self->written_bytes;
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

static void finish(struct pfl_trace_file *f)
{
    void (*on_closed)(void *user, int err, uint64_t written_bytes) = f->on_closed;
    uint64_t written = f->written_bytes;
    void *user = f->conf.user;
    int err = f->error;

    if (close(f->fd) != 0 && err == 0)
        err = errno;
    drop_chunks(&f->queue);
    drop_chunks(&f->spares);
    pfl_mem_free(f->current);
    pfl_mem_free(f);
    on_closed(user, err, written);
}

static void finish_head(struct pfl_trace_file *f, struct chunk *head)
{
    pfl_list_remove(&head->node);
    f->backlog_bytes -= head->len;
    f->whole_bytes += head->len;
    give_chunk_back(f, head);
}

static void on_written(uv_fs_t *request)
{
    struct pfl_trace_file *f = request->data;
    struct chunk *head = PFL_CONTAINER_OF(f->queue.next, struct chunk, node);
    ssize_t result = request->result;

    uv_fs_req_cleanup(request);
    f->is_writing = false;
    if (result > 0) {
        head->sent += (size_t)result;
        f->written_bytes += (uint64_t)result;
        if (head->sent == head->len)
            finish_head(f, head);
    } else if (result != UV_EINTR && result != UV_EAGAIN) {
        fail(f, result == 0 ? ENOSPC : (int)-result);
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
    struct chunk *head;
    uv_buf_t buf;
    int rc;

    f->was_congested = f->was_congested || pfl_trace_file_is_congested(f);
    if (f->is_writing || f->error != 0 || pfl_list_is_empty(&f->queue))
        return;
    head = PFL_CONTAINER_OF(f->queue.next, struct chunk, node);
    buf = uv_buf_init((char *)head->data + head->sent, (unsigned)(head->len - head->sent));
    f->request.data = f;
    rc = uv_fs_write(f->conf.loop, &f->request, f->fd, &buf, 1, -1, on_written);
    if (rc != 0) {
        fail(f, -rc);
        return;
    }
    f->is_writing = true;
}

void pfl_trace_file_close(struct pfl_trace_file *self,
                          void (*on_closed)(void *user, int err, uint64_t written_bytes))
{
    self->is_closing = true;
    self->on_closed = on_closed;
    if (self->current != NULL && self->current->len != 0)
        queue_current(self);
    if (!self->is_writing)
        finish(self);
}
