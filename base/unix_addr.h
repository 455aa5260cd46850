/* SPDX-License-Identifier: Apache-2.0 */
/* Names of AF_UNIX sockets: a path, or "@name" in the abstract namespace. */
#ifndef PFL_BASE_UNIX_ADDR_H
#define PFL_BASE_UNIX_ADDR_H

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

/* PFL_EINVAL for an empty name and for one of more than 107 bytes. */
PFL_MUST_USE int pfl_unix_addr_parse(const char *name, struct sockaddr_un *ret_addr,
                                     socklen_t *ret_len);

#endif
