/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's bytes through zstd: much of them on the agent's thread for that (base/io/lane.h),
 * few at once on the loop. Output comes in order.
 */
#ifndef PFL_AGENT_ENCODE_PORT_H
#define PFL_AGENT_ENCODE_PORT_H

#include "base/bytes.h"
#include "base/io/lane.h"

/* Who has so much in here waits: one part is being encoded while the next comes. */
#define PFL_ENCODE_PENDING_BYTES (384u * 1024)
/* What it takes at most: that, a read, and what a gate had kept of a frame. */
#define PFL_ENCODE_TAKEN_BYTES (768u * 1024)

struct pfl_encode_port;

struct pfl_encode_port_conf {
    struct pfl_lane *lane; /* borrowed; outlives the port's jobs */
    /* Encoded bytes, borrowed. A negative return ends the work, and is told by on_progress. */
    int (*on_output)(void *user, struct pfl_span data);
    /* From the loop, after something was encoded on the thread; may close the port. 0, or what
     * went wrong. */
    void (*on_progress)(void *user, int err);
    void *user;
};

PFL_MUST_USE int pfl_encode_port_new(const struct pfl_encode_port_conf *conf,
                                     struct pfl_encode_port **ret_port); /* PFL_ENOMEM */
/* Calls nobody any more; frees itself when the thread is done with it. NULL is legal. */
void pfl_encode_port_close(struct pfl_encode_port *self);

/* Takes all of `data`; on_output may be called before this returns. PFL_ENOMEM, PFL_ELIMIT, PFL_EIO
 * or what on_output returned. */
PFL_MUST_USE int pfl_encode_port_write(struct pfl_encode_port *self, struct pfl_span data);
/* Nothing is written any more; the encoding's end follows what is in here. As write. */
PFL_MUST_USE int pfl_encode_port_end(struct pfl_encode_port *self);
/* Bytes that were written and have not come out. */
size_t pfl_encode_port_pending(const struct pfl_encode_port *self);
/* All that was written has come out, and the end has. */
bool pfl_encode_port_is_over(const struct pfl_encode_port *self);

#endif
