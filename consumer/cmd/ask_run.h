/* SPDX-License-Identifier: Apache-2.0 */
/* One question to many traces: several Trace Processors at once, each with one trace. */
#ifndef PFL_CONSUMER_ASK_RUN_H
#define PFL_CONSUMER_ASK_RUN_H

#include <limits.h>

#include "consumer/ask/answer_format.h"
#include "consumer/cmd/args.h"

struct pfl_ask_plan {
    struct pfl_args *args;
    struct pfl_span question; /* SQL or a summary's spec; borrowed, as all here */
    bool is_summary;
    bool is_binary;         /* the spec */
    char program[PATH_MAX]; /* absolute */
    char self[PATH_MAX];    /* perfleet's own program */
    enum pfl_answer_form form;
    bool is_sqlite;
    uint32_t jobs;
    uint32_t max_mib;
    uint32_t max_time_ms;
};

/* The exit code: errors are reported on stderr. */
int pfl_ask_run(const struct pfl_ask_plan *plan);

#endif
