/* SPDX-License-Identifier: Apache-2.0 */
/* What stream_port.c (a stream's life and its legs), stream_out_port.c (bytes to the operator) and
 * stream_service_port.c (the connection to the service) share. */
#ifndef PFL_AGENT_STREAM_IMPL_H
#define PFL_AGENT_STREAM_IMPL_H

#include "agent/encode_port.h"
#include "agent/stream_port.h"
#include "proto/resume.h"

/* At most so much of what an operator sent goes to gate and service at once. */
#define PFL_AGENT_DELIVER_BYTES (64u * 1024)

struct pfl_agent_stream {
    struct pfl_list node;
    uv_loop_t *loop;
    struct pfl_resume resume;
    struct pfl_stream *service; /* owned; NULL once closed */
    struct pfl_h2_stream *leg;  /* borrowed until its on_closed */
    uv_timer_t ttl;
    struct pfl_encode_port *encoder; /* owned; NULL: plain */
    struct pfl_spool_pool *pool;
    struct pfl_events *events;
    struct pfl_spool *spool; /* owned; NULL: memory only */
    uint8_t *ring;           /* the spool's memory; owned */
    struct pfl_gate *gate;   /* owned; NULL: the operator has no role */
    size_t spool_bytes;
    size_t counted_bytes; /* of ours in the pool's sum */
    uint64_t ttl_ms;
    uint64_t begin_ms;
    uint64_t orphan_since_ms;
    unsigned legs;
    bool is_timer_open;
    bool is_dying;
    bool is_ring_read;    /* by a thread of the spool that was closed */
    bool is_service_held; /* not read at present */
    bool is_service_told; /* the operator's end was passed on */
    bool is_service_over; /* it sends no more: the end follows what the spool has */
    bool is_full_told;    /* in the log */
    void (*on_gone)(void *user);
    void *user;
    char id[PFL_TUNNEL_STREAM_ID_BYTES];
    char operator_name[PFL_IDENTITY_NAME_BYTES];
};

/* Frees it when it is dying and nothing of it is open any more. */
void pfl_agent_stream_finish(struct pfl_agent_stream *self);

static inline void pfl_agent_stream_wake(struct pfl_agent_stream *self)
{
    if (self->leg != NULL)
        pfl_h2_stream_wake(self->leg);
}

/* ---- stream_out_port.c ---- */

/* What the service, or the gate, says to the operator; in order. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_agent_stream_out_write(struct pfl_agent_stream *self, struct pfl_span data);
/* The service says no more; the end follows what is kept. Idempotent; may kill the stream. */
void pfl_agent_stream_out_end(struct pfl_agent_stream *self);
/* What waits in the spool goes into the ring as that empties, and after it the end. */
PFL_MUST_USE int pfl_agent_stream_out_refill(struct pfl_agent_stream *self);
/* Reads the service while there is room. */
void pfl_agent_stream_out_pace(struct pfl_agent_stream *self);
/* The encoder's on_output and on_progress. */
int pfl_agent_stream_out_on_encoded(void *user, struct pfl_span data);
void pfl_agent_stream_out_on_progress(void *user, int err);
/* The spool's on_change. */
void pfl_agent_stream_out_on_spool(void *user);
/* To be called after each write and use of the spool. */
static inline void pfl_agent_stream_out_note(struct pfl_agent_stream *self)
{
    struct pfl_spool_state unused;

    if (self->spool != NULL)
        pfl_spool_note(self->spool, &unused);
}

/* ---- stream_service_port.c ---- */

/* Connects; before it the gate, when there is a role. Errors of pfl_fdsock_connect_unix;
 * PFL_EPARSE; PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_stream_service_open(struct pfl_agent_stream *self,
                                               const struct pfl_agent_stream_conf *conf);
/* What the operator sent goes to the service as that takes it; may kill the stream. */
void pfl_agent_stream_service_deliver(struct pfl_agent_stream *self);

#endif
