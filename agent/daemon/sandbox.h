/* SPDX-License-Identifier: Apache-2.0 */
/* What the agent may still access before it dials: base/sandbox by its conf. */
#ifndef PFL_AGENT_SANDBOX_H
#define PFL_AGENT_SANDBOX_H

#include "agent/daemon/daemon.h"

/* Call before a thread runs or a byte of a peer is read. Logs; errors as pfl_sandbox_enter. */
PFL_MUST_USE int pfl_agent_sandbox_enter(const struct pfl_agent_daemon_conf *conf);

#endif
