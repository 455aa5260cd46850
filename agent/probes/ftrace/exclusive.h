/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of FtraceConfig that apply to a whole instance: threads, CPUs, options. Our own
 * instance is recreated after its last session; a borrowed one is restored. A shell.
 */
#ifndef PFL_PROBES_EXCLUSIVE_H
#define PFL_PROBES_EXCLUSIVE_H

#include "agent/probes/ftrace/ftrace_instance.h"

/* Writes them; the instance must have no other session. Returns the name of the first field that
 * the kernel refused, or NULL. */
const char *pfl_exclusive_apply(const struct pfl_ftrace_conf *conf,
                                const struct pfl_ftrace_instance *instance,
                                struct pfl_ftrace_host *host);

#endif
