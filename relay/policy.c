/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules: see policy.h.
 *
 * Happy path: text into a serialized message, which is checked once and walked for each question: a
 * policy has tens of rules, and questions are few. Failures: words with the place.
 * Ownership: the serialized message. Limits: PFL_POLICY_MAX_BYTES, PFL_POLICY_PATTERN_MAX.
 */
#include "relay/policy.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "perfleet/policy.pb-c.h"
#include "proto/text_format.h"

enum { POLICY_RULE = 1, RULE_NAME = 1, RULE_OPERATOR = 2, RULE_HOST = 3 };

struct pfl_policy {
    struct pfl_buf message; /* of type perfleet.Policy */
};

/* ---- patterns ---- */

static bool is_pattern(struct pfl_span p)
{
    static const char chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*";

    for (size_t i = 0; i < p.len; i++) {
        if (memchr(chars, p.data[i], sizeof(chars) - 1) == NULL)
            return false;
    }
    return p.len >= 1 && p.len <= PFL_POLICY_PATTERN_MAX;
}

/* Linear in practice: only the last star is ever tried again. */
static bool matches(struct pfl_span p, const char *name)
{
    size_t at = 0;
    size_t star = SIZE_MAX;
    const char *from = name;

    while (*name != '\0') {
        if (at < p.len && p.data[at] == '*') {
            star = at++;
            from = name;
        } else if (at < p.len && p.data[at] == (uint8_t)*name) {
            at++;
            name++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            name = ++from;
        } else {
            return false;
        }
    }
    while (at < p.len && p.data[at] == '*')
        at++;
    return at == p.len;
}

/* ---- rules ---- */

static bool any_matches(struct pfl_span rule, uint32_t id, const char *name)
{
    struct pfl_reader r = pfl_reader_of(rule);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id && matches(f.bytes, name))
            return true;
    }
    return false;
}

bool pfl_policy_allows(const struct pfl_policy *self, const char *operator_name, const char *host)
{
    struct pfl_reader r;
    struct pfl_field f;

    if (self == NULL)
        return true;
    r = pfl_reader_of(pfl_buf_get(&self->message));
    while (pfl_reader_field(&r, &f)) {
        if (any_matches(f.bytes, RULE_OPERATOR, operator_name) &&
            any_matches(f.bytes, RULE_HOST, host))
            return true;
    }
    return false;
}

static const char *judge_rule(struct pfl_span rule)
{
    struct pfl_reader r = pfl_reader_of(rule);
    struct pfl_field f;
    unsigned count[RULE_HOST + 1] = {0};

    while (pfl_reader_field(&r, &f)) {
        if (!is_pattern(f.bytes))
            return "names and patterns have 1 to 63 of letters, digits, '.', '_', '-' and '*'";
        if (f.id <= RULE_HOST)
            count[f.id]++;
    }
    if (count[RULE_NAME] != 1 || count[RULE_OPERATOR] == 0 || count[RULE_HOST] == 0)
        return "a rule wants one name, and at least one operator and one host";
    return NULL;
}

static const char *judge(const struct pfl_policy *p)
{
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&p->message));
    struct pfl_field f;
    const char *why = NULL;

    while (why == NULL && pfl_reader_field(&r, &f))
        why = judge_rule(f.bytes);
    return why;
}

int pfl_policy_parse(struct pfl_span text, char *ret_why, size_t why_len,
                     struct pfl_policy **ret_policy)
{
    struct pfl_policy *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_text_error error = {0};
    const char *why;
    int rc;

    (void)snprintf(ret_why, why_len, "out of memory");
    if (p == NULL)
        return PFL_ENOMEM;
    pfl_buf_init(&p->message, PFL_POLICY_MAX_BYTES);
    rc = pfl_text_format_parse(&perfleet__policy__descriptor, text, &p->message, &error);
    if (rc == PFL_EPARSE || rc == PFL_ELIMIT)
        (void)snprintf(ret_why, why_len, "%u:%u: %s", error.line, error.column, error.message);
    why = rc == 0 ? judge(p) : NULL;
    if (why != NULL) {
        (void)snprintf(ret_why, why_len, "%s", why);
        rc = PFL_EPARSE;
    }
    if (rc != 0) {
        pfl_policy_free(p);
        return rc;
    }
    *ret_policy = p;
    return 0;
}

void pfl_policy_free(struct pfl_policy *self)
{
    if (self == NULL)
        return;
    pfl_buf_fini(&self->message);
    pfl_mem_free(self);
}
