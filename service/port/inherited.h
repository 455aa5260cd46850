/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets that systemd listens on for us: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES
 * (sd_listen_fds(3)). The socket whose name contains "consumer" is the consumer socket, all others
 * are producer sockets; without names the first is the producer's and the second the consumer's.
 */
#ifndef PFL_SERVICE_INHERITED_H
#define PFL_SERVICE_INHERITED_H

#include "service/port/daemon_conf.h"

struct pfl_inherited {
    struct pfl_daemon_socket producers[PFL_DAEMON_MAX_PRODUCER_SOCKETS];
    size_t producers_len;
    struct pfl_daemon_socket consumer; /* inherited_fd 0: none */
};

/* Reads and unsets the variables. Inherits nothing if they are missing or meant for another
 * process. PFL_EINVAL (logged): not listening stream sockets, or too many. */
PFL_MUST_USE int pfl_inherited_take(struct pfl_inherited *self);

#endif
