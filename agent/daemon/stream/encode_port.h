/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's bytes through zstd, or plain: much of them on the agent's thread for that
 * (base/io/worker.h), few at once on the loop. They wait in a ring of the owner's, the pipe, into
 * which he may read; output comes in order.
 *
 *     room, wrote  -->  pipe: begin .. end  -->  job (thread)  -->  on_output
 *     write        -->       \-- few bytes, nothing before them: on the loop --/
 *
 * When no call is being made, pfl_encode_state says which bytes are still in the pipe: the output
 * of those before them has been given, and ends at a flush. An owner that notes it can go on with
 * another port, in another process.
 */
#ifndef PFL_AGENT_ENCODE_PORT_H
#define PFL_AGENT_ENCODE_PORT_H

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/io/worker.h"

/* Who has so much in here waits: one part is being encoded while the next comes. */
#define PFL_ENCODE_PENDING_BYTES (640u * 1024)
/* The same while the spool has something: the operator is behind. */
#define PFL_ENCODE_BEHIND_BYTES (384u * 1024)
/* What is encoded at a time, at most: the larger, the fewer wake-ups from here to the operator. */
#define PFL_ENCODE_JOB_BYTES (512u * 1024)
/* What comes out at a time, at most. */
#define PFL_ENCODE_OUTPUT_BYTES (544u * 1024)

struct pfl_encode_port;

/* Places in the pipe count up from 0; its bytes lie at their place modulo its size. */
struct pfl_encode_state {
    uint64_t begin;
    uint64_t end;
    bool is_frame_open; /* zstd's, behind what was given */
    bool is_over;       /* the encoding's end was given */
};

struct pfl_encode_port_conf {
    struct pfl_worker *worker;     /* borrowed; outlives the port's jobs */
    bool is_zstd;                  /* else the output is the input */
    uint8_t *pipe;                 /* borrowed until close; while a job runs, until on_idle */
    size_t pipe_bytes;             /* a power of two */
    struct pfl_encode_state state; /* where to go on; zeroed: at the beginning */
    /* Encoded bytes, borrowed. A negative return ends the work, and is told by on_progress. */
    int (*on_output)(void *user, struct pfl_span data);
    /* From the loop, after something was encoded on the thread; may close the port. 0, or what
     * went wrong. */
    void (*on_progress)(void *user, int err);
    void *user;
};

/* Goes on with what `state` has in the pipe from the loop (on_progress). PFL_ENOMEM. */
PFL_MUST_USE int pfl_encode_port_new(const struct pfl_encode_port_conf *conf,
                                     struct pfl_encode_port **ret_port);
/*
 * Calls on_output and on_progress no more; frees itself when the thread is done with it. The pipe's
 * memory is needed until then: `on_idle` (or NULL) is called then, perhaps before this returns.
 */
void pfl_encode_port_close(struct pfl_encode_port *self, void (*on_idle)(void *user), void *user);

/* Where the next bytes go: at most `max` of them, in the pieces (1 or 2) that it returns. */
unsigned pfl_encode_port_get_room(struct pfl_encode_port *self, size_t max,
                                  struct iovec ret_pieces[2]);
/* `len` bytes lie there. on_output may be called before this returns. PFL_ESTATE after the end;
 * PFL_ENOMEM, PFL_EIO or what on_output returned. */
PFL_MUST_USE int pfl_encode_port_wrote(struct pfl_encode_port *self, size_t len);
/* The same with a copy of all of `data`; PFL_ELIMIT: there is no room. */
PFL_MUST_USE int pfl_encode_port_write(struct pfl_encode_port *self, struct pfl_span data);
/* Nothing is written any more; the encoding's end follows what is in here. As wrote. */
PFL_MUST_USE int pfl_encode_port_end(struct pfl_encode_port *self);
void pfl_encode_port_get_state(const struct pfl_encode_port *self,
                               struct pfl_encode_state *ret_state);
/* Bytes that were written and have not come out. */
size_t pfl_encode_port_pending(const struct pfl_encode_port *self);

#endif
