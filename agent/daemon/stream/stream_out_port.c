/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from the service to the operator: see stream_impl.h.
 *
 * Happy path: bytes from the service pass the pipe (encode_port.c; zstd if the operator asked for
 * it) into the out ring, from which the HTTP/2 stream pulls. If the ring is full they are stored in
 * the spool and return as the operator credits. Bytes in the pipe count as if they were in the
 * ring. Failures: out of memory or a broken spool end the stream; if the spool is full, reading the
 * service stops, which is logged once. Limits: spool_bytes and one read, together with other
 * streams the pool's, and the spool's file.
 */
#include "agent/daemon/stream/stream_impl.h"
#include "base/log.h"

_Static_assert(PFL_ENCODE_OUTPUT_BYTES <= PFL_SPOOL_WRITE_BYTES, "an output is one write");
_Static_assert(PFL_ENCODE_BEHIND_BYTES + PFL_AGENT_READ_BYTES <= PFL_SPOOL_WRITE_BYTES,
               "what is in the pipe fits a spool that is not full, after a stop as before it");
_Static_assert(2 * (PFL_ENCODE_PENDING_BYTES + PFL_AGENT_READ_BYTES) <= PFL_SPOOL_RING_BYTES,
               "what is being written and what comes behind it");

static size_t count_pending(const struct pfl_agent_stream *s)
{
    return pfl_encode_port_pending(s->encoder);
}

/* The ring's part of the memory: one window always, more while there is some. */
static size_t get_mark(struct pfl_agent_stream *s)
{
    size_t kept = pfl_replay_kept(&s->resume.out);
    size_t mark = (size_t)s->facts.out_max_bytes - PFL_AGENT_READ_BYTES;

    if (s->spool != NULL)
        kept += pfl_spool_memory_bytes(s->spool);
    kept += count_pending(s);
    pfl_spool_pool_count(&s->pool->used_bytes, &s->pool->used_by, s->who, &s->counted_bytes, kept);
    if (!pfl_spool_pool_has_memory(s->pool, s->who) && mark > PFL_TUNNEL_DATA_WINDOW_BYTES)
        mark = PFL_TUNNEL_DATA_WINDOW_BYTES;
    return mark;
}

static void tell_full(struct pfl_agent_stream *s)
{
    if (s->is_full_logged)
        return;
    s->is_full_logged = true;
    s->pool->full++;
    pfl_log_warn("spool-full",
                 "stream=%s operator=%s memory_bytes=%llu file_bytes=%llu "
                 "effect=\"the service is held back until the operator reads\"",
                 s->facts.id, s->facts.operator_name, (unsigned long long)s->counted_bytes,
                 (unsigned long long)(s->spool != NULL ? pfl_spool_file_bytes(s->spool) : 0));
}

void pfl_agent_stream_out_pace(struct pfl_agent_stream *self)
{
    size_t mark = get_mark(self);
    size_t pending = count_pending(self);
    bool is_full = self->spool != NULL ? pfl_spool_is_full(self->spool)
                                       : pfl_replay_kept(&self->resume.out) + pending >= mark;
    bool is_behind = self->spool != NULL && !pfl_spool_is_empty(self->spool);
    bool must_wait =
        is_full || pending >= (is_behind ? PFL_ENCODE_BEHIND_BYTES : PFL_ENCODE_PENDING_BYTES);

    if (self->service == NULL)
        return;
    if (is_full && (self->spool == NULL || !pfl_spool_is_busy(self->spool)))
        tell_full(self);
    if (must_wait && !self->is_service_held)
        pfl_service_socket_read_stop(self->service);
    else if (!must_wait && self->is_service_held)
        pfl_service_socket_read_start(self->service);
    self->is_service_held = must_wait;
}

int pfl_agent_stream_out_refill(struct pfl_agent_stream *self)
{
    size_t mark = get_mark(self);
    struct pfl_encode_state state;
    int rc = 0;

    while (rc == 0 && self->spool != NULL && pfl_replay_kept(&self->resume.out) < mark) {
        struct pfl_span piece =
            pfl_spool_peek(self->spool, mark - pfl_replay_kept(&self->resume.out));

        if (piece.len == 0)
            break;
        rc = pfl_resume_write(&self->resume, piece);
        if (rc == 0)
            pfl_spool_use(self->spool, piece.len);
    }
    pfl_encode_port_get_state(self->encoder, &state);
    if (state.is_over && (self->spool == NULL || pfl_spool_is_empty(self->spool)))
        pfl_resume_end(&self->resume);
    pfl_agent_stream_publish(self);
    return rc;
}

/* There is room again, perhaps: also for the gate's answers, which wait for it. */
static void proceed(struct pfl_agent_stream *s)
{
    pfl_agent_stream_out_pace(s);
    if (s->gate != NULL)
        pfl_agent_stream_service_deliver(s);
    pfl_agent_stream_wake(s);
}

void pfl_agent_stream_out_on_spool(void *user)
{
    struct pfl_agent_stream *s = user;

    if (pfl_spool_is_broken(s->spool) || pfl_agent_stream_out_refill(s) != 0) {
        s->pool->broken++;
        pfl_agent_stream_kill(s);
        return;
    }
    proceed(s);
}

/* Encoded bytes, in order: into the ring, or behind the bytes that wait for it. One output may be
 * larger than the rest of the ring. */
static int keep(struct pfl_agent_stream *s, struct pfl_span data)
{
    size_t kept = pfl_replay_kept(&s->resume.out);

    if (s->spool != NULL && (!pfl_spool_is_empty(s->spool) || kept >= get_mark(s) ||
                             data.len > s->facts.out_max_bytes - kept))
        return pfl_spool_write(s->spool, data);
    return pfl_resume_write(&s->resume, data);
}

int pfl_agent_stream_out_on_encoded(void *user, struct pfl_span data)
{
    return keep(user, data);
}

void pfl_agent_stream_out_on_progress(void *user, int err)
{
    struct pfl_agent_stream *s = user;

    if (err != 0 || pfl_agent_stream_out_refill(s) != 0)
        pfl_agent_stream_kill(s);
    else
        proceed(s);
}

int pfl_agent_stream_out_write(struct pfl_agent_stream *self, struct pfl_span data)
{
    return self->is_dying ? 0 : pfl_encode_port_write(self->encoder, data);
}

void pfl_agent_stream_out_end(struct pfl_agent_stream *self)
{
    if (self->is_dying || self->is_service_over)
        return;
    self->is_service_over = true;
    if (pfl_encode_port_end(self->encoder) != 0 || pfl_agent_stream_out_refill(self) != 0) {
        pfl_agent_stream_kill(self);
        return;
    }
    pfl_agent_stream_wake(self);
}
