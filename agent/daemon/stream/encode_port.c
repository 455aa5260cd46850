/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a stream with zstd: see encode_port.h.
 *
 *     pipe:   begin ------- job ------- cursor ------- waits ------- end
 *
 * Happy path: bytes that arrive while a job runs are the next job, so that a busy thread gets
 * larger jobs; the next one is started before the output of the last is used. A port that continues
 * another one's work first closes that one's zstd frame. Failures: the call or on_progress reports
 * them, permanently; without a thread all is done on the loop. Ownership: encoder and outputs;
 * while a job runs the port exists until on_done, even if it is closed. Limits: the pipe;
 * PFL_ENCODE_JOB_BYTES a job.
 */
#include "agent/daemon/stream/encode_port.h"

#include <assert.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/mem.h"
#include "proto/codec.h"

/* A question's answer is sooner encoded than handed to a thread. */
#define AT_ONCE_BYTES (8u * 1024)

struct pfl_encode_port {
    struct pfl_encode_port_conf conf;
    struct pfl_encode_state state;
    struct pfl_work job;
    struct pfl_encoder *encoder; /* owned; the thread's while the job runs; NULL: plain */
    uint64_t cursor;             /* bytes before it are encoded, or belong to the job */
    struct pfl_span in;          /* the job's, in the pipe */
    struct pfl_buf outs[2];      /* the job's, and the one in use */
    struct pfl_writer out;       /* the job's */
    unsigned current;            /* of outs: the job's */
    int err;                     /* the job's */
    bool is_running;
    bool is_end_wanted;
    bool is_frame_anothers; /* the open one: this encoder did not begin it */
    bool is_closing;
    void (*on_idle)(void *user);
    void *idle_user;
};

static void free_port(struct pfl_encode_port *p)
{
    void (*on_idle)(void *user) = p->on_idle;
    void *user = p->idle_user;

    pfl_encoder_free(p->encoder);
    pfl_buf_fini(&p->outs[0]);
    pfl_buf_fini(&p->outs[1]);
    pfl_mem_free(p);
    if (on_idle != NULL)
        on_idle(user);
}

static void run_job(struct pfl_work *job)
{
    struct pfl_encode_port *p = PFL_CONTAINER_OF(job, struct pfl_encode_port, job);
    struct pfl_span in = p->in;
    bool is_done;

    p->err = pfl_encoder_run(p->encoder, &in, false, &p->out, &is_done);
    if (p->err == 0 && !is_done)
        p->err = PFL_EIO; /* there is room for all: see begin_job */
}

/* The contiguous part of the waiting bytes, at most PFL_ENCODE_JOB_BYTES. */
static struct pfl_span get_waiting(const struct pfl_encode_port *p)
{
    size_t at = (size_t)(p->cursor & (p->conf.pipe_bytes - 1));
    size_t len = (size_t)(p->state.end - p->cursor);

    if (len > p->conf.pipe_bytes - at)
        len = p->conf.pipe_bytes - at;
    return pfl_span_of(p->conf.pipe + at, len < PFL_ENCODE_JOB_BYTES ? len : PFL_ENCODE_JOB_BYTES);
}

static int give(struct pfl_encode_port *p, struct pfl_span out)
{
    if (out.len == 0)
        return 0;
    p->state.is_frame_open = p->encoder != NULL;
    return p->conf.on_output(p->conf.user, out);
}

/* Here and now. */
static int encode(struct pfl_encode_port *p, struct pfl_span in, bool is_end)
{
    struct pfl_span out = in;
    bool is_done = p->encoder == NULL;
    int rc = is_done ? give(p, in) : 0;

    while (rc == 0 && !is_done) {
        rc = pfl_encoder_next(p->encoder, &in, is_end, &out, &is_done);
        if (rc == 0)
            rc = give(p, out);
    }
    if (rc == 0 && is_end) {
        p->state.is_over = true;
        p->state.is_frame_open = false;
    }
    return rc;
}

/* The bytes of the last job are out of the pipe; an empty one begins at its beginning again, so
 * that few bytes at a time always use the same memory. */
static void use_up(struct pfl_encode_port *p, size_t len)
{
    p->state.begin += len;
    if (p->state.begin == p->state.end && !p->is_running)
        p->state.begin = p->state.end = p->cursor = 0;
}

static int encode_waiting(struct pfl_encode_port *p)
{
    int rc = 0;

    while (rc == 0 && p->cursor != p->state.end) {
        struct pfl_span in = get_waiting(p);

        p->cursor += in.len;
        rc = encode(p, in, false);
        if (rc == 0)
            use_up(p, in.len);
    }
    return rc;
}

/* The waiting bytes become the job. PFL_EIO: there is no thread. */
static int begin_job(struct pfl_encode_port *p)
{
    struct pfl_span in = get_waiting(p);
    size_t bound = pfl_encoder_bound(in.len);
    uint8_t *room;
    int rc;

    pfl_buf_clear(&p->outs[p->current]);
    rc = pfl_buf_reserve(&p->outs[p->current], bound, &room);
    if (rc != 0)
        return rc;
    p->out = pfl_writer_of(room, bound);
    p->in = in;
    rc = pfl_worker_submit(p->conf.worker, &p->job);
    p->is_running = rc == 0;
    if (rc == 0)
        p->cursor += in.len;
    return rc;
}

