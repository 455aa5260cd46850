/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a stream's zstd: see decode_port.h.
 *
 *     next: in -> job (thread) -> ready -> the next next
 *         \-- no more than a turn of the loop brings, nothing before it: on the loop
 *
 * Happy path: a call returns the last job's result, after it has started another job into the other
 * buffer, so that a piece is used while the next is decoded. A job ends when its bytes are used up
 * or its buffer is full, so that a piece is bounded however much a few bytes expand. While the loop
 * keeps up, it decodes by itself: no thread is woken, and the result is still in its core's cache.
 * A thread is used only for bytes that queue because the loop does not keep up. Failures: next
 * reports them, permanently; without buffers all is done on the loop. Ownership: the decoder, and
 * two buffers of the pool from a job to the next call without one; while a job runs the port exists
 * until on_done, even if it is closed. Limits: PFL_DECODE_TAKEN_BYTES, PFL_DECODE_PART_BYTES,
 * JOB_NS; the pool's.
 */
#include "tunnel/decode_port.h"

#include <assert.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "proto/codec.h"

/* Of the thread, which all streams share; looked at after each part. */
#define JOB_NS 4000000u

struct pfl_decode_port {
    struct pfl_decode_port_conf conf;
    struct pfl_work job;
    struct pfl_decoder *decoder; /* owned; the thread's while the job runs, as the next six */
    struct pfl_buf in;
    struct pfl_span rest; /* of in */
    struct pfl_writer out;
    int err;          /* for good */
    bool is_done;     /* nothing comes without more bytes */
    uint8_t *outs[2]; /* the pool's; both or none */
    unsigned
        current; /* index in outs of the job's buffer; the other one is `ready`, or was returned */
    struct pfl_span ready;
    bool is_running;
    bool is_closing;
};

void pfl_decode_pool_fini(struct pfl_decode_pool *self)
{
    assert(self->taken == 0);
    while (self->spares_len != 0)
        pfl_mem_free(self->spares[--self->spares_len]);
}

static uint8_t *take_buffer(struct pfl_decode_pool *pool)
{
    uint8_t *buffer = NULL;

    if (pool->spares_len != 0)
        buffer = pool->spares[--pool->spares_len];
    else if (pool->taken < PFL_DECODE_POOL_PIECES)
        buffer = pfl_mem_alloc(PFL_DECODE_PIECE_BYTES);
    pool->taken += buffer != NULL;
    return buffer;
}

static void give_buffers_back(struct pfl_decode_port *p)
{
    struct pfl_decode_pool *pool = p->conf.pool;

    for (unsigned i = 0; i < 2; i++) {
        if (p->outs[i] == NULL)
            continue;
        pool->taken--;
        pool->spares[pool->spares_len++] = p->outs[i];
        p->outs[i] = NULL;
    }
}

/* False: other streams have them, or there is no memory. */
static bool take_buffers(struct pfl_decode_port *p)
{
    for (unsigned i = 0; i < 2; i++) {
        if (p->outs[i] == NULL)
            p->outs[i] = take_buffer(p->conf.pool);
    }
    if (p->outs[0] != NULL && p->outs[1] != NULL)
        return true;
    give_buffers_back(p);
    return false;
}

static void free_port(struct pfl_decode_port *p)
{
    give_buffers_back(p);
    pfl_decoder_free(p->decoder);
    pfl_buf_fini(&p->in);
    pfl_mem_free(p);
}

static struct pfl_span get_part(struct pfl_span in)
{
    return pfl_span_of(in.data, in.len < PFL_DECODE_PART_BYTES ? in.len : PFL_DECODE_PART_BYTES);
}

static void skip(struct pfl_span *in, size_t len)
{
    if (len != 0)
        *in = pfl_span_of(in->data + len, in->len - len);
}

static void run_part(struct pfl_decode_port *p)
{
    struct pfl_span part = get_part(p->rest);
    size_t len = part.len;

    p->err = pfl_decoder_run(p->decoder, &part, &p->out, &p->is_done);
    skip(&p->rest, len - part.len);
    p->is_done = p->is_done && p->rest.len == 0;
}

static void run_job(struct pfl_work *job)
{
    struct pfl_decode_port *p = PFL_CONTAINER_OF(job, struct pfl_decode_port, job);
    uint64_t begin_ns = uv_hrtime();

    do
        run_part(p);
    while (p->err == 0 && p->rest.len != 0 && p->out.left != 0 && uv_hrtime() - begin_ns < JOB_NS);
}

