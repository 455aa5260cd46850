/* SPDX-License-Identifier: Apache-2.0 */
/* What perfleetd keeps of the host once its sockets listen: base/sandbox by the daemon's conf. */
#ifndef PFL_SERVICE_PORT_SANDBOX_H
#define PFL_SERVICE_PORT_SANDBOX_H

#include "service/port/daemon_conf.h"

/* Before the first thread and the first byte of a peer. Logs; errors as pfl_sandbox_enter. */
PFL_MUST_USE int pfl_service_sandbox_enter(const struct pfl_daemon_conf *conf);

#endif
