/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps one connection to one relay: resolves, connects, does the handshake, checks that a relay of
 * our fleet answers, and redials (backoff.h) after a loss or a GOAWAY.
 */
#ifndef PFL_TUNNEL_DIALER_H
#define PFL_TUNNEL_DIALER_H

#include "base/io/tls_stream.h"
#include "tunnel/link.h"

struct pfl_dialer;

struct pfl_dialer_conf {
    uv_loop_t *loop;
    const char *address;      /* "HOST[:PORT]", "[V6][:PORT]"; copied */
    struct pfl_tls_conf *tls; /* a reference is taken; made with the ALPN to speak */
    const char *fleet;        /* copied; the relay's name must be perfleet://FLEET/relay/... */
    const char *alpn;         /* static: what the relay must have agreed to */
    bool is_answering;        /* the HTTP/2 roles: see proto/h2/h2.h, as for the next two */
    uint32_t window_bytes;
    void (*on_request)(void *user, struct pfl_h2_stream *stream, const struct pfl_h2_head *head);
    uint64_t handshake_timeout_ms;
    uint64_t retry_max_ms; /* the longest wait before an attempt; 0: PFL_BACKOFF_MAX_MS */
    uint64_t quiet_ms;     /* see tunnel/link.h */
    /* Connected, and the relay's settings have arrived. */
    void (*on_up)(void *user, struct pfl_h2 *h2);
    /* Lost, or an attempt failed: `why` is a sentence, the next attempt is in `retry_ms`. */
    void (*on_down)(void *user, const char *why, uint64_t retry_ms);
    void (*on_closed)(void *user); /* last callback; freed right after */
    void *user;
};

#define PFL_DIALER_PORT "9910" /* for an address without a port */

struct pfl_dialer_address {
    char host[300]; /* without brackets */
    char port[8];
};

/* HOST, HOST:PORT, [V6] or [V6]:PORT; false for anything else. */
bool pfl_dialer_parse_address(const char *text, struct pfl_dialer_address *ret_address);
/* PFL_EINVAL (invalid address, too long a fleet), PFL_ENOMEM. */
PFL_MUST_USE int pfl_dialer_open(const struct pfl_dialer_conf *conf,
                                 struct pfl_dialer **ret_dialer);
/* NULL while it is down. */
struct pfl_h2 *pfl_dialer_get_h2(struct pfl_dialer *self);
/* Bytes queued for the kernel; 0 while it is down. */
size_t pfl_dialer_get_queued_bytes(const struct pfl_dialer *self);
/* The relay's name in its certificate; "" before the first connection. */
const char *pfl_dialer_get_relay(const struct pfl_dialer *self);
/* When that certificate expires (UNIX time); 0 before the first connection. */
int64_t pfl_dialer_get_relay_end_s(const struct pfl_dialer *self);
/* "1.2" or "1.3": of the connection, or the last one; "" before the first. Static. */
const char *pfl_dialer_get_tls_version(const struct pfl_dialer *self);
/* For new attempts. A connection to a revoked relay is closed. */
void pfl_dialer_set_tls(struct pfl_dialer *self, struct pfl_tls_conf *tls);
void pfl_dialer_close(struct pfl_dialer *self); /* asynchronous, idempotent */

#endif
