/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a resumable stream: see resume.h.
 *
 * Happy path: both directions are rings of offsets (replay.h). `out` keeps bytes from the peer's
 * credit on and never sends more than the peer's window beyond it, so that a new connection, whose
 * HTTP/2 window is full again, does not increase what the peer must hold. `in` keeps what the owner
 * has not used up yet. Failures: a peer that breaks the rules is PFL_EPROTO, and the stream is
 * lost. Limits: out_max_bytes, in_window_bytes.
 */
#include "proto/tunnel/resume.h"

#include <assert.h>

/* Credit is sent when a quarter of the window is used up, or at the end. */
#define CREDIT_PARTS 4u

void pfl_resume_init(struct pfl_resume *self, size_t out_max_bytes, uint32_t in_window_bytes)
{
    *self = (struct pfl_resume){.in_window_bytes = in_window_bytes};
    pfl_replay_init(&self->out, out_max_bytes);
    pfl_replay_init(&self->in, in_window_bytes);
}

void pfl_resume_fini(struct pfl_resume *self)
{
    pfl_replay_fini(&self->out);
    pfl_replay_fini(&self->in);
}

int pfl_resume_restore(struct pfl_resume *self, const struct pfl_resume_kept *kept)
{
    int rc = pfl_replay_restore(&self->out, kept->out_base, kept->out_end, kept->out_data,
                                kept->out_capacity);

    if (rc == 0)
        self->in.base = self->in.next = self->in.end = kept->in_used;
    return rc;
}

/* ---- connection ---- */

void pfl_resume_get_offer(const struct pfl_resume *self, struct pfl_resume_offer *ret_offer)
{
    *ret_offer = (struct pfl_resume_offer){
        .received = self->in.end,
        .credited = self->in.base,
        .window_bytes = self->in_window_bytes,
    };
}

int pfl_resume_attach(struct pfl_resume *self, const struct pfl_resume_offer *peer,
                      const struct pfl_resume_offer *sent_offer)
{
    assert(sent_offer->credited <= self->in.base);
    if (peer->credited < self->out.base || peer->credited > peer->received ||
        peer->received > self->out.next || peer->window_bytes == 0)
        return PFL_EPROTO;
    if (pfl_replay_release(&self->out, peer->credited) != 0 ||
        pfl_replay_rewind(&self->out, peer->received) != 0)
        return PFL_EPROTO; /* cannot be: it was checked */
    self->peer_window_bytes = peer->window_bytes;
    self->in_credit_sent = sent_offer->credited;
    self->is_end_sent = false;
    self->is_attached = true;
    return 0;
}

void pfl_resume_detach(struct pfl_resume *self)
{
    self->is_attached = false;
}

/* ---- out ---- */

int pfl_resume_write(struct pfl_resume *self, struct pfl_span data)
{
    if (self->is_out_ended)
        return PFL_ESTATE;
    return pfl_replay_append(&self->out, data.data, data.len);
}

void pfl_resume_end(struct pfl_resume *self)
{
    self->is_out_ended = true;
}

size_t pfl_resume_pull(struct pfl_resume *self, uint8_t *dst, size_t room, bool *ret_is_end)
{
    uint64_t out_there = self->out.next - self->out.base;
    size_t done = 0;

    if (!self->is_attached || self->is_end_sent)
        return 0;
    if (out_there >= self->peer_window_bytes)
        room = 0;
    else if (room > self->peer_window_bytes - out_there)
        room = (size_t)(self->peer_window_bytes - out_there);
    while (done < room) {
        struct pfl_span piece = pfl_replay_peek(&self->out, room - done);

        if (piece.len == 0)
            break;
        memcpy(dst + done, piece.data, piece.len);
        pfl_replay_skip(&self->out, piece.len);
        done += piece.len;
    }
    if (self->is_out_ended && pfl_replay_unsent(&self->out) == 0) {
        self->is_end_sent = true;
        *ret_is_end = true;
    }
    return done;
}

int pfl_resume_on_credit(struct pfl_resume *self, uint32_t bytes)
{
    return pfl_replay_release(&self->out, self->out.base + bytes);
}

/* ---- in ---- */

static bool may_come(const struct pfl_resume *r, size_t len)
{
    return !r->is_in_ended && len <= r->in_window_bytes - pfl_replay_kept(&r->in);
}

int pfl_resume_feed(struct pfl_resume *self, struct pfl_span data)
{
    if (!may_come(self, data.len))
        return PFL_EPROTO;
    return pfl_replay_append(&self->in, data.data, data.len);
}

void pfl_resume_feed_end(struct pfl_resume *self)
{
    self->is_in_ended = true;
}

int pfl_resume_pass(struct pfl_resume *self, size_t len)
{
    assert(pfl_replay_kept(&self->in) == 0);
    if (!may_come(self, len))
        return PFL_EPROTO;
    self->in.base += len;
    self->in.next += len;
    self->in.end += len;
    return 0;
}

struct pfl_span pfl_resume_peek(const struct pfl_resume *self, size_t max)
{
    return pfl_replay_peek(&self->in, max);
}

void pfl_resume_use(struct pfl_resume *self, size_t len)
{
    int rc;

    pfl_replay_skip(&self->in, len);
    rc = pfl_replay_release(&self->in, self->in.next);
    assert(rc == 0);
    (void)rc;
}

uint32_t pfl_resume_take_credit(struct pfl_resume *self)
{
    uint64_t due = self->in.base - self->in_credit_sent;

    if (!self->is_attached || due == 0 ||
        (due < self->in_window_bytes / CREDIT_PARTS && !self->is_in_ended))
        return 0;
    self->in_credit_sent += due;
    return (uint32_t)due;
}

bool pfl_resume_is_done(const struct pfl_resume *self)
{
    return self->is_out_ended && self->is_end_sent && pfl_replay_kept(&self->out) == 0 &&
           self->is_in_ended && pfl_replay_kept(&self->in) == 0;
}
