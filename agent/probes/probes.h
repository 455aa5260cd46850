/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's data sources and their sessions, on one loop.
 *
 * The producer library calls back on its own thread. Each callback is passed to the loop's thread
 * and waits until it is done there, so that everything else runs on one thread.
 */
#ifndef PFL_PROBES_PROBES_H
#define PFL_PROBES_PROBES_H

#include <signal.h>

#include "agent/probes/tracefs/tracefs.h"

struct pfl_probes_conf {
    const char *producer_socket; /* NULL: perfleet_open's default */
    uint32_t smb_kb;             /* 0: default */
    bool no_ftrace;              /* do not offer linux.ftrace */
};

/* Serves sessions until `stop_fd` becomes readable. PFL_EIO, PFL_ENOMEM, PFL_EINVAL. */
PFL_MUST_USE int pfl_probes_run(const struct pfl_probes_conf *conf, int stop_fd);

#endif
