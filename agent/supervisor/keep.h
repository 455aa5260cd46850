/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor: runs one program's processes, one after the other, and keeps what outlives each
 * of them. */
#ifndef PFL_AGENT_KEEP_KEEP_H
#define PFL_AGENT_KEEP_KEEP_H

#include <stdint.h>

#include "base/err.h"

struct pfl_keep_conf {
    char *const *argv;       /* the program and its arguments, NULL at the end; borrowed */
    uint64_t restart_max_ms; /* maximal wait before a restart */
};

/* The program cannot be executed at all. */
#define PFL_KEEP_EXIT_NOT_FOUND    127
#define PFL_KEEP_EXIT_NOT_EXECUTED 126

/* Returns when the program ends without a restart. PFL_EIO, PFL_ENOMEM: it was never started,
 * logged. */
PFL_MUST_USE int pfl_keep_run(const struct pfl_keep_conf *conf, int *ret_exit_status);

#endif
