/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plain stream over a connected SOCK_STREAM descriptor, by uv_poll and recvmsg/sendmsg, because
 * libuv's pipes cannot carry a memfd. A descriptor received is announced before the bytes that the
 * same read brought; it belongs to one of these. A written descriptor needs at least one byte. Also
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
    uint32_t who; /* whose share it uses: `uid`, or who has it as a subordinate id */
    uint32_t gid;
};

/* Takes `fd` (made non-blocking, close-on-exec) on success. PFL_ENOMEM, PFL_EIO. */
PFL_MUST_USE int pfl_fdsock_open(const struct pfl_stream_conf *conf, int fd,
                                 struct pfl_stream **ret_stream);

/* Non-blocking, close-on-exec, TCP's options. PFL_EIO. */
PFL_MUST_USE int pfl_fdsock_prepare(int fd, bool *ret_is_unix);

/* SO_PEERCRED of an AF_UNIX descriptor. PFL_EIO on any other. */
PFL_MUST_USE int pfl_fdsock_get_cred(int fd, struct pfl_peer_cred *ret_cred);

/* Was the peer in this group, its own or a supplementary one, when it connected (or listened)? */
bool pfl_fdsock_is_peer_in_group(int fd, uint32_t gid);

/* Closes a connected socket that no stream was opened on: see base/closer.h. */
void pfl_fdsock_drop(int fd);

/*
 * Begins a non-blocking connect; `ret_fd` is the caller's. For TCP the result may still be
 * pending: opening the stream on it is legal at once, a failed connect is reported by on_closed.
 * PFL_EINVAL for an empty name or one of more than 107 bytes, PFL_ENOENT (no such socket),
 * PFL_ECLOSED (nobody listens, no route), PFL_EPERM, PFL_EAGAIN (the listener's backlog is full),
 * PFL_EIO; errno tells more.
 */
PFL_MUST_USE int pfl_fdsock_connect_unix(const char *path, int *ret_fd);

/* The same to the tracing service, whose user is checked before a byte is sent (service_user.h):
 * PFL_ESTRANGER. */
PFL_MUST_USE int pfl_fdsock_connect_service(const char *path, int *ret_fd);
/* The last failure of it, in words, until the next one. */
const char *pfl_fdsock_get_service_why(void);
/* Who may serve this process besides root and its own user: a list with commas, NULL: the
 * environment's. Before a sandbox is entered: it reads the user database. PFL_EINVAL, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_fdsock_trust(const char *list);

PFL_MUST_USE int pfl_fdsock_connect_addr(const struct sockaddr *addr, socklen_t len, int *ret_fd);

#endif
