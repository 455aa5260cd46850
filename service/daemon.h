/* SPDX-License-Identifier: Apache-2.0 */
/* The running service: a loop, its ports, its one timer, its signals. */
#ifndef PFL_SERVICE_DAEMON_H
#define PFL_SERVICE_DAEMON_H

#include <stddef.h>

#include "base/err.h"

#define PFL_DAEMON_MAX_PRODUCER_SOCKETS 16u

struct pfl_daemon_socket_access {
    const char *group; /* name or number; NULL leaves it */
    int mode;          /* octal; -1 leaves it */
};

struct pfl_daemon_conf {
    const char *const *producer_addresses; /* borrowed while it runs */
    size_t producer_addresses_len;         /* 1 to PFL_DAEMON_MAX_PRODUCER_SOCKETS */
    const char *consumer_address;
    struct pfl_daemon_socket_access producer_access;
    struct pfl_daemon_socket_access consumer_access;
    void (*on_ready)(void *user); /* all sockets listen; may be NULL */
    void *user;
};

/* Runs until SIGTERM or SIGINT, then closes everything. Failures are logged and come before
 * on_ready: PFL_EIO, PFL_EINVAL, PFL_ENOMEM. */
PFL_MUST_USE int pfl_daemon_run(const struct pfl_daemon_conf *conf);

#endif
