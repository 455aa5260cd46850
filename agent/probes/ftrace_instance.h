/* SPDX-License-Identifier: Apache-2.0 */
/* What linux.ftrace's sessions share of the kernel. Private to ftrace.c. A shell. */
#ifndef PFL_PROBES_FTRACE_INSTANCE_H
#define PFL_PROBES_FTRACE_INSTANCE_H

#include "agent/probes/ftrace.h"

/* For the first session everything, for a further one larger buffers if it asks. PFL_EIO,
 * PFL_ENOMEM: nothing runs then. */
PFL_MUST_USE int pfl_ftrace_instance_start(struct pfl_ftrace *self,
                                           const struct pfl_ftrace_conf *conf);
/* After the last session; the next instance is made ahead unless the program ends. */
void pfl_ftrace_instance_stop(struct pfl_ftrace *self);

/* Exclusive features: only the first session may have them; the others are told. */
void pfl_ftrace_instance_restrict(struct pfl_ftrace *self, struct pfl_ftrace_session *s,
                                  bool is_first);
PFL_MUST_USE int pfl_ftrace_instance_switch(struct pfl_ftrace *self,
                                            const struct pfl_catalog_event *event, bool is_on);
/* Has the kernel drop system calls that no started session wants. */
void pfl_ftrace_instance_filter_syscalls(struct pfl_ftrace *self);

#endif
