/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells operators in advance (`perfleet doctor`) that ftrace/print cannot be recorded, and why: in
 * the descriptor of linux.ftrace. A shell.
 */
#ifndef PFL_PROBES_PRINT_LOOK_H
#define PFL_PROBES_PRINT_LOOK_H

#include "agent/probes/ftrace/ftrace.h"
#include "producer/perfleet.h"

/* Zero-initialized. */
struct pfl_print_look {
    uint64_t due_ns;
    const char *why; /* static; the descriptor's current reason. NULL: it can be recorded */
};

/* Checks, if it is due: a while after the first call and after each session, then periodically.
 * Returns when it is due again. `source`: linux.ftrace's; NULL: it is not offered. */
uint64_t pfl_print_look_work(struct pfl_print_look *self, struct pfl_ftrace *ftrace,
                             struct perfleet *tracing, struct perfleet_source *source,
                             uint64_t now_ns);

#endif
