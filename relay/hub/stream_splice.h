/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operator's stream through the relay: two HTTP/2 streams; bytes, ends and credit are passed
 * through. It buffers at most one window per direction. If the owner has no memory left, both
 * HTTP/2 streams are reset and resume later. Pure: it sees HTTP/2 events, no socket, and does not
 * interpret bytes.
 */
#ifndef PFL_RELAY_HUB_STREAM_SPLICE_H
#define PFL_RELAY_HUB_STREAM_SPLICE_H

#include "proto/h2/h2.h"
#include "proto/tunnel/resume.h"

/* Fields that are forwarded, each way. */
#define PFL_STREAM_SPLICE_FIELDS       8u
#define PFL_STREAM_SPLICE_PLACE_FIELDS 2u

struct pfl_stream_splice;

struct pfl_stream_splice_stats {
    uint64_t bytes_to_host;
    uint64_t bytes_to_operator;
    unsigned status;       /* the agent's answer; 0: there was none */
    uint64_t held_to_host; /* received, and not forwarded */
    uint64_t held_to_operator;
    uint64_t unused_to_host; /* of the windows: sent, and not used up there */
    uint64_t unused_to_operator;
    uint32_t operator_code; /* how each HTTP/2 stream ended: enum pfl_h2_code */
    uint32_t host_code;
};

struct pfl_stream_splice_place {
    const char *path;
    const char *protocol;
    struct pfl_h2_field fields[PFL_STREAM_SPLICE_PLACE_FIELDS];
    size_t fields_len;
};

struct pfl_stream_splice_conf {
    struct pfl_h2_stream *h2_stream; /* the operator's CONNECT, not answered; taken on success */
    const struct pfl_h2_head *head;  /* its fields are passed on; borrowed until new returns */
    const struct pfl_resume_offer *offer; /* the operator's; borrowed likewise. NULL: none */
    struct pfl_h2 *agent;                 /* the host's connection */
    const char *operator_name;            /* borrowed until new returns */
    /* NULL: to the host's consumer socket; the stream may be resumed. Else with one life, to this
     * path, by this :protocol, with these fields and none of the operator's. Borrowed likewise. */
    const struct pfl_stream_splice_place *place;
    uint32_t
        host_window_bytes; /* what the host may send without credit: the window that we sent it */
    uint32_t operator_window_bytes;
    /* The role that the agent must enforce (proto/gate/role.h), and its encoding as a header field.
     * Borrowed until new returns. Empty and NULL: none. */
    struct pfl_span role;
    const char *role_text;
    /* How many of `want` bytes may be sent to the operator now; the rest waits until
     * pfl_stream_splice_wake. NULL: all. */
    size_t (*get_room)(void *user, size_t want);
    void (*on_sent)(void *user, size_t bytes);
    /* Called before and after `bytes` are held. take_memory returns false if there is no memory; it
     * may trim and detach other splices. give_memory comes before on_ended. NULL: limited by the
     * windows only. */
    bool (*take_memory)(void *user, size_t bytes);
    void (*give_memory)(void *user, size_t bytes);
    /* Last callback: both HTTP/2 streams are closed; freed right after. */
    void (*on_ended)(void *user, const struct pfl_stream_splice_stats *stats);
    void *user;
};

/* Errors of pfl_h2_request: then the caller must still answer `h2_stream`. PFL_ENOMEM. */
PFL_MUST_USE int pfl_stream_splice_new(const struct pfl_stream_splice_conf *conf,
                                       struct pfl_stream_splice **ret_splice);

/* Bytes carried so far. */
void pfl_stream_splice_get_stats(const struct pfl_stream_splice *self,
                                 struct pfl_stream_splice_stats *ret_stats);
/* Call when get_room may return more. */
void pfl_stream_splice_wake(struct pfl_stream_splice *self);
/* The rings' memory now; trim releases unused parts of it. */
size_t pfl_stream_splice_get_memory(const struct pfl_stream_splice *self);
void pfl_stream_splice_trim(struct pfl_stream_splice *self);
/* Resets both HTTP/2 streams and releases all memory at once; the ends may resume. on_ended
 * follows. */
void pfl_stream_splice_detach(struct pfl_stream_splice *self);
/* Kills the stream at both ends; on_ended follows from their sessions. */
void pfl_stream_splice_cancel(struct pfl_stream_splice *self);

#endif
