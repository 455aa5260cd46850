/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one operator may do with what a collector keeps: the part of the relay's policy that is
 * about this operator, asked with the name and the labels that a host had. Pure; once made it does
 * not change, and may be asked in any thread.
 */
#ifndef PFL_COLLECTOR_SERVE_SCOPE_H
#define PFL_COLLECTOR_SERVE_SCOPE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_SCOPE_LABEL_BYTES 1024u /* of a label's value, with its NUL; a longer one: no right */
#define PFL_SCOPE_LABELS_MAX  64u   /* where a rule asks for one behind these: no right */

struct pfl_scope;

/* The answer to GET /v1/scopes/OPERATOR. `ret_why` (PFL_POLICY_WHY_BYTES). PFL_EPARSE, PFL_ELIMIT,
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_scope_new(struct pfl_span text, const char *operator_name, char *ret_why,
                               struct pfl_scope **ret_scope);
void pfl_scope_free(struct pfl_scope *self); /* NULL is legal */

struct pfl_scope_host {
    const char *name;
    struct pfl_span labels; /* the fields Segment.label among those of a serialized Segment */
    bool has_no_labels;     /* they are unknown: no rule with labels applies */
    uint64_t *work; /* what it cost is added, as PFL_INDEX_SCAN_UNITS counts; NULL: not counted */
};

/* `right`: a field of Role (ROLE__TRACES ...). */
bool pfl_scope_gives(const struct pfl_scope *self, uint32_t right,
                     const struct pfl_scope_host *host);
/* At some host. */
bool pfl_scope_gives_anywhere(const struct pfl_scope *self, uint32_t right);
/* At every host. */
bool pfl_scope_gives_everywhere(const struct pfl_scope *self, uint32_t right);

#endif
