/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of FtraceConfig that hold for a whole instance: threads, CPUs, options. The instance is
 * made anew after its last session, so nothing is put back. A shell.
 */
#ifndef PFL_PROBES_EXCLUSIVE_H
#define PFL_PROBES_EXCLUSIVE_H

#include "agent/probes/ftrace_conf.h"

/* Writes them; the instance must have no other session. Returns the name of the first field that
 * the kernel refused, NULL: none. */
const char *pfl_exclusive_apply(const struct pfl_ftrace_conf *conf, int instance_fd);

#endif
