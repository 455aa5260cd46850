/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's side of the tunnel: one relay, requests to it, and streams to consumer sockets of
 * its hosts that outlive the connection. Everything is asynchronous; callbacks run from the loop.
 *
 *     pfl_tls_conf_new(&(struct pfl_tls_files){..., .alpn = pfl_tunnel_client_alpn}, ...);
 *     pfl_tunnel_client_open(&conf, &client);          // on_up
 *     pfl_tunnel_client_call(client, &call);           // on_done(status, body): GET /v1/hosts
 *     pfl_tunnel_client_connect(client, &to, &stream_conf, &stream);  // a struct pfl_stream
 *
 * A stream is a pfl_stream (base/io/stream.h): on_ready with the first answer, then on_data,
 * writev, read_stop and read_start, shutdown, close; while the relay, the network or the agent is
 * away it waits, and goes on without gap and without duplicate. It breaks (on_closed with an
 * error, pfl_tunnel_stream_get_error in words) when it is refused, when its host lost it (nothing
 * was kept of an agent that died, time-to-live passed), or after give_up_ms without connection.
 */
#ifndef PFL_TUNNEL_CLIENT_H
#define PFL_TUNNEL_CLIENT_H

#include "base/io/stream.h"
#include "base/io/tls_stream.h"
#include "proto/h2/h2.h"
#include "proto/tunnel/tunnel.h"

/* Answers to calls: larger ones fail with PFL_ELIMIT. */
#define PFL_TUNNEL_BODY_MAX_BYTES (16u << 20)

/* A relay takes PFL_H2_MAX_STREAMS of a connection: more hosts are reached by more connections. */
#define PFL_TUNNEL_WAY_STREAMS 128u
#define PFL_TUNNEL_CLIENT_WAYS 16u /* the last one takes whatever is left */

/* For struct pfl_tls_files. */
extern const char *const pfl_tunnel_client_alpn[];

struct pfl_tunnel_client;

struct pfl_tunnel_client_conf {
    uv_loop_t *loop;
    const char *address;                          /* "HOST[:PORT]", "[V6][:PORT]"; copied */
    struct pfl_tls_conf *tls;                     /* a reference is taken */
    const char *fleet;                            /* copied; whose relay it must be */
    uint64_t handshake_timeout_ms;                /* 0: 10 s */
    uint64_t give_up_ms;                          /* for streams; 0: PFL_TUNNEL_TTL_DEFAULT_MS */
    uint64_t retry_max_ms;                        /* the longest wait before an attempt; 0: 30 s */
    void (*on_up)(void *user);                    /* connected (again). May be NULL */
    void (*on_down)(void *user, const char *why); /* lost, or an attempt failed. May be NULL */
    void (*on_closed)(void *user);                /* last one, after pfl_tunnel_client_close */
    void *user;
};

PFL_MUST_USE int pfl_tunnel_client_open(const struct pfl_tunnel_client_conf *conf,
                                        struct pfl_tunnel_client **ret_client);
bool pfl_tunnel_client_is_up(const struct pfl_tunnel_client *self);
/* When the relay's certificate expires (UNIX time); 0 before the first connection. */
int64_t pfl_tunnel_client_get_relay_end_s(const struct pfl_tunnel_client *self);
/* For connections to come; those to a relay that its list revokes are closed (on_down). */
void pfl_tunnel_client_set_tls(struct pfl_tunnel_client *self, struct pfl_tls_conf *tls);
/* Breaks calls and streams (PFL_ECLOSED). Asynchronous, idempotent. Streams that should live on at
 * their hosts: pfl_tunnel_stream_leave before this. */
void pfl_tunnel_client_close(struct pfl_tunnel_client *self);

struct pfl_tunnel_call {
    const char *method; /* "GET", "DELETE" */
    const char *path;
    const struct pfl_h2_field *fields; /* borrowed until the call returns */
    size_t fields_len;
    /* Once, from the loop. `err` 0: there was an answer (any status); else status is 0: PFL_ECLOSED
     * (connection lost), PFL_ELIMIT, PFL_ENOMEM. `body` is borrowed until return. */
    void (*on_done)(void *user, int err, unsigned status, struct pfl_span body);
    void *user;
};

/* PFL_ESTATE while down; then on_done does not come. */
PFL_MUST_USE int pfl_tunnel_client_call(struct pfl_tunnel_client *self,
                                        const struct pfl_tunnel_call *call);

struct pfl_tunnel_target {
    const char *host; /* its name; copied */
    uint64_t ttl_ms;  /* how long the host keeps the stream without us; 0: the default */
    bool wants_zstd;  /* the host compresses towards us when it can */
    /* NULL: a new stream. Else one that was left (pfl_tunnel_stream_leave): its id and offsets. */
    const struct pfl_tunnel_ticket *ticket;
};

/* What a later process needs to take a stream over. Only when everything received was used up. */
struct pfl_tunnel_ticket {
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
    uint64_t received;
    uint64_t sent;
};

/*
 * Begins a stream; legal while down. conf->queue_max_bytes (at most PFL_TUNNEL_CONTROL_WINDOW_BYTES
 * are used of it) bounds what waits to be sent and what is kept until the host has taken it.
 * on_ready follows, or on_closed: PFL_EPERM (403), PFL_ENOENT (404: no such host, 410), PFL_ECLOSED
 * (503: the host is not connected), PFL_EAGAIN (429), PFL_EPROTO. PFL_ENOMEM, PFL_EINVAL.
 */
PFL_MUST_USE int pfl_tunnel_client_connect(struct pfl_tunnel_client *self,
                                           const struct pfl_tunnel_target *target,
                                           const struct pfl_stream_conf *conf,
                                           struct pfl_stream **ret_stream);

/* ---- of streams made by pfl_tunnel_client_connect only ---- */

/* Why it broke, in a sentence for the operator; "" when it did not. Valid inside on_closed. */
const char *pfl_tunnel_stream_get_error(const struct pfl_stream *stream);

struct pfl_tunnel_stream_stats {
    uint64_t received_bytes; /* off the wire, as encoded */
    uint64_t delivered_bytes;
    uint64_t sent_bytes;
    unsigned resumes;
    bool is_attached; /* carried by a connection now */
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
};
void pfl_tunnel_stream_get_stats(const struct pfl_stream *stream,
                                 struct pfl_tunnel_stream_stats *ret_stats);
/* As pfl_stream_close, but the host keeps the stream until its time-to-live. PFL_ESTATE when the
 * stream cannot be taken over (compressed, something unsent or unused): nothing happened then. */
PFL_MUST_USE int pfl_tunnel_stream_leave(struct pfl_stream *stream,
                                         struct pfl_tunnel_ticket *ret_ticket);

#endif
