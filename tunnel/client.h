/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operator's side of the tunnel: one relay, requests to it, and streams to consumer sockets of
 * its hosts that outlive the connection. Everything is asynchronous; callbacks run from the loop.
 *
 *     pfl_tls_conf_new(&(struct pfl_tls_files){..., .alpn = pfl_tunnel_client_alpn}, ...);
 *     pfl_tunnel_client_open(&conf, &client);          // on_up
 *     pfl_tunnel_client_call(client, &call);           // on_done(status, body): GET /v1/hosts
 *     pfl_tunnel_client_connect(client, &to, &stream_conf, &stream);  // a struct pfl_stream
 *     pfl_tunnel_client_dial(client, &place, &stream_conf, &stream);  // the same, with one life
 *
 * A stream is a pfl_stream (base/io/stream.h): on_ready with the first answer, then on_data,
 * writev, read_stop and read_start, shutdown, close; while the relay, the network or the agent is
 * down it waits, and then continues without gaps or duplicates. It breaks (on_closed with an error,
 * pfl_tunnel_stream_get_error has the text) if it is refused, if its host lost it (the agent died
 * and nothing was stored, or its time-to-live passed), or after give_up_ms without a connection.
 */
#ifndef PFL_TUNNEL_CLIENT_H
#define PFL_TUNNEL_CLIENT_H

#include "base/io/stream.h"
#include "base/io/tls_stream.h"
#include "proto/h2/h2.h"
#include "proto/tunnel/tunnel.h"

/* Answers to calls: larger ones fail with PFL_ELIMIT. */
#define PFL_TUNNEL_BODY_MAX_BYTES (16u << 20)

/* A relay accepts PFL_H2_MAX_STREAMS per connection: more hosts need more connections. */
#define PFL_TUNNEL_WAY_STREAMS 128u
#define PFL_TUNNEL_CLIENT_WAYS 16u /* the last one takes all further streams */

/* For struct pfl_tls_files. */
extern const char *const pfl_tunnel_client_alpn[];

struct pfl_tunnel_client;

struct pfl_tunnel_client_conf {
    uv_loop_t *loop;
    const char *address;                          /* "HOST[:PORT]", "[V6][:PORT]"; copied */
    struct pfl_tls_conf *tls;                     /* a reference is taken */
    const char *fleet;                            /* copied; the relay must belong to it */
    uint64_t handshake_timeout_ms;                /* 0: 10 s */
    uint64_t give_up_ms;                          /* for streams; 0: PFL_TUNNEL_TTL_DEFAULT_MS */
    uint64_t retry_max_ms;                        /* the longest wait before an attempt; 0: 30 s */
    void (*on_up)(void *user);                    /* connected (again). May be NULL */
    void (*on_down)(void *user, const char *why); /* lost, or an attempt failed. May be NULL */
    void (*on_closed)(void *user);                /* last callback, after pfl_tunnel_client_close */
    void *user;
};

PFL_MUST_USE int pfl_tunnel_client_open(const struct pfl_tunnel_client_conf *conf,
                                        struct pfl_tunnel_client **ret_client);
bool pfl_tunnel_client_is_up(const struct pfl_tunnel_client *self);
/* When the relay's certificate expires (UNIX time); 0 before the first connection. */
int64_t pfl_tunnel_client_get_relay_end_s(const struct pfl_tunnel_client *self);
/* For new connections; those to a revoked relay are closed (on_down). */
void pfl_tunnel_client_set_tls(struct pfl_tunnel_client *self, struct pfl_tls_conf *tls);
/* Breaks calls and streams (PFL_ECLOSED). Asynchronous, idempotent. Call pfl_tunnel_stream_leave
 * before this for streams that should stay at their hosts. */
void pfl_tunnel_client_close(struct pfl_tunnel_client *self);

