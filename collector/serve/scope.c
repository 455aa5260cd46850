/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's scope: see scope.h. Happy path: the policy core decides by name and labels.
 * Failures: a text that is no policy. Ownership: the policy and the name. Limits: those of
 * proto/gate/policy.h; a label that is longer than PFL_SCOPE_LABEL_BYTES cannot be judged, so it
 * gives no right.
 */
#include "collector/serve/scope.h"

#include <stdio.h>

#include "base/mem.h"
#include "perfleet/policy.fields.h"
#include "perfleet/segment.fields.h"
#include "proto/gate/policy.h"

struct pfl_scope {
    struct pfl_policy *policy; /* owned */
    char operator_name[PFL_POLICY_NAME_BYTES];
};

struct labels {
    struct pfl_span fields;
    bool is_too_long;
    char value[PFL_SCOPE_LABEL_BYTES];
};

static bool has_name(struct pfl_span label, struct pfl_span name)
{
    return label.len > name.len && label.data[name.len] == '=' &&
           memcmp(label.data, name.data, name.len) == 0;
}

static const char *get_label(void *user, struct pfl_span name)
{
    struct labels *l = user;
    struct pfl_reader r = pfl_reader_of(l->fields);
    struct pfl_field f;
    size_t len;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != SEGMENT__LABEL || !has_name(f.bytes, name))
            continue;
        len = f.bytes.len - name.len - 1;
        if (len >= sizeof(l->value)) {
            l->is_too_long = true;
            return NULL;
        }
        memcpy(l->value, f.bytes.data + name.len + 1, len);
        l->value[len] = '\0';
        return l->value;
    }
    return NULL;
}

int pfl_scope_new(struct pfl_span text, const char *operator_name, char *ret_why,
                  struct pfl_scope **ret_scope)
{
    struct pfl_scope *s = pfl_mem_zalloc(sizeof(*s));
    int rc;

    if (s == NULL)
        return PFL_ENOMEM;
    (void)snprintf(s->operator_name, sizeof(s->operator_name), "%s", operator_name);
    rc = pfl_policy_parse(text, ret_why, &s->policy);
    if (rc != 0) {
        pfl_mem_free(s);
        return rc;
    }
    *ret_scope = s;
    return 0;
}

void pfl_scope_free(struct pfl_scope *self)
{
    if (self == NULL)
        return;
    pfl_policy_free(self->policy);
    pfl_mem_free(self);
}

bool pfl_scope_gives(const struct pfl_scope *self, uint32_t right,
                     const struct pfl_scope_host *host)
{
    struct labels labels = {.fields = host->labels};
    struct pfl_policy_question question = {
        .operator_name = self->operator_name,
        .host = host->name,
        .get_label = get_label,
        .user = &labels,
        .has_no_labels_yet = host->has_no_labels,
    };
    struct pfl_policy_decision decision;

    pfl_policy_decide(self->policy, &question, &decision);
    return !labels.is_too_long && pfl_policy_gives(&decision, right);
}

bool pfl_scope_gives_anywhere(const struct pfl_scope *self, uint32_t right)
{
    return pfl_policy_gives_anywhere(self->policy, self->operator_name, right);
}

bool pfl_scope_gives_everywhere(const struct pfl_scope *self, uint32_t right)
{
    return pfl_policy_gives_everywhere(self->policy, self->operator_name, right);
}
