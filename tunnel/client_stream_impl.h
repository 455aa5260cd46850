/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by client_stream.c (the owner's side of a stream) and client_connection.c (the
 * connection's side). */
#ifndef PFL_TUNNEL_CLIENT_STREAM_IMPL_H
#define PFL_TUNNEL_CLIENT_STREAM_IMPL_H

#include "base/io/stream_impl.h"
#include "proto/tunnel/identity.h"
#include "proto/tunnel/tunnel_offer.h"
#include "tunnel/backoff.h"
#include "tunnel/client_impl.h"
#include "tunnel/decode_port.h"

#define PFL_CLIENT_PATH_BYTES 160u

enum pfl_client_stream_state { STATE_WAITING, STATE_ASKING, STATE_CARRIED, STATE_CLOSING };

/* Whether the host has the stream. */
enum pfl_client_opened {
    PFL_CLIENT_NOT_OPENED,
    PFL_CLIENT_TAKEN_OVER, /* begun from a ticket: the first answer's credit may be behind ours */
    PFL_CLIENT_OPENED,
};

struct pfl_client_stream {
    struct pfl_stream base;
    struct pfl_tunnel_rider rider;
    struct pfl_tunnel_client *client;
    struct pfl_tunnel_way *way; /* the client's connection that carries it */
    uv_loop_t *loop;
    enum pfl_client_stream_state state;
    struct pfl_resume resume;
    struct pfl_decode_port *decoder;    /* owned; NULL: plain */
    struct pfl_resume_offer sent_offer; /* our offer for this HTTP/2 stream */
    struct pfl_h2_stream *h2_stream;    /* borrowed until its on_closed */
    uv_timer_t retry; /* the next attempt while WAITING; the end of close_after_flush */
    uv_timer_t kick;  /* defers callbacks to the owner to the loop */
    unsigned timers;
    struct pfl_backoff backoff;
    uint64_t lost_ms; /* when the last HTTP/2 stream was lost */
    uint64_t ttl_ms;
    size_t queue_max_bytes;
    size_t queue_low_bytes;
    uint64_t delivered_bytes;
    unsigned resumes;
    unsigned status; /* of the answer to this HTTP/2 stream's CONNECT */
    int close_err;
    enum pfl_client_opened opened;
    bool wants_zstd;
    bool is_reading;
    bool is_ready_reported;
    bool is_eof_reported;
    bool is_above;    /* the queue was above queue_low_bytes */
    bool is_flushing; /* close_after_flush: nothing is delivered any more */
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
    char host[PFL_IDENTITY_NAME_BYTES];
    struct pfl_client_place *place; /* owned; of a stream with one life; NULL: it resumes */
    char error[256];
};

/* A copy of a struct pfl_tunnel_place. */
struct pfl_client_place {
    char path[PFL_CLIENT_PATH_BYTES];
    const char *protocol; /* static */
    struct pfl_h2_field fields[PFL_TUNNEL_PLACE_FIELDS];
    size_t fields_len;
    char values[PFL_TUNNEL_PLACE_FIELDS][PFL_IDENTITY_NAME_BYTES]; /* of the fields */
};

/* First step of every end: on_closed follows from the loop. The first reason is kept. */
void pfl_client_stream_begin_close(struct pfl_client_stream *s, int err, const char *why);

/* The connection's side, as the client calls it. */
extern const struct pfl_tunnel_rider_ops pfl_client_connection_rider_ops;

/* Asks for an HTTP/2 stream now, or waits for one. */
void pfl_client_connection_ask(struct pfl_client_stream *s);
void pfl_client_connection_drop(struct pfl_client_stream *s, enum pfl_h2_code code);
/* For the timers. */
void pfl_client_connection_on_retry(uv_timer_t *timer);
/* Schedules pending callbacks to the owner. */
void pfl_client_connection_kick(struct pfl_client_stream *s);
/* Drops the HTTP/2 stream permanently and begins the end. */
void pfl_client_stream_break(struct pfl_client_stream *s, int err, const char *why);

#endif
