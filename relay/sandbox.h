/* SPDX-License-Identifier: Apache-2.0 */
/* What the relay may still access once it listens: base/sandbox by its conf. */
#ifndef PFL_RELAY_SANDBOX_H
#define PFL_RELAY_SANDBOX_H

#include "relay/daemon.h"

/* Call before the first byte of a peer is read. Logs; errors as pfl_sandbox_enter. */
PFL_MUST_USE int pfl_relay_sandbox_enter(const struct pfl_relay_daemon_conf *conf);

#endif
