/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's connection to the tracing service: a UNIX socket whose reads and writes are noted in
 * the stream's memory (stream_memory.h), so that no byte is lost or sent twice when the process
 * dies. Reads go where the owner says, writes come from where his bytes lie: nothing is queued.
 *
 * Before each call the owner's record has to be out; after each that moved bytes the next one, with
 * one more read or write in it, before anything else is called.
 */
#ifndef PFL_AGENT_SERVICE_SOCKET_PORT_H
#define PFL_AGENT_SERVICE_SOCKET_PORT_H

#include <sys/uio.h>
#include <uv.h>

#include "agent/daemon/stream/stream_memory.h"

struct pfl_service_socket;

struct pfl_service_socket_ops {
    /* Publishes, and says where the next read goes: at most two pieces; 0: nowhere. Sets the count
     * of reads in the record. */
    int (*get_room)(void *user, struct iovec *ret_pieces, uint64_t *ret_reads);
    /* So many bytes lie there. May close the socket. */
    void (*on_read)(void *user, size_t len);
    /* The service says no more: for good. */
    void (*on_eof)(void *user);
    /* After a write that was not taken wholly. */
    void (*on_writable)(void *user);
};

struct pfl_service_socket_conf {
    uv_loop_t *loop;
    const struct pfl_service_socket_ops *ops; /* static */
    void *user;                               /* until close */
    struct pfl_stream_memory *memory;         /* borrowed until close */
    int fd;                                   /* owned on success; non-blocking */
};

/* Reading is on. PFL_ENOMEM. */
PFL_MUST_USE int pfl_service_socket_open(const struct pfl_service_socket_conf *conf,
                                         struct pfl_service_socket **ret_socket);
/* The connection is over, whoever else holds its descriptor. NULL is legal. */
void pfl_service_socket_break(struct pfl_service_socket *self);
/* Calls nobody any more; its memory goes with the loop's next turn. NULL is legal. */
void pfl_service_socket_close(struct pfl_service_socket *self);

int pfl_service_socket_get_fd(const struct pfl_service_socket *self);
void pfl_service_socket_read_stop(struct pfl_service_socket *self);
void pfl_service_socket_read_start(struct pfl_service_socket *self);
/* Sends what the service takes of `data`; `writes`: their count in the record, which is out. 0:
 * nothing now, on_writable follows. PFL_ECLOSED: it takes no more, ever. */
PFL_MUST_USE int pfl_service_socket_send(struct pfl_service_socket *self, struct pfl_span data,
                                         uint64_t writes, size_t *ret_len);
/* Nothing is sent any more. Idempotent. */
void pfl_service_socket_shutdown(struct pfl_service_socket *self);

#endif
