/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zstd for a stream: see encode_port.h.
 *
 *     write --> waiting --> job (thread) --> on_output
 *         \-- few bytes, nothing before them: on the loop --/
 *
 * Happy path: what comes while a job runs waits and is the next job, so that the busier the thread
 * the larger its jobs; the next one is begun before the output of the last is used. Failures: told
 * by write or by on_progress, for good; without a thread all is done on the loop. Ownership:
 * encoder and buffers; while a job runs the port stays until on_done, whoever closes it. Limits:
 * PFL_ENCODE_TAKEN_BYTES wait, as much is encoded.
 */
#include "agent/encode_port.h"

#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "proto/codec.h"

/* A question's answer is sooner encoded than handed to a thread. */
#define AT_ONCE_BYTES (8u * 1024)

struct pfl_encode_port {
    struct pfl_encode_port_conf conf;
    struct pfl_lane_job job;
    struct pfl_encoder *encoder; /* owned; the thread's while the job runs */
    struct pfl_buf waiting;
    struct pfl_buf in;      /* the job's */
    struct pfl_buf outs[2]; /* the job's, and the one that is used */
    struct pfl_writer out;  /* the job's */
    unsigned current;       /* of outs: the job's */
    int err;                /* the job's; later: for good */
    bool is_running;
    bool is_end_wanted;
    bool is_over;
    bool is_closing;
};

static void free_port(struct pfl_encode_port *p)
{
    pfl_encoder_free(p->encoder);
    pfl_buf_fini(&p->waiting);
    pfl_buf_fini(&p->in);
    pfl_buf_fini(&p->outs[0]);
    pfl_buf_fini(&p->outs[1]);
    pfl_mem_free(p);
}

static void run_job(struct pfl_lane_job *job)
{
    struct pfl_encode_port *p = PFL_CONTAINER_OF(job, struct pfl_encode_port, job);
    struct pfl_span in = pfl_buf_get(&p->in);
    bool is_done;

    p->err = pfl_encoder_run(p->encoder, &in, false, &p->out, &is_done);
    if (p->err == 0 && !is_done)
        p->err = PFL_EIO; /* there is room for all: see begin_job */
}

/* Here and now. */
static int encode(struct pfl_encode_port *p, struct pfl_span in, bool is_end)
{
    struct pfl_span out;
    bool is_done = false;
    int rc = 0;

    while (rc == 0 && !is_done) {
        rc = pfl_encoder_next(p->encoder, &in, is_end, &out, &is_done);
        if (rc == 0)
            rc = p->conf.on_output(p->conf.user, out);
    }
    if (rc == 0)
        p->is_over = is_end;
    return rc;
}

/* What waits becomes the job; without a thread, when no job was before it, it is done here. */
static int begin_job(struct pfl_encode_port *p)
{
    struct pfl_buf in = p->in;
    uint8_t *room;
    size_t bound = pfl_encoder_bound(p->waiting.len);
    int rc;

    pfl_buf_clear(&p->outs[p->current]);
    rc = pfl_buf_reserve(&p->outs[p->current], bound, &room);
    if (rc != 0)
        return rc;
    p->out = pfl_writer_of(room, bound);
    p->in = p->waiting;
    p->waiting = in;
    pfl_buf_clear(&p->waiting);
    rc = pfl_lane_submit(p->conf.lane, &p->job);
    p->is_running = rc == 0;
    if (rc != PFL_EIO)
        return rc;
    rc = encode(p, pfl_buf_get(&p->in), false);
    pfl_buf_clear(&p->in);
    return rc;
}

/* The job's output, after the next job was begun. */
static int use_output(struct pfl_encode_port *p)
{
    struct pfl_buf *used = &p->outs[p->current];
    size_t len = (size_t)(p->out.pos - used->data);
    int rc = p->err;

    p->current = 1 - p->current;
    pfl_buf_clear(&p->in);
    if (rc == 0 && p->waiting.len != 0)
        rc = begin_job(p);
    if (rc == 0)
        rc = p->conf.on_output(p->conf.user, pfl_span_of(used->data, len));
    if (rc == 0 && !p->is_running && p->is_end_wanted)
        rc = encode(p, pfl_span_of(NULL, 0), true);
    return rc;
}

static void on_job_done(struct pfl_lane_job *job)
{
    struct pfl_encode_port *p = PFL_CONTAINER_OF(job, struct pfl_encode_port, job);

    p->is_running = false;
    if (p->is_closing) {
        free_port(p);
        return;
    }
    p->conf.on_progress(p->conf.user, use_output(p));
}

int pfl_encode_port_new(const struct pfl_encode_port_conf *conf, struct pfl_encode_port **ret_port)
{
    struct pfl_encode_port *p = pfl_mem_zalloc(sizeof(*p));
    int rc;

    if (p == NULL)
        return PFL_ENOMEM;
    p->conf = *conf;
    p->job.run = run_job;
    p->job.on_done = on_job_done;
    pfl_buf_init(&p->waiting, PFL_ENCODE_TAKEN_BYTES);
    pfl_buf_init(&p->in, PFL_ENCODE_TAKEN_BYTES);
    pfl_buf_init(&p->outs[0], pfl_encoder_bound(PFL_ENCODE_TAKEN_BYTES));
    pfl_buf_init(&p->outs[1], pfl_encoder_bound(PFL_ENCODE_TAKEN_BYTES));
    rc = pfl_encoder_new(&p->encoder);
    if (rc != 0) {
        free_port(p);
        return rc;
    }
    *ret_port = p;
    return 0;
}

void pfl_encode_port_close(struct pfl_encode_port *self)
{
    if (self == NULL)
        return;
    self->is_closing = true;
    if (!self->is_running)
        free_port(self);
}

int pfl_encode_port_write(struct pfl_encode_port *self, struct pfl_span data)
{
    int rc;

    if (self->is_end_wanted)
        return PFL_ESTATE;
    if (!self->is_running && data.len <= AT_ONCE_BYTES)
        return encode(self, data, false);
    rc = pfl_buf_append(&self->waiting, data.data, data.len);
    return rc == 0 && !self->is_running ? begin_job(self) : rc;
}

int pfl_encode_port_end(struct pfl_encode_port *self)
{
    if (self->is_end_wanted)
        return 0;
    self->is_end_wanted = true;
    return self->is_running ? 0 : encode(self, pfl_span_of(NULL, 0), true);
}

size_t pfl_encode_port_pending(const struct pfl_encode_port *self)
{
    return self->waiting.len + self->in.len;
}

bool pfl_encode_port_is_over(const struct pfl_encode_port *self)
{
    return self->is_over;
}
