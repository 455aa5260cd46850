/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operator's stream through the relay: two HTTP/2 streams, bytes, ends and credit passed
 * through. It holds of each direction what came from one HTTP/2 stream and has not gone out to the
 * other: one window, or less when its owner has no memory for it: then both HTTP/2 streams are
 * reset, to be resumed. Pure: it sees HTTP/2 events, no socket and no byte's meaning.
 */
#ifndef PFL_RELAY_HUB_STREAM_SPLICE_H
#define PFL_RELAY_HUB_STREAM_SPLICE_H

#include "proto/h2/h2.h"
#include "proto/tunnel/resume.h"

/* Fields that are passed on, each way. */
#define PFL_STREAM_SPLICE_FIELDS 8u

struct pfl_stream_splice;

struct pfl_stream_splice_stats {
    uint64_t bytes_to_host;
    uint64_t bytes_to_operator;
    unsigned status;       /* the agent's answer; 0: there was none */
    uint64_t held_to_host; /* came, and has not gone on */
    uint64_t held_to_operator;
    uint64_t unused_to_host; /* of the windows: sent, and not used up there */
    uint64_t unused_to_operator;
    uint32_t operator_code; /* how each HTTP/2 stream ended: enum pfl_h2_code */
    uint32_t host_code;
};

struct pfl_stream_splice_conf {
    struct pfl_h2_stream *h2_stream; /* the operator's CONNECT, not answered; taken on success */
    const struct pfl_h2_head *head;  /* its fields are passed on; borrowed until new returns */
    const struct pfl_resume_offer *offer; /* the operator's; likewise. NULL: none */
    struct pfl_h2 *agent;                 /* the host's connection */
    const char *operator_name;            /* borrowed until new returns */
    uint32_t host_window_bytes; /* what the host may send without credit: what we told it */
    uint32_t operator_window_bytes;
    /* What the agent has to keep the operator to (proto/gate/role.h), and the same as a field's
     * value. Borrowed until new returns. Empty and NULL: nothing. */
    struct pfl_span role;
    const char *role_text;
    /* How many bytes may go to the operator now, of `want`; the rest waits until
     * pfl_stream_splice_wake. NULL: all. */
    size_t (*get_room)(void *user, size_t want);
    void (*on_sent)(void *user, size_t bytes);
    /* Before and after `bytes` are held. take_memory false: there are none; it may trim and detach
     * other splices. give_memory comes before on_ended. NULL: no bound but the windows. */
    bool (*take_memory)(void *user, size_t bytes);
    void (*give_memory)(void *user, size_t bytes);
    /* Last callback: both HTTP/2 streams are gone; freed right after. */
    void (*on_ended)(void *user, const struct pfl_stream_splice_stats *stats);
    void *user;
};

/* Errors of pfl_h2_request: then `h2_stream` is still the caller's to answer. PFL_ENOMEM. */
PFL_MUST_USE int pfl_stream_splice_new(const struct pfl_stream_splice_conf *conf,
                                       struct pfl_stream_splice **ret_splice);

/* What it has carried so far. */
void pfl_stream_splice_get_stats(const struct pfl_stream_splice *self,
                                 struct pfl_stream_splice_stats *ret_stats);
/* get_room may have another answer. */
void pfl_stream_splice_wake(struct pfl_stream_splice *self);
/* Memory of rings now, and what of it is not used goes back. */
size_t pfl_stream_splice_get_memory(const struct pfl_stream_splice *self);
void pfl_stream_splice_trim(struct pfl_stream_splice *self);
/* Both HTTP/2 streams are lost, and all memory goes back at once; the ends may resume. on_ended
 * follows. */
void pfl_stream_splice_detach(struct pfl_stream_splice *self);
/* Kills the stream at both ends; on_ended follows from their sessions. */
void pfl_stream_splice_cancel(struct pfl_stream_splice *self);

#endif
