/* SPDX-License-Identifier: Apache-2.0 */
/* One object in four files, which call each other: stream_port.c (a stream's life and its HTTP/2
 * streams), stream_out_port.c (bytes to the operator), stream_service_port.c (the connection to the
 * service) and stream_keep_port.c (state for the next process). */
#ifndef PFL_AGENT_STREAM_IMPL_H
#define PFL_AGENT_STREAM_IMPL_H

#include "agent/daemon/stream/encode_port.h"
#include "agent/daemon/stream/service_socket_port.h"
#include "agent/daemon/stream/stream_memory.h"
#include "agent/daemon/stream/stream_port.h"
#include "proto/tunnel/resume.h"

/* Maximum of an operator's bytes that is sent to the service at once. */
#define PFL_AGENT_DELIVER_BYTES (64u * 1024)
/* Of a turn of the loop, for a stream's requests under a role: small ones take some 4 us each. */
#define PFL_AGENT_JUDGE_NS 100000u

struct pfl_agent_stream {
    struct pfl_list node;
    uv_loop_t *loop;
    struct pfl_resume resume;
    struct pfl_stream_memory *memory;   /* owned */
    struct pfl_service_socket *service; /* owned; NULL once closed */
    struct pfl_h2_stream *h2_stream;    /* carries it; borrowed until its on_closed; NULL: none */
    uv_timer_t ttl;
    uv_timer_t judge; /* more than PFL_AGENT_JUDGE_NS of requests came: the rest is for later */
    struct pfl_encode_port *encoder; /* owned; NULL once closed */
    struct pfl_spool_pool *pool;
    struct pfl_events *events;
    struct pfl_spool *spool;   /* owned; NULL: memory only, or closed */
    struct pfl_gate *gate;     /* owned; NULL: the operator has no role */
    uint64_t gate_versions[2]; /* saved in the memory's slots; 0: none by this process */
    struct pfl_stream_facts facts;
    uint64_t who;             /* the operator, for its share of the pool: base/shares.h */
    uint64_t counted_bytes;   /* counted in the pool's sum */
    uint64_t reads;           /* calls that moved bytes from the service, */
    uint64_t writes;          /* and to it */
    uint32_t passing_bytes;   /* bytes of the frame in the memory that the gate permitted, */
    uint32_t passed_bytes;    /* and those of it that were sent to the service */
    uint64_t orphan_since_ms; /* CLOCK_BOOTTIME */
    unsigned h2_streams;      /* that carried it so far */
    unsigned busy; /* threads' jobs with the memory, and the timers, that are not finished */
    bool is_kept;  /* by the manager: continues when this process dies */
    bool is_dying;
    bool is_service_held;  /* not read at present */
    bool is_end_passed_on; /* the operator's end was passed on to the service */
    bool is_service_over;  /* it sends no more: the end follows the spool's bytes */
    bool is_passed;        /* the gate permitted the frame that it was given */
    bool is_full_logged;   /* that the spool is full */
    void (*on_gone)(void *user);
    void *user;
};

/* Frees it if it is dying and nothing of it is open any more. */
void pfl_agent_stream_finish(struct pfl_agent_stream *self);

static inline void pfl_agent_stream_wake(struct pfl_agent_stream *self)
{
    if (self->h2_stream != NULL)
        pfl_h2_stream_wake(self->h2_stream);
}

/* ---- stream_out_port.c ---- */

/* Queues the gate's answer to the operator, in order. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_agent_stream_out_write(struct pfl_agent_stream *self, struct pfl_span data);
/* The service sends no more; the end follows the kept bytes. Idempotent; may kill the stream. */
void pfl_agent_stream_out_end(struct pfl_agent_stream *self);
/* Moves bytes from the spool into the ring as that empties, and after them the end. */
PFL_MUST_USE int pfl_agent_stream_out_refill(struct pfl_agent_stream *self);
/* Resumes or stops reading the service, depending on the room. */
void pfl_agent_stream_out_pace(struct pfl_agent_stream *self);
/* The encoder's on_output and on_progress. */
int pfl_agent_stream_out_on_encoded(void *user, struct pfl_span data);
void pfl_agent_stream_out_on_progress(void *user, int err);
/* The spool's on_change. */
void pfl_agent_stream_out_on_spool(void *user);

/* ---- stream_service_port.c ---- */

/* Makes the gate if there is a role. PFL_EPARSE; PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_stream_service_judge(struct pfl_agent_stream *self,
                                                struct pfl_span role);
/* Reads and writes `fd`, which is owned on success. PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_stream_service_open(struct pfl_agent_stream *self, int fd);
/* Sends the operator's bytes to the service as far as it accepts them, and as they may be judged in
 * this turn of the loop; may kill the stream. */
void pfl_agent_stream_service_deliver(struct pfl_agent_stream *self);
/* Processes `len` bytes of the service from the last read. May kill the stream. */
void pfl_agent_stream_service_take(struct pfl_agent_stream *self, size_t len);
void pfl_agent_stream_service_close(struct pfl_agent_stream *self);
/* Continues another process's gate, whose saved state is in the memory. PFL_EPARSE, PFL_ENOMEM. */
PFL_MUST_USE int pfl_agent_stream_service_judge_again(struct pfl_agent_stream *self);

/* ---- stream_keep_port.c ---- */

/* Publishes the stream's state for the next process: call it after every change, before memory is
 * reused. */
void pfl_agent_stream_publish(struct pfl_agent_stream *self);
/* Stores the descriptors for the next process with the manager; logs a failure. */
void pfl_agent_stream_keep(struct pfl_agent_stream *self);
/* Stores the spool's file, when it was made. */
void pfl_agent_stream_keep_file(void *user, int fd);
/* Removes all of its descriptors from the manager. Idempotent. */
void pfl_agent_stream_unkeep(struct pfl_agent_stream *self);

#endif