static void take_output(struct pfl_decode_port *p)
{
    uint8_t *out = p->outs[p->current];

    if (p->err != 0)
        return;
    p->ready = pfl_span_of(out, (size_t)(p->out.pos - out));
    p->current = 1 - p->current;
}

static void on_job_done(struct pfl_work *job)
{
    struct pfl_decode_port *p = PFL_CONTAINER_OF(job, struct pfl_decode_port, job);

    p->is_running = false;
    if (p->is_closing) {
        free_port(p);
        return;
    }
    take_output(p);
    p->conf.on_ready(p->conf.user);
}

int pfl_decode_port_new(const struct pfl_decode_port_conf *conf, struct pfl_decode_port **ret_port)
{
    struct pfl_decode_port *p = pfl_mem_zalloc(sizeof(*p));
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->job.run = run_job;
    p->job.on_done = on_job_done;
    p->is_done = true;
    pfl_buf_init(&p->in, PFL_DECODE_TAKEN_BYTES);
    rc = pfl_decoder_new(&p->decoder);
    if (rc != 0) {
        free_port(p);
        return rc;
    }
    *ret_port = p;
    return 0;
}

void pfl_decode_port_close(struct pfl_decode_port *self)
{
    if (self == NULL)
        return;
    self->is_closing = true;
    if (!self->is_running)
        free_port(self);
}

/* The job's bytes: what the last one left, or fresh ones. */
static int take_input(struct pfl_decode_port *p, struct pfl_span *in)
{
    size_t len = in->len < PFL_DECODE_TAKEN_BYTES ? in->len : PFL_DECODE_TAKEN_BYTES;
    int rc;

    if (p->rest.len != 0 || len == 0)
        return 0;
    pfl_buf_clear(&p->in);
    rc = pfl_buf_append(&p->in, in->data, len);
    if (rc != 0)
        return rc;
    p->rest = pfl_buf_get(&p->in);
    *in = pfl_span_of(in->data + len, in->len - len);
    return 0;
}

static int begin_job(struct pfl_decode_port *p, struct pfl_span *in)
{
    int rc;

    if (p->is_done && in->len == 0)
        return 0;
    rc = take_input(p, in);
    if (rc != 0)
        return rc;
    p->out = pfl_writer_of(p->outs[p->current], PFL_DECODE_PIECE_BYTES);
    p->is_running = pfl_worker_submit(p->conf.worker, &p->job) == 0;
    if (p->is_running)
        return 0;
    run_job(&p->job);
    take_output(p);
    return p->err;
}

static int decode_here(struct pfl_decode_port *p, struct pfl_span *in, struct pfl_span *ret_piece)
{
    struct pfl_span part = get_part(*in);
    size_t len = part.len;

    if (p->is_done && len == 0)
        return 0;
    p->err = pfl_decoder_next(p->decoder, &part, ret_piece, &p->is_done);
    skip(in, len - part.len);
    p->is_done = p->is_done && in->len == 0;
    return p->err;
}

/* Nothing of a job's is left. */
static bool is_between_jobs(const struct pfl_decode_port *p)
{
    return p->ready.len == 0 && p->rest.len == 0;
}

int pfl_decode_port_next(struct pfl_decode_port *self, struct pfl_span *in,
                         struct pfl_span *ret_piece)
{
    int rc;

    *ret_piece = pfl_span_of(NULL, 0);
    if (self->is_running)
        return 0;
    if (self->err != 0)
        return self->err;
    if (is_between_jobs(self)) {
        if (in->len <= PFL_DECODE_AT_ONCE_BYTES)
            give_buffers_back(self);
        if (in->len <= PFL_DECODE_AT_ONCE_BYTES || !take_buffers(self))
            return decode_here(self, in, ret_piece);
    }
    *ret_piece = self->ready;
    self->ready = pfl_span_of(NULL, 0);
    rc = begin_job(self, in);
    if (rc != 0 || ret_piece->len != 0)
        return rc;
    *ret_piece = self->ready; /* made on the loop, without a thread */
    self->ready = pfl_span_of(NULL, 0);
    return 0;
}

bool pfl_decode_port_is_idle(const struct pfl_decode_port *self)
{
    return !self->is_running && self->err == 0 && is_between_jobs(self) && self->is_done &&
           self->outs[0] == NULL;
}
