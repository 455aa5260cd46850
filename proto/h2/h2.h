/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP/2 connection of the tunnel, without I/O: bytes in by feed, bytes out by drain, events by
 * callbacks. nghttp2 implements the protocol; this adds limits and exact credit.
 *
 * Credit is explicit: only pfl_h2_stream_credit credits the peer, and on_credit reports the peer's
 * credit to the byte. The connection's own window is always open, so that one stream never blocks
 * another.
 *
 * Callbacks run inside feed and drain only (never inside other calls). In a callback every function
 * here is legal except feed, drain and free. After on_closed the stream is freed.
 */
#ifndef PFL_PROTO_H2_H2_H
#define PFL_PROTO_H2_H2_H

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

/* Limits of a received head (request or response): fields and bytes. */
#define PFL_H2_HEAD_FIELDS 32u
#define PFL_H2_HEAD_BYTES  4096u
/* A head that is too large is read up to this many bytes; then its stream is reset without an
 * answer. */
#define PFL_H2_HEAD_READ_BYTES 16384u
/* Fields of a head that is sent. */
#define PFL_H2_SEND_FIELDS 16u
/* Default limit of the peer's concurrent streams; above it the peer gets REFUSED_STREAM. */
#define PFL_H2_MAX_STREAMS 256u
/* Streams that the peer may cancel at once, and per second (rapid reset). */
#define PFL_H2_RESET_BURST   1000u
#define PFL_H2_RESET_PER_SEC 100u
/* Room for one frame. */
#define PFL_H2_DRAIN_BYTES (16384u + 256u)
/* Consecutive empty DATA frames that a connection may send. */
#define PFL_H2_MAX_EMPTY_DATA 100u
/* Frames (other than DATA) that may be queued when the peer's bytes were processed: refusals of
 * streams, answers, acknowledgements. */
#define PFL_H2_MAX_QUEUED_FRAMES 4096u

struct pfl_h2;
struct pfl_h2_stream;
struct pfl_h2_head;

/* RST_STREAM codes with a meaning in the tunnel. */
enum pfl_h2_code {
    PFL_H2_NO_ERROR = 0,
    PFL_H2_PROTOCOL_ERROR = 1,
    PFL_H2_INTERNAL_ERROR = 2,
    PFL_H2_FLOW_CONTROL_ERROR = 3,
    PFL_H2_REFUSED = 7,
    PFL_H2_CANCEL = 8,   /* the stream ends permanently: kill it */
    PFL_H2_DETACH = 0xa, /* CONNECT_ERROR: the HTTP/2 stream is lost; the stream that it carried may
                            be resumed */
    PFL_H2_CALM = 0xb,
};

struct pfl_h2_stream_ops {
    /* The answer's head (asking side). May be NULL on the answering side. */
    void (*on_response)(void *user, const struct pfl_h2_head *head);
    /* Borrowed until return. Counts against the window until credited. */
    void (*on_data)(void *user, struct pfl_span data);
    /* The peer ended its direction. */
    void (*on_end)(void *user);
    /* Bytes may be sent: writes up to `room` to `dst`, returns how many; 0: nothing now
     * (pfl_h2_stream_wake asks again). Sets *ret_is_end with the last ones. NULL: sends none. */
    size_t (*on_pull)(void *user, uint8_t *dst, size_t room, bool *ret_is_end);
    /* The peer has used up `bytes` more of what was sent. May be NULL. */
    void (*on_credit)(void *user, uint32_t bytes);
    /* Last callback. `code`: enum pfl_h2_code or any other of HTTP/2; NO_ERROR after a full
     * exchange. */
    void (*on_closed)(void *user, uint32_t code);
};

struct pfl_h2_conf {
    bool is_answering;     /* HTTP/2 server: gets requests; else makes them */
    uint32_t window_bytes; /* initial window of each of the peer's streams */
    uint32_t max_streams;  /* of the peer; 0: PFL_H2_MAX_STREAMS */
    uint32_t resetters;    /* the number of users for whom the peer makes requests: multiplies its
                              limit of cancels; 0: one */
    /* A request arrived: set the stream's ops, then respond now or later. A stream without ops
     * after this is answered 404. NULL on the asking side. */
    void (*on_request)(void *user, struct pfl_h2_stream *stream, const struct pfl_h2_head *head);
    void (*on_ready)(
        void *user); /* the peer's settings arrived: requests may be made. May be NULL */
    void (*on_goaway)(void *user); /* the peer accepts no more requests here. May be NULL */
    void *user;
    /* drain has something to do; called outside feed and drain only. May be NULL. */
    void (*on_wake)(void *wake_user);
    void *wake_user;
};

