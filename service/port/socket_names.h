/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the sockets, and their permissions (docs/abi/wire.md sections 5 and 6). */
#ifndef PFL_SERVICE_SOCKET_NAMES_H
#define PFL_SERVICE_SOCKET_NAMES_H

#include <stdbool.h>

#include "service/port/daemon_conf.h"

struct pfl_socket_names {
    const char *producer_list; /* borrowed; NULL: from the environment or the default */
    const char *consumer;      /* borrowed; NULL: from the environment or the default */
    char *list;                /* owned: producer_list cut at its commas */
    struct pfl_daemon_socket producers[PFL_DAEMON_MAX_PRODUCER_SOCKETS]; /* addresses into list */
    size_t producers_len;
    bool allows_network; /* TCP addresses that other hosts can reach */
    bool has_relay_all;  /* RelayPort on every producer socket */
    const char *relay_on[PFL_DAEMON_MAX_PRODUCER_SOCKETS]; /* borrowed; or on these only */
    size_t relay_on_len;
};

/* Fills in what the command line did not set. */
void pfl_socket_names_default(struct pfl_socket_names *self);
/* Splits the list and checks every address. `ret_bad` is the refused one: PFL_EPERM (a TCP address
 * that is not this host's own, without allows_network; a consumer address that is no UNIX socket),
 * PFL_EINVAL (empty, too long, too many), PFL_ENOENT (relay_on names no producer socket);
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_socket_names_split(struct pfl_socket_names *self, const char **ret_bad);
void pfl_socket_names_fini(struct pfl_socket_names *self);

struct pfl_socket_permissions {
    struct pfl_daemon_socket_access producer;
    struct pfl_daemon_socket_access consumer;
    char groups[2][64];
};
/* "group:mode:group:mode"; PFL_EINVAL. */
PFL_MUST_USE int pfl_socket_permissions_parse(struct pfl_socket_permissions *self,
                                              const char *text);

#endif
