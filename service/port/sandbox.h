/* SPDX-License-Identifier: Apache-2.0 */
/* What perfleetd may still access once its sockets listen: base/sandbox by the daemon's conf. */
#ifndef PFL_SERVICE_PORT_SANDBOX_H
#define PFL_SERVICE_PORT_SANDBOX_H

#include "service/port/daemon_conf.h"

/* Call before the first thread starts and before the first byte of a peer is read. Logs; errors as
 * pfl_sandbox_enter. */
PFL_MUST_USE int pfl_service_sandbox_enter(const struct pfl_daemon_conf *conf);

#endif
