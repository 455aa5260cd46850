/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of the running service: sockets, who may use them, limits. */
#ifndef PFL_SERVICE_DAEMON_CONF_H
#define PFL_SERVICE_DAEMON_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sandbox/sandbox.h"

#define PFL_DAEMON_MAX_PRODUCER_SOCKETS 16u
#define PFL_DAEMON_MAX_OUTPUT_DIRS      16u

struct pfl_daemon_socket_access {
    const char *group; /* name or number; NULL: unchanged */
    int mode;          /* octal; -1: unchanged */
};

enum pfl_socket_family {
    PFL_SOCKET_UNIX = 0,
    PFL_SOCKET_TCP,
    PFL_SOCKET_VSOCK,
};

struct pfl_daemon_socket {
    const char *address; /* borrowed while it runs */
    enum pfl_socket_family family;
    int inherited_fd; /* > 2: listens already; owned by the process */
    bool has_relay;   /* serves RelayPort too; producer sockets only */
};

struct pfl_daemon_conf {
    const struct pfl_daemon_socket *producers; /* borrowed while it runs */
    size_t producers_len;                      /* 1 to PFL_DAEMON_MAX_PRODUCER_SOCKETS */
    struct pfl_daemon_socket consumer;
    struct pfl_daemon_socket_access producer_access;
    struct pfl_daemon_socket_access consumer_access;
    uint32_t sessions_max;         /* at the same time; 0: PFL_SERVICE_MAX_SESSIONS */
    uint32_t sessions_per_uid_max; /* 0: PFL_SERVICE_MAX_SESSIONS_PER_UID */
    bool has_guardrails; /* ends the process above its limits: service/port/guardrails_port.h */
    enum pfl_sandbox_mode sandbox;
    const char *run_as;                                  /* user to become; NULL: unchanged */
    const char *output_dirs[PFL_DAEMON_MAX_OUTPUT_DIRS]; /* of output_path; none: anywhere */
    size_t output_dirs_len;
    const char
        *privileged_group; /* its members may act on other users' sessions; NULL: root only */
    void (*on_ready)(void *user); /* all sockets listen; may be NULL */
    void *user;
};

#endif
