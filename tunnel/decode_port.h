/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's bytes back out of zstd: on the loop as long as it keeps up; on the operator's thread
 * for that (base/io/worker.h) when many wait; and all on the loop when no thread is to be had, or
 * other streams have all buffers.
 *
 *     do {
 *         rc = pfl_decode_port_next(port, &in, &piece);
 *         use(piece);
 *     } while (rc == 0 && (it took of `in` || piece.len != 0)); // and again on_ready
 */
#ifndef PFL_TUNNEL_DECODE_PORT_H
#define PFL_TUNNEL_DECODE_PORT_H

#include "base/bytes.h"
#include "base/io/worker.h"

/* So much and no more, with nothing before it, is decoded on the loop. */
#define PFL_DECODE_AT_ONCE_BYTES (256u * 1024)
/* What a job takes at a time, and what a piece has at most. */
#define PFL_DECODE_TAKEN_BYTES (64u * 1024)
#define PFL_DECODE_PIECE_BYTES (512u * 1024)
/* Pieces of all streams. */
#define PFL_DECODE_POOL_PIECES 16u

/* The buffers of all ports of a worker. Begins zeroed. */
struct pfl_decode_pool {
    uint8_t *spares[PFL_DECODE_POOL_PIECES]; /* owned */
    unsigned spares_len;
    unsigned taken;
};

/* After the last port is gone. */
void pfl_decode_pool_fini(struct pfl_decode_pool *self);

struct pfl_decode_port;

struct pfl_decode_port_conf {
    struct pfl_worker *worker;    /* borrowed; outlives the port's jobs */
    struct pfl_decode_pool *pool; /* likewise */
    /* From the loop, after something was done on the thread: next has to be called. */
    void (*on_ready)(void *user);
    void *user;
};

PFL_MUST_USE int pfl_decode_port_new(const struct pfl_decode_port_conf *conf,
                                     struct pfl_decode_port **ret_port); /* PFL_ENOMEM */
/* Calls nobody any more; frees itself when the thread is done with it. NULL is legal. */
void pfl_decode_port_close(struct pfl_decode_port *self);

/*
 * Takes bytes off `in`, and gives the next piece, in order, borrowed until the next call. Nothing
 * taken and nothing given: on_ready follows if it is not idle, else it wants more bytes.
 * PFL_EPARSE: what came cannot be decoded, for good; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_decode_port_next(struct pfl_decode_port *self, struct pfl_span *in,
                                      struct pfl_span *ret_piece);
/* All that was taken has been given, used, and nothing is to be told. */
bool pfl_decode_port_is_idle(const struct pfl_decode_port *self);

#endif
