/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells operators ahead (`perfleet doctor`) that ftrace/print cannot be recorded, and why: in the
 * descriptor of linux.ftrace. A shell.
 */
#ifndef PFL_PROBES_PRINT_LOOK_H
#define PFL_PROBES_PRINT_LOOK_H

#include "agent/probes/ftrace/ftrace.h"
#include "producer/perfleet.h"

/* Zeroed at first. */
struct pfl_print_look {
    uint64_t due_ns;
    const char *why; /* static; as the descriptor has it. NULL: it can be recorded */
};

/* Looks, if it is time for that: a while after the first call and after each session, then every so
 * often. Returns when it is again. `source`: linux.ftrace's; NULL: it is not offered. */
uint64_t pfl_print_look_work(struct pfl_print_look *self, struct pfl_ftrace *ftrace,
                             struct perfleet *tracing, struct perfleet_source *source,
                             uint64_t now_ns);

#endif
