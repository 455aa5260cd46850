/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/2 connection (proto/h2/h2.h) over a stream that is ready: moves the bytes, keeps it
 * alive, detects a dead peer. Callbacks of the h2 and on_closed run from the loop.
 */
#ifndef PFL_TUNNEL_LINK_H
#define PFL_TUNNEL_LINK_H

#include "base/io/stream.h"
#include "proto/h2/h2.h"

/* Ciphertext queued for the kernel: above the first limit nothing more is taken from the h2's
 * streams. */
#define PFL_TUNNEL_QUEUE_HIGH_BYTES (128u * 1024)
#define PFL_TUNNEL_QUEUE_MAX_BYTES  (1u << 20)
#define PFL_TUNNEL_QUEUE_LOW_BYTES  (32u * 1024)

/* The `why` of on_closed if the peer ended the connection without a reason. */
#define PFL_TUNNEL_LINK_ENDED "the other side closed the connection"

struct pfl_tunnel_link;

/* Nothing received for quiet_ms: a ping; for so many times that: closed. */
#define PFL_TUNNEL_SILENCE_FACTOR 3u

struct pfl_tunnel_link_conf {
    uv_loop_t *loop;
    struct pfl_stream *stream; /* taken on success: opened with the queue sizes above, and ready */
    struct pfl_h2_conf h2;     /* the link sets on_wake and wake_user */
    uint64_t quiet_ms;         /* nothing received for so long: ping; twice as long again: closed */
    /* Last callback; streams of the h2 have had their on_closed. `why`: a sentence, "" after
     * pfl_tunnel_link_close. The link is freed right after. */
    void (*on_closed)(void *user, int err, const char *why);
    void *user;
};

PFL_MUST_USE int pfl_tunnel_link_open(const struct pfl_tunnel_link_conf *conf,
                                      struct pfl_tunnel_link **ret_link);
/* Borrowed until its streams had their on_closed; NULL from then to the link's on_closed. */
struct pfl_h2 *pfl_tunnel_link_get_h2(struct pfl_tunnel_link *self);
/* Ciphertext queued for the kernel. */
size_t pfl_tunnel_link_get_queued_bytes(const struct pfl_tunnel_link *self);
/* Sends pending output, then closes. Asynchronous, idempotent, legal in callbacks of the h2. */
void pfl_tunnel_link_close(struct pfl_tunnel_link *self);

#endif
