/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a stream that outlives its connections: the offsets of both directions, bytes that
 * were sent and not credited, and bytes that were received and not used up. Pure:
 * docs/protocol-tunnel.md, "Resume".
 *
 * Out: write .. pull .. credited. In: feed .. peek and use. When the connection is lost: detach;
 * with the next one: attach with the offer in the peer's head, and pull continues where the peer
 * stopped.
 */
#ifndef PFL_PROTO_TUNNEL_RESUME_H
#define PFL_PROTO_TUNNEL_RESUME_H

#include <stdbool.h>

#include "proto/tunnel/replay.h"

/* What a side reports when a connection begins: the head's perfleet-received, -credited,
 * -window. */
struct pfl_resume_offer {
    uint64_t received;
    uint64_t credited;
    uint64_t window_bytes;
};

struct pfl_resume {
    struct pfl_replay out; /* from the peer's credit on */
    struct pfl_replay in;  /* base: used up; end: received */
    uint64_t peer_window_bytes;
    uint64_t in_credit_sent; /* credit sent on this connection or in the offer that began it */
    uint32_t in_window_bytes;
    bool is_attached;
    bool is_out_ended; /* we have written our last byte */
    bool is_end_sent;  /* on this connection */
    bool is_in_ended;  /* the peer has written its last byte, and all is received */
};

/* What another process saved of a stream. Of `in` only the offset of used bytes: the peer sends the
 * rest again. */
struct pfl_resume_kept {
    uint64_t in_used;
    uint64_t out_base; /* the peer's credit */
    uint64_t out_end;
    uint8_t *out_data; /* the ring of `out` (pfl_replay_restore) */
    size_t out_capacity;
};

/* `out_max_bytes`: maximum kept for sending; `in_window_bytes`: maximum that the peer may send
 * ahead. */
void pfl_resume_init(struct pfl_resume *self, size_t out_max_bytes, uint32_t in_window_bytes);
void pfl_resume_fini(struct pfl_resume *self); /* legal on zeroed memory */
/* Call right after init (and pfl_replay_set_memory of `out`): continues from the saved state, as if
 * all of it had been sent and the connection were lost. PFL_EPARSE: inconsistent; nothing was
 * taken. */
PFL_MUST_USE int pfl_resume_restore(struct pfl_resume *self, const struct pfl_resume_kept *kept);

/* ---- connection ---- */

void pfl_resume_get_offer(const struct pfl_resume *self, struct pfl_resume_offer *ret_offer);
/* A connection carries the stream now. PFL_EPROTO: the offer is impossible, nothing changed, and
 * the stream is lost. `sent_offer` is the offer that we sent for this connection. */
PFL_MUST_USE int pfl_resume_attach(struct pfl_resume *self, const struct pfl_resume_offer *peer,
                                   const struct pfl_resume_offer *sent_offer);
void pfl_resume_detach(struct pfl_resume *self); /* idempotent */

/* ---- out ---- */

/* PFL_ELIMIT, PFL_ENOMEM (nothing was taken), PFL_ESTATE after the end. */
PFL_MUST_USE int pfl_resume_write(struct pfl_resume *self, struct pfl_span data);
void pfl_resume_end(struct pfl_resume *self);
/* Copies the bytes that may be sent now to `dst`. Sets *ret_is_end with the last byte or after
 * it. */
size_t pfl_resume_pull(struct pfl_resume *self, uint8_t *dst, size_t room, bool *ret_is_end);
/* The peer has used up `bytes` more. PFL_EPROTO: more than was sent. */
PFL_MUST_USE int pfl_resume_on_credit(struct pfl_resume *self, uint32_t bytes);

/* ---- in ---- */

/* PFL_EPROTO past the window or after the end; PFL_ENOMEM. Taken at once. */
PFL_MUST_USE int pfl_resume_feed(struct pfl_resume *self, struct pfl_span data);
void pfl_resume_feed_end(struct pfl_resume *self);
/* As feed and use of all bytes, without the copy: legal if nothing is held. */
PFL_MUST_USE int pfl_resume_pass(struct pfl_resume *self, size_t len);
/* Received bytes that are not used up, in one piece, at most `max`. Borrowed until the next
 * call. */
struct pfl_span pfl_resume_peek(const struct pfl_resume *self, size_t max);
void pfl_resume_use(struct pfl_resume *self, size_t len);
/* Credit to send to the peer now; counts as sent from now on. 0 while it is too little for a
 * frame. */
uint32_t pfl_resume_take_credit(struct pfl_resume *self);

/* All bytes of both directions are sent, received, used up and, in our direction, credited. */
bool pfl_resume_is_done(const struct pfl_resume *self);

static inline size_t pfl_resume_held(const struct pfl_resume *self)
{
    return pfl_replay_kept(&self->in);
}

#endif
