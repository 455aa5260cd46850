/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected byte stream on a uv loop. fdsock.h (plain socket, with descriptors) and tls_stream.h
 * (TLS over an fdsock) open it; ports read, write and close it.
 *
 * Callbacks are never run from inside a call on the stream; they run from the loop. After
 * `on_closed` the stream is freed. Writing never blocks: bytes that the kernel does not accept are
 * copied once into a queue with a hard maximum.
 */
#ifndef PFL_BASE_IO_STREAM_H
#define PFL_BASE_IO_STREAM_H

#include <stdbool.h>
#include <sys/uio.h>
#include <uv.h>

#include "base/bytes.h"
#include "base/err.h"

struct pfl_stream;

struct pfl_stream_ops {
    /* Input is available and will be read next. The owner may wait until there is more. False: do
     * not read in this turn of the loop; asked again in the next, or once reading is started again:
     * pfl_stream_read_stop is the one call on the stream that is allowed here. May be NULL. */
    bool (*on_input)(void *user);
    /* Bytes arrived; borrowed until return. May call any function on the stream. */
    void (*on_data)(void *user, struct pfl_span data);
    /* A descriptor arrived with the bytes that follow (plain AF_UNIX only); transferred to the
     * callee. NULL: descriptors are closed. More than one in a message closes the stream. */
    void (*on_fd)(void *user, int fd);
    /* The peer ended its direction; ours still works until pfl_stream_shutdown. Once. */
    void (*on_eof)(void *user);
    /* The queue fell to queue_low_bytes or below after having been above it (sent, or dropped
     * because the peer no longer reads), or pfl_stream_may_go_on was false. May be NULL. */
    void (*on_writable)(void *user);
    /* TLS: the handshake is done and the peer verified; never for plain. May be NULL. */
    void (*on_ready)(void *user);
    /* Last callback, once. `err`: 0 after pfl_stream_close, else why it broke (PFL_EIO,
     * PFL_ECLOSED, PFL_ETLS, PFL_EPROTO, PFL_ENOMEM). The stream is freed right after. */
    void (*on_closed)(void *user, int err);
};

struct pfl_stream_conf {
    uv_loop_t *loop;                  /* borrowed; outlives the stream */
    const struct pfl_stream_ops *ops; /* borrowed; static */
    void *user;                       /* borrowed until on_closed */
    size_t queue_max_bytes;           /* hard maximum of queued bytes */
    size_t queue_low_bytes;           /* threshold of on_writable */
    size_t turn_max_bytes;            /* bytes read in a turn of the loop; 0: 256 KiB; plain only */
};

/*
 * Sends the bytes of `iov` in order, `fd` (or -1) with the first of them. The kernel, or the queue,
 * duplicates `fd`: the caller keeps its own. PFL_ELIMIT when queued bytes plus these would exceed
 * queue_max_bytes (nothing was taken), PFL_ESTATE after shutdown or close, PFL_ENOMEM. on_closed
 * reports a kernel error, not this call.
 */
PFL_MUST_USE int pfl_stream_writev(struct pfl_stream *self, const struct iovec *iov, int iov_len,
                                   int fd);
/* Bytes queued and not yet taken by the kernel (for TLS: ciphertext). */
size_t pfl_stream_queued_bytes(const struct pfl_stream *self);
/* May the owner do more for this peer in this turn of the loop: send, or work on what came? False:
 * the peer has had its part (base/io/input_turns.h); on_writable comes in one of the next turns. */
bool pfl_stream_may_go_on(struct pfl_stream *self);
/* Reading is initially on. While it is stopped the kernel holds the peer back. */
void pfl_stream_read_stop(struct pfl_stream *self);
void pfl_stream_read_start(struct pfl_stream *self);
/* Half-close: once the queue is sent, ends our direction. */
void pfl_stream_shutdown(struct pfl_stream *self);
/* Asynchronous, idempotent, legal in every state; drops the queue. on_closed follows. */
void pfl_stream_close(struct pfl_stream *self);
/* As close, but sends what is queued first; on_closed reports PFL_ETIMEOUT if something was left
 * after timeout_ms. Nothing is delivered any more. */
void pfl_stream_close_after_flush(struct pfl_stream *self, uint64_t timeout_ms);
/* The errno behind on_closed's error (ECONNREFUSED, ECONNRESET, ...), 0 when there is none; for
 * the log. Valid inside on_closed; before, it is not 0 once a send failed. */
int pfl_stream_get_errno(const struct pfl_stream *self);
/* Error text of a broken stream (TLS: pfl_tls_stream_get_error), "" if there is none. Valid inside
 * on_closed. */
const char *pfl_stream_get_error(const struct pfl_stream *self);
/* Changes the callbacks: moves a stream from one owner to the next. */
void pfl_stream_set_user(struct pfl_stream *self, const struct pfl_stream_ops *ops, void *user);

#endif
