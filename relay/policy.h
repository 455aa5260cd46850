/* SPDX-License-Identifier: Apache-2.0 */
/* Who may use which hosts: a list of rules (proto/perfleet/policy.proto). Pure. */
#ifndef PFL_RELAY_POLICY_H
#define PFL_RELAY_POLICY_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_POLICY_MAX_BYTES   (1u << 20) /* of the file */
#define PFL_POLICY_PATTERN_MAX 63u        /* characters of a name or pattern */

struct pfl_policy;

/* Reads the text. PFL_EPARSE, with `ret_why` (room for why_len) beginning with LINE:COLUMN where
 * there is one; PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_policy_parse(struct pfl_span text, char *ret_why, size_t why_len,
                                  struct pfl_policy **ret_policy);
void pfl_policy_free(struct pfl_policy *self); /* NULL is legal */
/* `self` NULL: no policy, everything is allowed. */
bool pfl_policy_allows(const struct pfl_policy *self, const char *operator_name, const char *host);

#endif
