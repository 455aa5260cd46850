/* SPDX-License-Identifier: Apache-2.0 */
/* What perfleetd keeps of the host once its sockets listen: base/sandbox by the daemon's conf. */
#ifndef PFL_SERVICE_CONFINEMENT_H
#define PFL_SERVICE_CONFINEMENT_H

#include "service/daemon.h"

/* Before the first thread and the first byte of a peer. Logs; errors as pfl_sandbox_enter. */
PFL_MUST_USE int pfl_confinement_enter(const struct pfl_daemon_conf *conf);

#endif
