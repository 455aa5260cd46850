/* SPDX-License-Identifier: Apache-2.0 */
/* The Trace Processor that questions to traces are asked with, and its limits. */
#ifndef PFL_CONSUMER_ASK_PROGRAM_H
#define PFL_CONSUMER_ASK_PROGRAM_H

#include <limits.h>

#include "consumer/ask/processor_port.h"
#include "consumer/cmd/args.h"

#define PFL_ASK_PROGRAM_WHY_BYTES 512u

struct pfl_ask_program {
    char path[PATH_MAX];          /* absolute */
    char self[PATH_MAX];          /* perfleet's own program */
    struct pfl_ask_engine engine; /* but for the paths: get_engine */
    const char *missing;          /* of the sandbox, in this kernel; NULL: nothing */
    char why[PFL_ASK_PROGRAM_WHY_BYTES];
};

/* By the options, TRACE_PROCESSOR and PATH. False: there is none that may be used; `why`. */
bool pfl_ask_program_find(const struct pfl_ask_args *args, struct pfl_ask_program *ret_program);
/* With both paths, which are borrowed; without a program if there is none. */
struct pfl_ask_engine pfl_ask_program_get_engine(const struct pfl_ask_program *self);

#endif
