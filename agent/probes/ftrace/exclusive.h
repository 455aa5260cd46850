/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of FtraceConfig that hold for a whole instance: threads, CPUs, options. An own instance
 * is made anew after its last session, a borrowed one gets back what it had. A shell.
 */
#ifndef PFL_PROBES_EXCLUSIVE_H
#define PFL_PROBES_EXCLUSIVE_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* Writes them; the instance must have no other session. Returns the name of the first field that
 * the kernel refused, NULL: none. */
const char *pfl_exclusive_apply(const struct pfl_ftrace_conf *conf,
                                const struct pfl_ftrace_instance *instance,
                                struct pfl_ftrace_host *host);

#endif
