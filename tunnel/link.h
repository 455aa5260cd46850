/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/2 connection (proto/h2/h2.h) over a stream that is ready: moves the bytes, keeps it
 * alive, notices when the other side is gone. Callbacks of the h2 and on_closed run from the loop.
 */
#ifndef PFL_TUNNEL_LINK_H
#define PFL_TUNNEL_LINK_H

#include "base/io/stream.h"
#include "proto/h2/h2.h"

/* Ciphertext queued for the kernel: above the first nothing more is taken from the streams. */
#define PFL_TUNNEL_QUEUE_HIGH_BYTES (128u * 1024)
#define PFL_TUNNEL_QUEUE_MAX_BYTES  (1u << 20)
#define PFL_TUNNEL_QUEUE_LOW_BYTES  (32u * 1024)

/* The `why` of on_closed where the peer ended the connection and said nothing else. */
#define PFL_TUNNEL_LINK_ENDED "the other side closed the connection"

struct pfl_tunnel_link;

/* Nothing received for quiet_ms: a ping; for so many times that: gone. */
#define PFL_TUNNEL_SILENCE_FACTOR 3u

struct pfl_tunnel_link_conf {
    uv_loop_t *loop;
    struct pfl_stream *stream; /* taken on success: opened with the queue sizes above, and ready */
    struct pfl_h2_conf h2;     /* on_wake and wake_user are the link's to set */
    uint64_t quiet_ms;         /* nothing received so long: ping; twice as long again: gone */
    /* As in pfl_stream_ops; on_read when what was read then has been dealt with. Both or none. */
    bool (*on_input)(void *user);
    void (*on_read)(void *user);
    /* Last callback; streams of the h2 have had their on_closed. `why`: a sentence, "" after
     * pfl_tunnel_link_close. The link is freed right after. */
    void (*on_closed)(void *user, int err, const char *why);
    void *user;
};

PFL_MUST_USE int pfl_tunnel_link_open(const struct pfl_tunnel_link_conf *conf,
                                      struct pfl_tunnel_link **ret_link);
/* Borrowed until its streams had their on_closed; NULL from then to the link's on_closed. */
struct pfl_h2 *pfl_tunnel_link_get_h2(struct pfl_tunnel_link *self);
/* Ciphertext that waits for the kernel. */
size_t pfl_tunnel_link_get_queued_bytes(const struct pfl_tunnel_link *self);
/* Sends what there is, then closes. Asynchronous, idempotent, legal in callbacks of the h2. */
void pfl_tunnel_link_close(struct pfl_tunnel_link *self);

#endif
