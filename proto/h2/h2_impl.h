/* SPDX-License-Identifier: Apache-2.0 */
/* What h2.c and h2_events.c share: the objects behind h2.h. */
#ifndef PFL_PROTO_H2_H2_IMPL_H
#define PFL_PROTO_H2_H2_IMPL_H

#include <nghttp2/nghttp2.h>

#include "base/list.h"
#include "proto/h2/h2.h"
#include "proto/h2/h2_head.h"

struct pfl_h2 {
    struct pfl_h2_conf conf;
    nghttp2_session *session;  /* owned */
    struct pfl_list streams;   /* owned */
    struct pfl_list creditors; /* those of the streams with credit to send */
    unsigned count;
    unsigned own_count;  /* our open requests */
    unsigned depth;      /* feed or drain is running */
    unsigned empty_data; /* in a row */
    int err;             /* set by a callback for a violation of the peer's; ends the connection */
    bool is_ready;
    bool is_going;
};

struct pfl_h2_stream {
    struct pfl_list node;
    struct pfl_list creditor;
    struct pfl_h2 *h2; /* borrowed: outlives us */
    const struct pfl_h2_stream_ops *ops;
    void *user;
    struct pfl_h2_head *head; /* owned; while it is received */
    struct pfl_buf body;      /* of respond_body, what is not sent yet */
    uint32_t credit_due;
    int32_t id;
    bool is_own; /* our request */
    bool is_responded;
    bool is_whole; /* answered with a whole body, `body`, or none */
    bool has_peer_ended;
    bool is_deferred; /* on_pull had nothing */
    bool is_reset;    /* by us: only its end is reported */
};

/* NULL: out of memory. */
struct pfl_h2_stream *pfl_h2_stream_new(struct pfl_h2 *h2, int32_t id);
void pfl_h2_stream_end(struct pfl_h2_stream *s, uint32_t code);
void pfl_h2_wake(struct pfl_h2 *h2);
/* The callbacks that nghttp2 makes in feed and drain. */
void pfl_h2_set_callbacks(nghttp2_session_callbacks *callbacks);
/* nghttp2's source of a stream's bytes. */
nghttp2_data_provider pfl_h2_source_of(struct pfl_h2_stream *s);

#endif
