/* SPDX-License-Identifier: Apache-2.0 */
/* Network sockets of the producer port, beyond AF_UNIX and base/io/listener.h. */
#ifndef PFL_SERVICE_NETWORK_H
#define PFL_SERVICE_NETWORK_H

#include "base/err.h"

/* Binds and listens on "vsock://CID:PORT"; CID 4294967295 is any. Failures are logged.
 * PFL_EINVAL, PFL_EIO. */
PFL_MUST_USE int pfl_network_listen_vsock(const char *address, int *ret_fd);
/* Sends small messages at once, and detects a vanished peer. Best effort. */
void pfl_network_tune(int fd);

#endif
