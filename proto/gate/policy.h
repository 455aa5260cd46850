/* SPDX-License-Identifier: Apache-2.0 */
/* Permissions of operators by host: rules and roles (proto/perfleet/policy.proto). Pure. */
#ifndef PFL_PROTO_GATE_POLICY_H
#define PFL_PROTO_GATE_POLICY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/err.h"

#define PFL_POLICY_MAX_BYTES (1u << 20) /* of the file */
/* Of what of it concerns one operator: of each rule and role more is written than its text has. */
#define PFL_POLICY_SCOPE_MAX_BYTES (2u * PFL_POLICY_MAX_BYTES)
#define PFL_POLICY_MAX_ROLES       256u
#define PFL_POLICY_WHY_BYTES       320u
/* Of an operator or host, with NUL: PFL_IDENTITY_NAME_BYTES (proto/tunnel/identity.h). */
#define PFL_POLICY_NAME_BYTES 64u

struct pfl_policy;

/* Parses the text. PFL_EPARSE, with `ret_why` (PFL_POLICY_WHY_BYTES) beginning with LINE or
 * LINE:COLUMN, and naming the remedy; PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_policy_parse(struct pfl_span text, char *ret_why,
                                  struct pfl_policy **ret_policy);
void pfl_policy_free(struct pfl_policy *self); /* NULL is legal */
unsigned pfl_policy_count_rules(const struct pfl_policy *self);
unsigned pfl_policy_count_roles(const struct pfl_policy *self);

struct pfl_policy_question {
    const char *operator_name;
    const char *host;
    /* The host's label of this name; NULL: none. */
    const char *(*get_label)(void *user, struct pfl_span name);
    void *user;
    bool has_no_labels_yet; /* the host has not sent them: no rule with labels matches */
    /* One is added for a pattern, and more for one that is long, as is what it is compared with.
     * NULL: it is not counted. */
    uint64_t *work;
};

struct pfl_policy_decision {
    bool is_allowed;
    bool wants_labels;     /* not allowed, but perhaps once the host has sent its labels */
    struct pfl_span role;  /* for the agent, serialized; empty: none. Borrowed from the policy */
    struct pfl_span rates; /* the whole role */
};

/* The first rule that matches decides. `self` NULL: no policy, everything is allowed. */
void pfl_policy_decide(const struct pfl_policy *self, const struct pfl_policy_question *question,
                       struct pfl_policy_decision *ret_decision);
/* Whether the rule that decided gives this right, a field of the role (ROLE__COLLECT ...). A rule
 * without a role gives all. */
bool pfl_policy_gives(const struct pfl_policy_decision *decision, uint32_t right);
/* What the first rule for this operator says, at whatever host. Not allowed: there is none. */
void pfl_policy_decide_anywhere(const struct pfl_policy *self, const char *operator_name,
                                struct pfl_policy_decision *ret_decision);
/* Whether any rule for this operator gives this right. */
bool pfl_policy_gives_anywhere(const struct pfl_policy *self, const char *operator_name,
                               uint32_t right);
/* Whether the rules for this operator give this right at every host, whatever its name and labels;
 * false if that depends on the host. */
bool pfl_policy_gives_everywhere(const struct pfl_policy *self, const char *operator_name,
                                 uint32_t right);
/* Appends the policy for one operator, as a text for pfl_policy_parse: the rules for this operator
 * in their order, and the roles that they name. `self` NULL: a rule that allows everything.
 * PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_policy_write_scope(const struct pfl_policy *self, const char *operator_name,
                                        struct pfl_buf *text);

#endif
