/* SPDX-License-Identifier: Apache-2.0 */
/* Network sockets of the producer port: what AF_UNIX and base/io/listener.h do not need. */
#ifndef PFL_SERVICE_NETWORK_H
#define PFL_SERVICE_NETWORK_H

#include "base/err.h"

/* Binds and listens on "vsock://CID:PORT"; CID 4294967295 is any. Failures are logged.
 * PFL_EINVAL, PFL_EIO. */
PFL_MUST_USE int pfl_network_listen_vsock(const char *address, int *ret_fd);
/* Small messages at once; a peer that vanished is noticed. Best effort. */
void pfl_network_tune(int fd);

#endif