PFL_MUST_USE int pfl_h2_new(const struct pfl_h2_conf *conf, struct pfl_h2 **ret_h2);
/* Every stream's on_closed comes first, with PFL_H2_DETACH. NULL is legal. */
void pfl_h2_free(struct pfl_h2 *self);

/* PFL_EPROTO, PFL_ELIMIT (the peer floods), PFL_ENOMEM: the connection is broken; drain may still
 * have the reason for the peer. */
PFL_MUST_USE int pfl_h2_feed(struct pfl_h2 *self, struct pfl_span bytes);
/* Writes pending frames to `out` while PFL_H2_DRAIN_BYTES fit; if nothing was written nothing is
 * pending. PFL_ENOMEM, PFL_EPROTO. */
PFL_MUST_USE int pfl_h2_drain(struct pfl_h2 *self, struct pfl_writer *out);
/* Both sides are finished: close the connection. */
bool pfl_h2_is_over(const struct pfl_h2 *self);
unsigned pfl_h2_count_streams(const struct pfl_h2 *self);
/* A GOAWAY was received or sent: pfl_h2_request returns PFL_ESTATE. */
bool pfl_h2_is_going(const struct pfl_h2 *self);
/* Sends GOAWAY: the peer must make no more requests here. Streams continue. */
PFL_MUST_USE int pfl_h2_goaway(struct pfl_h2 *self);
PFL_MUST_USE int pfl_h2_ping(struct pfl_h2 *self);

struct pfl_h2_field {
    const char *name; /* lower case */
    const char *value;
};

struct pfl_h2_request {
    const char *method;
    const char *path;
    const char *protocol; /* of an extended CONNECT, else NULL */
    const struct pfl_h2_field *fields;
    size_t fields_len;
    const struct pfl_h2_stream_ops *ops; /* static; with on_pull: a body follows */
    void *user;
};

/* PFL_ESTATE before on_ready of an extended CONNECT whose peer does not know it, and after GOAWAY;
 * PFL_ELIMIT when the peer allows no more streams now; PFL_ENOMEM, PFL_EINVAL. */
PFL_MUST_USE int pfl_h2_request(struct pfl_h2 *self, const struct pfl_h2_request *request,
                                struct pfl_h2_stream **ret_stream);

/* Answers with a head, followed by the bytes of ops->on_pull. */
PFL_MUST_USE int pfl_h2_stream_respond(struct pfl_h2_stream *self, unsigned status,
                                       const struct pfl_h2_field *fields, size_t fields_len);
/* Answers with a whole body, which is copied. `type` may be NULL. */
PFL_MUST_USE int pfl_h2_stream_respond_body(struct pfl_h2_stream *self, unsigned status,
                                            const char *type, struct pfl_span body);
/* The same with the caller's fields. */
PFL_MUST_USE int pfl_h2_stream_respond_whole(struct pfl_h2_stream *self, unsigned status,
                                             const struct pfl_h2_field *fields, size_t fields_len,
                                             struct pfl_span body);
void pfl_h2_stream_set_user(struct pfl_h2_stream *self, const struct pfl_h2_stream_ops *ops,
                            void *user);
/* on_pull has data again. */
void pfl_h2_stream_wake(struct pfl_h2_stream *self);
/* `bytes` of on_data's bytes are used up. Credit is summed, and sent with the next drain. */
void pfl_h2_stream_credit(struct pfl_h2_stream *self, uint32_t bytes);
/* on_closed follows from drain. Idempotent. */
void pfl_h2_stream_reset(struct pfl_h2_stream *self, enum pfl_h2_code code);

/* ---- a received head; borrowed until the callback returns ---- */

/* NULL if it is missing (or repeated). Pseudo fields by their names (":path"). */
const char *pfl_h2_head_get(const struct pfl_h2_head *self, const char *name);
/* 0 if it is not a response. */
unsigned pfl_h2_head_get_status(const struct pfl_h2_head *self);
/* A decimal number of at most 18 digits; false when missing or anything else. */
bool pfl_h2_head_get_number(const struct pfl_h2_head *self, const char *name, uint64_t *ret_value);

#endif
