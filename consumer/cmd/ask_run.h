/* SPDX-License-Identifier: Apache-2.0 */
/* One question to many traces: several Trace Processors at once, each with one trace. */
#ifndef PFL_CONSUMER_ASK_RUN_H
#define PFL_CONSUMER_ASK_RUN_H

#include "consumer/ask/answer_format.h"
#include "consumer/cmd/ask_program.h"

struct pfl_ask_plan {
    struct pfl_args *args;
    struct pfl_span question; /* SQL or a summary's spec; borrowed, as all here */
    bool is_summary;
    bool is_binary; /* the spec */
    struct pfl_ask_program program;
    enum pfl_answer_form form;
    bool is_sqlite;
};

/* The exit code: errors are reported on stderr. */
int pfl_ask_run(const struct pfl_ask_plan *plan);

#endif
