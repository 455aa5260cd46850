/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain stream over a connected SOCK_STREAM descriptor, by uv_poll and recvmsg/sendmsg, because
 * libuv's pipes cannot carry a memfd. A received descriptor is announced before the bytes of the
 * same read; it belongs to one of these. A written descriptor needs at least one byte. Also
 * connects: to a filesystem or abstract ("@name") UNIX socket, or to a resolved TCP address.
 */
#ifndef PFL_BASE_IO_FDSOCK_H
#define PFL_BASE_IO_FDSOCK_H

#include <sys/socket.h>

#include "base/io/stream.h"
#include "base/service_user.h"

struct pfl_peer_cred {
    int64_t pid; /* -1 unknown */
    uint32_t uid;
    uint32_t who; /* the user whose share it uses: `uid`, or the owner of that subordinate id */
    uint32_t gid;
};

/* Takes `fd` (made non-blocking, close-on-exec) on success. PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_fdsock_open(const struct pfl_stream_conf *conf, int fd,
                                 struct pfl_stream **ret_stream);

/* Non-blocking, close-on-exec, TCP's options. PFL_EIO. */
PFL_MUST_USE int pfl_fdsock_prepare(int fd, bool *ret_is_unix);

/* Calls its on_writable in the next turn of the loop in which the kernel takes bytes. */
void pfl_fdsock_call_writable(struct pfl_stream *self);

/* SO_PEERCRED of an AF_UNIX descriptor. PFL_EIO on any other. */
PFL_MUST_USE int pfl_fdsock_get_cred(int fd, struct pfl_peer_cred *ret_cred);

/* Was the peer in this group (primary or supplementary) when it connected or listened? */
bool pfl_fdsock_is_peer_in_group(int fd, uint32_t gid);

/* Closes a connected socket that no stream was opened on: see base/closer.h. On a thread, while its
 * user's sockets wait (wake_cost.h). */
void pfl_fdsock_drop(int fd);

/*
 * Begins a non-blocking connect; `ret_fd` is the caller's. For TCP the result may still be pending:
 * opening the stream on it is legal at once, and on_closed reports a failed connect. PFL_EINVAL for
 * an empty name or one of more than 107 bytes, PFL_ENOENT (no such socket), PFL_ECLOSED (nobody
 * listens, no route), PFL_EPERM, PFL_EAGAIN (the listener's backlog is full), PFL_EIO; see also
 * errno.
 */
PFL_MUST_USE int pfl_fdsock_connect_unix(const char *path, int *ret_fd);

/* The same for the tracing service, whose user is checked before a byte is sent (service_user.h):
 * PFL_ESTRANGER. */
PFL_MUST_USE int pfl_fdsock_connect_service(const char *path, int *ret_fd);
/* Likewise, for a subject that the service tells apart (subject.h). */
PFL_MUST_USE int pfl_fdsock_connect_service_for(const char *path, const char *subject, int *ret_fd);
/* Text of its last failure, until the next one. */
const char *pfl_fdsock_get_service_why(void);
/* Sets the users that may serve this process besides root and its own user: a list with commas,
 * NULL: the environment's. Call before a sandbox is entered: it reads the user database.
 * PFL_EINVAL, PFL_ELIMIT. */
PFL_MUST_USE int pfl_fdsock_trust(const char *list);

PFL_MUST_USE int pfl_fdsock_connect_addr(const struct sockaddr *addr, socklen_t len, int *ret_fd);

#endif
