/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operator's scope: see scope.h. Happy path: the policy core decides by name and labels.
 * Failures: a text that is no policy. Ownership: the policy and the name. Limits: those of
 * proto/gate/policy.h; a label that is longer than PFL_SCOPE_LABEL_BYTES, or behind the first
 * PFL_SCOPE_LABELS_MAX, cannot be judged, so it gives no right.
 */
#include "collector/serve/scope.h"

#include <stdio.h>

#include "base/mem.h"
#include "perfleet/policy.fields.h"
#include "perfleet/segment.fields.h"
#include "proto/gate/policy.h"

#define LABELS_OF_UNIT 16u /* that are compared with a name, for a unit of work */

struct pfl_scope {
    struct pfl_policy *policy; /* owned */
    char operator_name[PFL_POLICY_NAME_BYTES];
};

struct labels {
    struct pfl_span list[PFL_SCOPE_LABELS_MAX];
    size_t len;
    bool has_more;
    bool
        cannot_be_judged; /* a rule asks for one that is too long, or behind the last of the list */
    uint64_t *work;       /* NULL: not counted */
    char value[PFL_SCOPE_LABEL_BYTES];
};

/* Once for all rules. */
static void read_labels(struct labels *l, struct pfl_span fields)
{
    struct pfl_reader r = pfl_reader_of(fields);
    struct pfl_field f;

    while (!l->has_more && pfl_reader_field(&r, &f)) {
        if (f.id != SEGMENT__LABEL)
            continue;
        l->has_more = l->len == PFL_SCOPE_LABELS_MAX;
        if (!l->has_more)
            l->list[l->len++] = f.bytes;
    }
}

static bool has_name(struct pfl_span label, struct pfl_span name)
{
    return label.len > name.len && label.data[name.len] == '=' &&
           memcmp(label.data, name.data, name.len) == 0;
}

static const char *get_label(void *user, struct pfl_span name)
{
    struct labels *l = user;

    if (l->work != NULL)
        *l->work += 1 + l->len / LABELS_OF_UNIT;
    for (size_t i = 0; i < l->len; i++) {
        size_t len;

        if (!has_name(l->list[i], name))
            continue;
        len = l->list[i].len - name.len - 1;
        if (len >= sizeof(l->value)) {
            l->cannot_be_judged = true;
            return NULL;
        }
        memcpy(l->value, l->list[i].data + name.len + 1, len);
        l->value[len] = '\0';
        return l->value;
    }
    l->cannot_be_judged = l->cannot_be_judged || l->has_more;
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
    struct labels labels;
    struct pfl_policy_question question = {
        .operator_name = self->operator_name,
        .host = host->name,
        .get_label = get_label,
        .user = &labels,
        .has_no_labels_yet = host->has_no_labels,
        .work = host->work,
    };
    struct pfl_policy_decision decision;

    labels.len = 0;
    labels.has_more = labels.cannot_be_judged = false;
    labels.work = host->work;
    read_labels(&labels, host->labels);
    pfl_policy_decide(self->policy, &question, &decision);
    return !labels.cannot_be_judged && pfl_policy_gives(&decision, right);
}

bool pfl_scope_gives_anywhere(const struct pfl_scope *self, uint32_t right)
{
    return pfl_policy_gives_anywhere(self->policy, self->operator_name, right);
}

bool pfl_scope_gives_everywhere(const struct pfl_scope *self, uint32_t right)
{
    return pfl_policy_gives_everywhere(self->policy, self->operator_name, right);
}
