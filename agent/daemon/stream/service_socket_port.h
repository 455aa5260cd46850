/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream's connection to the tracing service: a UNIX socket whose reads and writes are recorded
 * in the stream's memory (stream_memory.h), so that no byte is lost or sent twice when the process
 * dies. It reads into the owner's memory and writes from it: nothing is queued.
 *
 * Before each call the owner's record must be published; after each call that moved bytes, the next
 * record, with one more read or write in it, before any other call.
 */
#ifndef PFL_AGENT_SERVICE_SOCKET_PORT_H
#define PFL_AGENT_SERVICE_SOCKET_PORT_H

#include <sys/uio.h>
#include <uv.h>

#include "agent/daemon/stream/stream_memory.h"

struct pfl_service_socket;

struct pfl_service_socket_ops {
    /* Publishes, and returns where the next read goes: at most two pieces; 0: nowhere. Sets the
     * count of reads in the record. */
    int (*get_room)(void *user, struct iovec *ret_pieces, uint64_t *ret_reads);
    /* `len` bytes were read there. May close the socket. */
    void (*on_read)(void *user, size_t len);
    /* The service sends no more. */
    void (*on_eof)(void *user);
    /* After a partial write. */
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
/* Shuts the connection down, even if other processes have its descriptor. NULL is legal. */
void pfl_service_socket_break(struct pfl_service_socket *self);
/* Makes no further callbacks; freed in the loop's next turn. NULL is legal. */
void pfl_service_socket_close(struct pfl_service_socket *self);

int pfl_service_socket_get_fd(const struct pfl_service_socket *self);
void pfl_service_socket_read_stop(struct pfl_service_socket *self);
void pfl_service_socket_read_start(struct pfl_service_socket *self);
/* Sends as much of `data` as the service accepts; `writes`: their count in the published record. 0:
 * nothing now, on_writable follows. PFL_ECLOSED: it will accept no more. */
PFL_MUST_USE int pfl_service_socket_send(struct pfl_service_socket *self, struct pfl_span data,
                                         uint64_t writes, size_t *ret_len);
/* Ends our direction. Idempotent. */
void pfl_service_socket_shutdown(struct pfl_service_socket *self);

#endif
