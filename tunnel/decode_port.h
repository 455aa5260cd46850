/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a stream's zstd: on the loop as long as it keeps up, on a worker thread
 * (base/io/worker.h) when many bytes wait. If no thread is available, or other streams have all
 * buffers, all is decoded on the loop.
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

/* Up to this much, with nothing before it, is decoded on the loop. */
#define PFL_DECODE_AT_ONCE_BYTES (256u * 1024)
/* Of that as much at once: a block of 16 bytes may cost as much as one of kilobytes, some 8 us. */
#define PFL_DECODE_PART_BYTES (4u * 1024)
/* Input of a job, and maximum of a piece. */
#define PFL_DECODE_TAKEN_BYTES (64u * 1024)
#define PFL_DECODE_PIECE_BYTES (512u * 1024)
/* Pieces for all streams. */
#define PFL_DECODE_POOL_PIECES 16u

/* The buffers of all ports of a worker. Zero-initialized. */
struct pfl_decode_pool {
    uint8_t *spares[PFL_DECODE_POOL_PIECES]; /* owned */
    unsigned spares_len;
    unsigned taken;
};

/* Call after the last port is freed. */
void pfl_decode_pool_fini(struct pfl_decode_pool *self);

struct pfl_decode_port;

struct pfl_decode_port_conf {
    struct pfl_worker *worker;    /* borrowed; outlives the port's jobs */
    struct pfl_decode_pool *pool; /* likewise */
    /* Called from the loop after a job: call next. */
    void (*on_ready)(void *user);
    void *user;
};

PFL_MUST_USE int pfl_decode_port_new(const struct pfl_decode_port_conf *conf,
                                     struct pfl_decode_port **ret_port); /* PFL_ENOMEM */
/* Makes no further callbacks; frees itself when the thread is done with it. NULL is legal. */
void pfl_decode_port_close(struct pfl_decode_port *self);

/*
 * Takes bytes off `in`, and returns the next piece, in order, borrowed until the next call. If
 * nothing is taken and nothing returned, on_ready follows unless it is idle; then it needs more
 * bytes. PFL_EPARSE: malformed, permanently; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_decode_port_next(struct pfl_decode_port *self, struct pfl_span *in,
                                      struct pfl_span *ret_piece);
/* True if all taken bytes were decoded, returned and used, and no callback is pending. */
bool pfl_decode_port_is_idle(const struct pfl_decode_port *self);

#endif