/* No job runs: encodes the waiting bytes, or starts a job for them, and then the end. */
static int proceed(struct pfl_encode_port *p)
{
    size_t waiting = (size_t)(p->state.end - p->cursor);
    int rc = 0;

    if (p->is_frame_anothers && (waiting != 0 || p->is_end_wanted)) {
        p->is_frame_anothers = false;
        rc = p->conf.on_output(p->conf.user, pfl_encoder_frame_end());
        p->state.is_frame_open = false;
    }
    if (rc == 0 && waiting != 0)
        rc = p->encoder != NULL && waiting > AT_ONCE_BYTES ? begin_job(p) : PFL_EIO;
    if (rc == PFL_EIO)
        rc = encode_waiting(p);
    if (rc == 0 && !p->is_running && p->is_end_wanted && !p->state.is_over)
        rc = encode(p, pfl_span_of(NULL, 0), true);
    return rc;
}

/* The job's output, after the next job was begun. */
static int use_output(struct pfl_encode_port *p)
{
    struct pfl_buf *used = &p->outs[p->current];
    size_t out_len = (size_t)(p->out.pos - used->data);
    size_t in_len = p->in.len;
    int rc = p->err;

    p->current = 1 - p->current;
    if (rc == 0 && p->cursor != p->state.end)
        rc = begin_job(p);
    if (rc == 0 || rc == PFL_EIO)
        rc = give(p, pfl_span_of(used->data, out_len));
    if (rc != 0)
        return rc;
    use_up(p, in_len);
    return p->is_running ? 0 : proceed(p);
}

static void on_job_done(struct pfl_work *job)
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
    assert((conf->pipe_bytes & (conf->pipe_bytes - 1)) == 0);
    assert(conf->state.end - conf->state.begin <= conf->pipe_bytes);
    p->conf = *conf;
    p->state = conf->state;
    p->cursor = p->state.begin;
    p->is_frame_anothers = p->state.is_frame_open;
    p->is_end_wanted = p->state.is_over;
    p->job.run = run_job;
    p->job.on_done = on_job_done;
    pfl_buf_init(&p->outs[0], PFL_ENCODE_OUTPUT_BYTES);
    pfl_buf_init(&p->outs[1], PFL_ENCODE_OUTPUT_BYTES);
    rc = conf->is_zstd ? pfl_encoder_new(&p->encoder) : 0;
    if (rc != 0) {
        free_port(p);
        return rc;
    }
    *ret_port = p;
    return 0;
}

void pfl_encode_port_close(struct pfl_encode_port *self, void (*on_idle)(void *user), void *user)
{
    self->is_closing = true;
    self->on_idle = on_idle;
    self->idle_user = user;
    if (!self->is_running)
        free_port(self);
}

unsigned pfl_encode_port_get_room(struct pfl_encode_port *self, size_t max,
                                  struct iovec ret_pieces[2])
{
    size_t at = (size_t)(self->state.end & (self->conf.pipe_bytes - 1));
    size_t room = self->conf.pipe_bytes - pfl_encode_port_pending(self);
    size_t first;

    room = room < max ? room : max;
    first = room < self->conf.pipe_bytes - at ? room : self->conf.pipe_bytes - at;
    ret_pieces[0] = (struct iovec){self->conf.pipe + at, first};
    ret_pieces[1] = (struct iovec){self->conf.pipe, room - first};
    return room == 0 ? 0 : room == first ? 1 : 2;
}

int pfl_encode_port_wrote(struct pfl_encode_port *self, size_t len)
{
    if (self->is_end_wanted)
        return len == 0 ? 0 : PFL_ESTATE;
    assert(len <= self->conf.pipe_bytes - pfl_encode_port_pending(self));
    self->state.end += len;
    return self->is_running ? 0 : proceed(self);
}

int pfl_encode_port_write(struct pfl_encode_port *self, struct pfl_span data)
{
    struct iovec pieces[2];

    if (data.len > self->conf.pipe_bytes - pfl_encode_port_pending(self))
        return PFL_ELIMIT;
    (void)pfl_encode_port_get_room(self, data.len, pieces);
    if (data.len != 0)
        memcpy(pieces[0].iov_base, data.data, pieces[0].iov_len);
    if (pieces[1].iov_len != 0)
        memcpy(pieces[1].iov_base, data.data + pieces[0].iov_len, pieces[1].iov_len);
    return pfl_encode_port_wrote(self, data.len);
}

int pfl_encode_port_end(struct pfl_encode_port *self)
{
    if (self->is_end_wanted)
        return 0;
    self->is_end_wanted = true;
    return self->is_running ? 0 : proceed(self);
}

void pfl_encode_port_get_state(const struct pfl_encode_port *self,
                               struct pfl_encode_state *ret_state)
{
    *ret_state = self->state;
}

size_t pfl_encode_port_pending(const struct pfl_encode_port *self)
{
    return (size_t)(self->state.end - self->state.begin);
}
