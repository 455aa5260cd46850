/* SPDX-License-Identifier: Apache-2.0 */
/* FtraceConfig.print_filter: selects a session's texts of ftrace/print. Pure. */
#ifndef PFL_PROBES_PRINT_FILTER_H
#define PFL_PROBES_PRINT_FILTER_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_PRINT_RULES_MAX 256u

struct pfl_print_rule {
    bool is_allowed;
    bool is_atrace;       /* the text is type|pid|prefix... */
    struct pfl_span type; /* borrowed from the filter's copy */
    struct pfl_span prefix;
};

struct pfl_print_filter {
    uint8_t *config;              /* owned; the message */
    struct pfl_print_rule *rules; /* owned */
    size_t count;
    bool is_on; /* there is a filter, even one without rules */
};

/* Keeps a copy. PFL_EPARSE, PFL_ELIMIT, PFL_ENOMEM: nothing is kept. `ret_filter` is overwritten.
 */
PFL_MUST_USE int pfl_print_filter_parse(struct pfl_span config,
                                        struct pfl_print_filter *ret_filter);
void pfl_print_filter_fini(struct pfl_print_filter *self); /* legal on zeroed memory */

/* The first rule that matches decides; without one the text is accepted. */
bool pfl_print_filter_allows(const struct pfl_print_filter *self, struct pfl_span text);

#endif
