/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes a stream's bytes with zstd, or passes them: large amounts on the agent's worker thread
 * (base/io/worker.h), small ones at once on the loop. They wait in a ring of the owner, the pipe,
 * into which the owner may read; output is in order.
 *
 *     room, wrote  -->  pipe: begin .. end  -->  job (thread)  -->  on_output
 *     write        -->       \-- few bytes, nothing before them: on the loop --/
 *
 * Between calls, pfl_encode_state says which bytes are still in the pipe: the output of those
 * before them was delivered, and ends at a flush. An owner that stores it can continue with another
 * port, in another process.
 */
#ifndef PFL_AGENT_ENCODE_PORT_H
#define PFL_AGENT_ENCODE_PORT_H

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/io/worker.h"

/* An owner with this much in the pipe waits: one part is encoded while the next arrives. */
#define PFL_ENCODE_PENDING_BYTES (640u * 1024)
/* The same while the spool has bytes: the operator is behind. */
#define PFL_ENCODE_BEHIND_BYTES (384u * 1024)
/* Maximum of a job: the larger, the fewer wake-ups from here to the operator. */
#define PFL_ENCODE_JOB_BYTES (512u * 1024)
/* Maximum of an output. */
#define PFL_ENCODE_OUTPUT_BYTES (544u * 1024)

struct pfl_encode_port;

/* Positions in the pipe count up from 0; a byte's index is its position modulo the size. */
struct pfl_encode_state {
    uint64_t begin;
    uint64_t end;
    bool is_frame_open; /* a zstd frame is open after the delivered output */
    bool is_over;       /* the end of the encoding was delivered */
};

struct pfl_encode_port_conf {
    struct pfl_worker *worker;     /* borrowed; outlives the port's jobs */
    bool is_zstd;                  /* else the output is the input */
    uint8_t *pipe;                 /* borrowed until close; while a job runs, until on_idle */
    size_t pipe_bytes;             /* a power of two */
    struct pfl_encode_state state; /* where to continue; zeroed: at the beginning */
    /* Encoded bytes, borrowed. on_progress reports a negative return, which ends the encoding. */
    int (*on_output)(void *user, struct pfl_span data);
    /* Called from the loop after a job; may close the port. 0, or the error. */
    void (*on_progress)(void *user, int err);
    void *user;
};

/* Continues with the bytes of `state` in the pipe from the loop (on_progress). PFL_ENOMEM. */
PFL_MUST_USE int pfl_encode_port_new(const struct pfl_encode_port_conf *conf,
                                     struct pfl_encode_port **ret_port);
/*
 * Makes no further on_output and on_progress; frees itself when the thread is done with it. The
 * pipe's memory is needed until `on_idle` (or NULL) is called, perhaps before this returns.
 */
void pfl_encode_port_close(struct pfl_encode_port *self, void (*on_idle)(void *user), void *user);

/* Space for the next bytes: at most `max`, in the 1 or 2 pieces that it returns. */
unsigned pfl_encode_port_get_room(struct pfl_encode_port *self, size_t max,
                                  struct iovec ret_pieces[2]);
/* `len` bytes were written there. on_output may be called before this returns. PFL_ESTATE after the
 * end; PFL_ENOMEM, PFL_EIO or what on_output returned. */
PFL_MUST_USE int pfl_encode_port_wrote(struct pfl_encode_port *self, size_t len);
/* The same with a copy of all of `data`; PFL_ELIMIT: it does not fit. */
PFL_MUST_USE int pfl_encode_port_write(struct pfl_encode_port *self, struct pfl_span data);
/* No more is written; the encoding's end follows the pending bytes. As wrote. */
PFL_MUST_USE int pfl_encode_port_end(struct pfl_encode_port *self);
void pfl_encode_port_get_state(const struct pfl_encode_port *self,
                               struct pfl_encode_state *ret_state);
/* Bytes that were written and not delivered. */
size_t pfl_encode_port_pending(const struct pfl_encode_port *self);

#endif
