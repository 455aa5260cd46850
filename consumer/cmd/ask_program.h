/* SPDX-License-Identifier: Apache-2.0 */
/* The Trace Processor that questions to traces are asked with, and its limits. */
#ifndef PFL_CONSUMER_ASK_PROGRAM_H
#define PFL_CONSUMER_ASK_PROGRAM_H

#include <limits.h>

#include "consumer/cmd/args.h"

#define PFL_ASK_PROGRAM_WHY_BYTES 512u

struct pfl_ask_program {
    char path[PATH_MAX]; /* absolute */
    char self[PATH_MAX]; /* perfleet's own program */
    uint32_t jobs;
    uint32_t max_mib;
    uint32_t max_time_ms;
    const char *missing; /* of the sandbox, in this kernel; NULL: nothing */
    char why[PFL_ASK_PROGRAM_WHY_BYTES];
};

/* By the options, TRACE_PROCESSOR and PATH. False: there is none that may be used; `why`. */
bool pfl_ask_program_find(const struct pfl_ask_args *args, struct pfl_ask_program *ret_program);

#endif