struct pfl_tunnel_call {
    const char *method; /* "GET", "DELETE" */
    const char *path;
    const struct pfl_h2_field *fields; /* borrowed until the call returns */
    size_t fields_len;
    size_t body_max_bytes; /* 0: PFL_TUNNEL_BODY_MAX_BYTES */
    /* Once, from the loop. `err` 0: there was an answer (any status); else status is 0: PFL_ECLOSED
     * (connection lost), PFL_ELIMIT, PFL_ENOMEM. `body` is borrowed until return. */
    void (*on_done)(void *user, int err, unsigned status, struct pfl_span body);
    void *user;
};

/* PFL_ESTATE while down; then on_done is not called. */
PFL_MUST_USE int pfl_tunnel_client_call(struct pfl_tunnel_client *self,
                                        const struct pfl_tunnel_call *call);

struct pfl_tunnel_target {
    const char *host; /* its name; copied */
    uint64_t ttl_ms;  /* how long the host keeps the stream without a connection; 0: the default */
    bool wants_zstd;  /* the host compresses the data to us if it can */
    /* NULL: a new stream. Otherwise one from pfl_tunnel_stream_leave: its id and offsets. */
    const struct pfl_tunnel_ticket *ticket;
};

/* What a later process needs to take a stream over. Valid only if all received bytes were used
 * up. */
struct pfl_tunnel_ticket {
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
    uint64_t received;
    uint64_t sent;
};

/*
 * Begins a stream; legal while down. conf->queue_max_bytes (at most PFL_TUNNEL_CONTROL_WINDOW_BYTES
 * of it) limits the bytes that wait to be sent or credited by the host. on_ready follows, or
 * on_closed: PFL_EPERM (403), PFL_ENOENT (404: no such host, 410), PFL_ECLOSED (503: the host is
 * not connected), PFL_EAGAIN (429), PFL_EPROTO. PFL_ENOMEM, PFL_EINVAL.
 */
PFL_MUST_USE int pfl_tunnel_client_connect(struct pfl_tunnel_client *self,
                                           const struct pfl_tunnel_target *target,
                                           const struct pfl_stream_conf *conf,
                                           struct pfl_stream **ret_stream);

/* Where a stream with one life goes: a host's spool, a collector. */
struct pfl_tunnel_place {
    const char *path;                  /* at the relay; copied */
    const char *protocol;              /* :protocol of the CONNECT; static */
    const struct pfl_h2_field *fields; /* names static, values copied */
    size_t fields_len;                 /* at most PFL_TUNNEL_PLACE_FIELDS */
};

#define PFL_TUNNEL_PLACE_FIELDS 2u

/*
 * Begins a stream with one life; legal while down. It waits for the relay at most give_up_ms, and
 * breaks with PFL_ECLOSED when its connection is lost after on_ready. Else as the streams of
 * pfl_tunnel_client_connect; PFL_EINVAL also: too many fields, or a path of more than 159 bytes.
 */
PFL_MUST_USE int pfl_tunnel_client_dial(struct pfl_tunnel_client *self,
                                        const struct pfl_tunnel_place *place,
                                        const struct pfl_stream_conf *conf,
                                        struct pfl_stream **ret_stream);

/* ---- only for streams of pfl_tunnel_client_connect and _dial ---- */

/* Why it broke, in a sentence for the operator; "" if it did not. Valid inside on_closed. */
const char *pfl_tunnel_stream_get_error(const struct pfl_stream *stream);

struct pfl_tunnel_stream_stats {
    uint64_t received_bytes; /* from the network, as encoded */
    uint64_t delivered_bytes;
    uint64_t sent_bytes;
    unsigned resumes;
    bool is_attached; /* a connection carries it now */
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
};
void pfl_tunnel_stream_get_stats(const struct pfl_stream *stream,
                                 struct pfl_tunnel_stream_stats *ret_stats);
/* As pfl_stream_close, but the host keeps the stream until its time-to-live. PFL_ESTATE if the
 * stream cannot be taken over (one life, compressed, or with unsent or unused bytes): nothing
 * happened then. */
PFL_MUST_USE int pfl_tunnel_stream_leave(struct pfl_stream *stream,
                                         struct pfl_tunnel_ticket *ret_ticket);

#endif
