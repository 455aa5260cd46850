/* SPDX-License-Identifier: Apache-2.0 */
/* The running service: a loop, its ports, its one timer, its signals. */
#ifndef PFL_SERVICE_DAEMON_H
#define PFL_SERVICE_DAEMON_H

#include "base/err.h"
#include "service/port/daemon_conf.h"

/* Runs until SIGTERM or SIGINT, then closes everything. Failures are logged and come before
 * on_ready: PFL_EIO, PFL_EINVAL, PFL_ENOMEM, and those of pfl_sandbox_enter. */
PFL_MUST_USE int pfl_daemon_run(const struct pfl_daemon_conf *conf);

#endif
