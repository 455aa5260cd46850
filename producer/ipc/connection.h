/* SPDX-License-Identifier: Apache-2.0 */
/* One non-blocking connection to the service's socket: frames in and out, one descriptor in. */
#ifndef PFL_PRODUCER_CONNECTION_H
#define PFL_PRODUCER_CONNECTION_H

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/service_user.h"

#define PFL_CONNECTION_IN_BYTES 131072u  /* a frame with its prefix */
#define PFL_CONNECTION_OUT_MAX  4194304u /* of queued bytes; past it the connection fails */

struct pfl_connection_address {
    struct sockaddr_un un; /* family AF_UNIX; or an unresolved network address */
    socklen_t len;
    bool is_network; /* "host:port", "[v6]:port", "vsock://cid:port" */
    struct pfl_service_users
        users; /* the users that may serve a UNIX socket, besides root and this user */
};

struct pfl_connection {
    int fd;      /* owned; -1: closed */
    int recv_fd; /* owned; the last descriptor received and not taken; -1: none */
    int send_fd; /* borrowed: sent with the next bytes; -1: none */
    bool is_network;
    _Atomic(bool) has_failed; /* writers' threads that send may set it, too */
    uint8_t *in;              /* owned, PFL_CONNECTION_IN_BYTES */
    size_t in_pos;
    size_t in_len;
    uint8_t *out; /* owned */
    size_t out_pos;
    size_t out_len;
    size_t out_cap;
};

/* The service's address: `name`, or if NULL the environment's or the default. PFL_EINVAL: too long,
 * or empty. */
PFL_MUST_USE int pfl_connection_find_address(const char *name,
                                             struct pfl_connection_address *ret_address);

/* PFL_ENOMEM, PFL_ECLOSED (nobody listens), PFL_EIO, PFL_ESTRANGER (text in `ret_why`, which is
 * empty otherwise). A network connect may fail later: then the connection fails. Resolves names,
 * which may take time. */
PFL_MUST_USE int pfl_connection_open(struct pfl_connection *self,
                                     const struct pfl_connection_address *address,
                                     char ret_why[PFL_SERVICE_USER_WHY_BYTES]);
/* Legal in every state; for a zeroed connection that was never opened set fd = -1 first. */
void pfl_connection_close(struct pfl_connection *self);
/* Takes a connected socket (tests). */
PFL_MUST_USE int pfl_connection_adopt(struct pfl_connection *self, int fd);

/* Reads available bytes; false at the end of the connection. */
bool pfl_connection_read(struct pfl_connection *self);
/* The next whole frame's payload, borrowed until the next read; empty frames are skipped. */
bool pfl_connection_next_frame(struct pfl_connection *self, struct pfl_span *ret_frame);
/* The descriptor, now the caller's; -1: none came. */
int pfl_connection_take_fd(struct pfl_connection *self);

/* A writer for `bytes` bytes at the end of the queue; they count after pfl_connection_commit. */
struct pfl_writer pfl_connection_reserve(struct pfl_connection *self, size_t bytes);
void pfl_connection_commit(struct pfl_connection *self, const struct pfl_writer *w);
/* `fd` is sent with the next bytes; it stays the caller's. */
static inline void pfl_connection_give_fd(struct pfl_connection *self, int fd)
{
    self->send_fd = fd;
}
static inline bool pfl_connection_can_send_fd(const struct pfl_connection *self)
{
    return !self->is_network;
}
/* Sends queued bytes as far as the socket accepts them. */
void pfl_connection_send(struct pfl_connection *self);
size_t pfl_connection_queued(const struct pfl_connection *self);

#endif
