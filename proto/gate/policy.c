/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules and roles: see policy.h.
 *
 * Happy path: parse the text into a serialized message, which is checked once and walked for each
 * query: a policy has tens of rules, and queries are few. Failures: a text with the place: of a
 * syntax error its own place, of an invalid value the line on which its rule or role begins.
 * Ownership: the serialized message, and the agents' part of each role. Limits:
 * PFL_POLICY_MAX_BYTES, PFL_POLICY_MAX_ROLES, a role's of proto/gate/role.h.
 */
#include "proto/gate/policy.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "perfleet/policy.fields.h"
#include "perfleet/policy.pb-c.h"
#include "proto/gate/role.h"
#include "proto/text/text_format.h"

#define WORK_BYTES 64u /* of a pattern times its text, for a unit of work */

enum {
    RULE_FIELDS = RULE__ROLE + 1,
};

struct role {
    struct pfl_span whole; /* borrowed from the message */
    struct pfl_buf cut;
};

struct pfl_policy {
    struct pfl_buf message; /* of type perfleet.Policy */
    struct role roles[PFL_POLICY_MAX_ROLES];
    unsigned roles_len;
    unsigned rules_len;
};

/* ---- questions ---- */

static struct pfl_span span_of_text(const char *text)
{
    return pfl_span_of(text, strlen(text));
}

/* A pattern may try each of its characters at each place. */
static bool fits(const struct pfl_policy_question *q, struct pfl_span pattern, const char *text)
{
    struct pfl_span span = span_of_text(text);

    if (q != NULL && q->work != NULL)
        *q->work += 1 + (uint64_t)pattern.len * span.len / WORK_BYTES;
    return pfl_pattern_matches(pattern, span);
}

/* `q`: to count the work; NULL: nobody counts it. */
static bool any_matches(const struct pfl_policy_question *q, struct pfl_span rule, uint32_t id,
                        const char *name)
{
    struct pfl_reader r = pfl_reader_of(rule);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id && fits(q, f.bytes, name))
            return true;
    }
    return false;
}

static struct pfl_span get_text(struct pfl_span rule, uint32_t id)
{
    struct pfl_reader r = pfl_reader_of(rule);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == id)
            return f.bytes;
    }
    return pfl_span_of(NULL, 0);
}

/* NULL: it is not of the form NAME=VALUE. */
static const uint8_t *find_equals(struct pfl_span label)
{
    const uint8_t *at = label.len != 0 ? memchr(label.data, '=', label.len) : NULL;

    return at != NULL && at != label.data && (size_t)(at - label.data) + 1 < label.len ? at : NULL;
}

static bool fits_label(struct pfl_span label, const struct pfl_policy_question *q)
{
    const uint8_t *equals = find_equals(label);
    size_t name_len = (size_t)(equals - label.data);
    const char *value;

    if (q->has_no_labels_yet || q->get_label == NULL)
        return false;
    value = q->get_label(q->user, pfl_span_of(label.data, name_len));
    return value != NULL && fits(q, pfl_span_of(equals + 1, label.len - name_len - 1), value);
}

static bool fits_labels(struct pfl_span rule, const struct pfl_policy_question *q)
{
    struct pfl_reader r = pfl_reader_of(rule);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == RULE__LABEL && !fits_label(f.bytes, q))
            return false;
    }
    return true;
}

static const struct role *find_role(const struct pfl_policy *p, struct pfl_span name)
{
    for (unsigned i = 0; i < p->roles_len; i++) {
        if (pfl_span_eq(pfl_role_get_name(p->roles[i].whole), name))
            return &p->roles[i];
    }
    return NULL;
}

static void allow(const struct pfl_policy *p, struct pfl_span rule,
                  struct pfl_policy_decision *ret_decision)
{
    struct pfl_span name = get_text(rule, RULE__ROLE);
    const struct role *role = name.len != 0 ? find_role(p, name) : NULL;

    ret_decision->is_allowed = true;
    ret_decision->wants_labels = false;
    if (role == NULL)
        return;
    ret_decision->role = pfl_buf_get(&role->cut);
    ret_decision->rates = role->whole;
}

void pfl_policy_decide(const struct pfl_policy *self, const struct pfl_policy_question *question,
                       struct pfl_policy_decision *ret_decision)
{
    struct pfl_reader r;
    struct pfl_field f;

    *ret_decision = (struct pfl_policy_decision){.is_allowed = self == NULL};
    if (self == NULL)
        return;
    r = pfl_reader_of(pfl_buf_get(&self->message));
    while (pfl_reader_field(&r, &f)) {
        if (f.id != POLICY__RULE ||
            !any_matches(question, f.bytes, RULE__OPERATOR, question->operator_name) ||
            !any_matches(question, f.bytes, RULE__HOST, question->host))
            continue;
        if (fits_labels(f.bytes, question)) {
            allow(self, f.bytes, ret_decision);
            return;
        }
        if (question->has_no_labels_yet) {
            /* It may be this rule that decides, and no later one. */
            ret_decision->wants_labels = true;
            return;
        }
    }
}

bool pfl_policy_gives(const struct pfl_policy_decision *decision, uint32_t right)
{
    return decision->is_allowed &&
           (decision->rates.len == 0 || pfl_role_get_number(decision->rates, right) != 0);
}

/* ---- questions about all hosts ---- */

/* The next rule for this operator. False: there is none. */
static bool next_rule(struct pfl_reader *r, const char *operator_name, struct pfl_span *ret_rule)
{
    struct pfl_field f;

    while (pfl_reader_field(r, &f)) {
        if (f.id != POLICY__RULE || !any_matches(NULL, f.bytes, RULE__OPERATOR, operator_name))
            continue;
        *ret_rule = f.bytes;
        return true;
    }
    return false;
}

void pfl_policy_decide_anywhere(const struct pfl_policy *self, const char *operator_name,
                                struct pfl_policy_decision *ret_decision)
{
    struct pfl_span rule;
    struct pfl_reader r;

    *ret_decision = (struct pfl_policy_decision){.is_allowed = self == NULL};
    if (self == NULL)
        return;
    r = pfl_reader_of(pfl_buf_get(&self->message));
    if (next_rule(&r, operator_name, &rule))
        allow(self, rule, ret_decision);
}

bool pfl_policy_gives_anywhere(const struct pfl_policy *self, const char *operator_name,
                               uint32_t right)
{
    struct pfl_policy_decision decision;
    struct pfl_span rule;
    struct pfl_reader r;

    if (self == NULL)
        return true;
    r = pfl_reader_of(pfl_buf_get(&self->message));
    while (next_rule(&r, operator_name, &rule)) {
        decision = (struct pfl_policy_decision){.is_allowed = false};
        allow(self, rule, &decision);
        if (pfl_policy_gives(&decision, right))
            return true;
    }
    return false;
}

/* Of hosts with any name and labels. */
static bool is_for_all_hosts(struct pfl_span rule)
{
    struct pfl_reader r = pfl_reader_of(rule);
    struct pfl_field f;
    bool is_any = false;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == RULE__LABEL)
            return false;
        is_any = is_any || (f.id == RULE__HOST && pfl_span_eq(f.bytes, span_of_text("*")));
    }
    return is_any;
}

bool pfl_policy_gives_everywhere(const struct pfl_policy *self, const char *operator_name,
                                 uint32_t right)
{
    struct pfl_policy_decision decision;
    struct pfl_span rule;
    struct pfl_reader r;

    if (self == NULL)
        return true;
    r = pfl_reader_of(pfl_buf_get(&self->message));
    while (next_rule(&r, operator_name, &rule)) {
        decision = (struct pfl_policy_decision){.is_allowed = false};
        allow(self, rule, &decision);
        if (!pfl_policy_gives(&decision, right))
            return false;
        if (is_for_all_hosts(rule))
            return true;
    }
    return false;
}

/* ---- writing ---- */

static int write_text(struct pfl_buf *text, const char *more)
{
    return pfl_buf_append(text, more, strlen(more));
}

/* Patterns have no quotes and no backslashes: there is nothing to escape. */
static int write_string(struct pfl_buf *text, const char *name, struct pfl_span value)
{
    int rc = write_text(text, "  ");

    if (rc == 0)
        rc = write_text(text, name);
    if (rc == 0)
        rc = write_text(text, ": \"");
    if (rc == 0)
        rc = pfl_buf_append(text, value.data, value.len);
    return rc == 0 ? write_text(text, "\"\n") : rc;
}

static int write_number(struct pfl_buf *text, const ProtobufCFieldDescriptor *field, uint64_t value)
{
    char line[96];

    if (field->type == PROTOBUF_C_TYPE_BOOL)
        (void)snprintf(line, sizeof(line), "  %s: %s\n", field->name,
                       value != 0 ? "true" : "false");
    else
        (void)snprintf(line, sizeof(line), "  %s: %" PRIu64 "\n", field->name, value);
    return write_text(text, line);
}

/* A rule or role, whose fields are known. Of operators, `operator_name` alone. */
static int write_block(struct pfl_buf *text, const char *kind, struct pfl_span block,
                       const char *operator_name)
{
    bool is_rule = operator_name != NULL;
    const ProtobufCMessageDescriptor *type =
        is_rule ? &perfleet__rule__descriptor : &perfleet__role__descriptor;
    struct pfl_reader r = pfl_reader_of(block);
    struct pfl_field f;
    int rc = write_text(text, kind);

    if (rc == 0)
        rc = write_text(text, " {\n");
    if (rc == 0 && is_rule)
        rc = write_string(text, "operator", span_of_text(operator_name));
    while (rc == 0 && pfl_reader_field(&r, &f)) {
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, f.id);

        if (field == NULL || (is_rule && f.id == RULE__OPERATOR))
            continue;
        rc = field->type == PROTOBUF_C_TYPE_STRING ? write_string(text, field->name, f.bytes)
                                                   : write_number(text, field, f.value);
    }
    return rc == 0 ? write_text(text, "}\n") : rc;
}

/* Roles that rules for this operator name, each once. */
static int write_roles(const struct pfl_policy *p, const char *operator_name, struct pfl_buf *text)
{
    bool is_named[PFL_POLICY_MAX_ROLES] = {false};
    struct pfl_reader r = pfl_reader_of(pfl_buf_get(&p->message));
    struct pfl_span rule;
    int rc = 0;

    while (next_rule(&r, operator_name, &rule)) {
        struct pfl_span name = get_text(rule, RULE__ROLE);

        if (name.len != 0)
            is_named[find_role(p, name) - p->roles] = true;
    }
    for (unsigned i = 0; rc == 0 && i < p->roles_len; i++) {
        if (is_named[i])
            rc = write_block(text, "role", p->roles[i].whole, NULL);
    }
    return rc;
}

int pfl_policy_write_scope(const struct pfl_policy *self, const char *operator_name,
                           struct pfl_buf *text)
{
    struct pfl_span rule;
    struct pfl_reader r;
    int rc = 0;

    if (self == NULL) {
        rc = write_text(text, "rule {\n  name: \"all\"\n  host: \"*\"\n");
        if (rc == 0)
            rc = write_string(text, "operator", span_of_text(operator_name));
        return rc == 0 ? write_text(text, "}\n") : rc;
    }
    r = pfl_reader_of(pfl_buf_get(&self->message));
    while (rc == 0 && next_rule(&r, operator_name, &rule))
        rc = write_block(text, "rule", rule, operator_name);
    return rc == 0 ? write_roles(self, operator_name, text) : rc;
}

/* ---- checking ---- */

static const char no_memory[] = "out of memory";

/* Of what a name in a certificate may have (proto/tunnel/identity.h). */
static bool is_name_pattern(struct pfl_span p)
{
    static const char chars[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-*";

    for (size_t i = 0; i < p.len; i++) {
        if (memchr(chars, p.data[i], sizeof(chars) - 1) == NULL)
            return false;
    }
    return p.len >= 1 && p.len < PFL_POLICY_NAME_BYTES;
}

static const char *check_rule_field(const struct pfl_field *f)
{
    if ((f->id == RULE__OPERATOR || f->id == RULE__HOST) && !is_name_pattern(f->bytes))
        return "operators and hosts have 1 to 63 of letters, digits, '.', '_', '-' and '*'";
    if (!pfl_pattern_is_one(f->bytes))
        return "names and patterns have 1 to 127 printable characters without blanks and quotes";
    if (f->id == RULE__LABEL && find_equals(f->bytes) == NULL)
        return "a label is written \"name=value\"";
    return NULL;
}

static const char *check_rule(const struct pfl_policy *p, struct pfl_span rule)
{
    struct pfl_reader r = pfl_reader_of(rule);
    unsigned count[RULE_FIELDS] = {0};
    const char *why = NULL;
    struct pfl_field f;

    while (why == NULL && pfl_reader_field(&r, &f)) {
        why = check_rule_field(&f);
        if (f.id < RULE_FIELDS)
            count[f.id]++;
    }
    if (why != NULL)
        return why;
    if (count[RULE__NAME] != 1 || count[RULE__OPERATOR] == 0 || count[RULE__HOST] == 0)
        return "a rule wants one name, and at least one operator and one host (\"*\": any)";
    if (count[RULE__ROLE] > 1)
        return "a rule has one role; write one role that has what both allow";
    if (count[RULE__ROLE] == 1 && find_role(p, get_text(rule, RULE__ROLE)) == NULL)
        return "no role has the name that this rule gives; add role { name: \"...\" }";
    return NULL;
}

static const char *take_role(struct pfl_policy *p, struct pfl_span whole)
{
    const char *why = pfl_role_check(whole, true);
    struct role *role = &p->roles[p->roles_len];

    if (why != NULL)
        return why;
    if (find_role(p, pfl_role_get_name(whole)) != NULL)
        return "another role has this name; give each its own";
    if (p->roles_len == PFL_POLICY_MAX_ROLES)
        return "there may be 256 roles; use patterns";
    role->whole = whole;
    pfl_buf_init(&role->cut, PFL_ROLE_MAX_BYTES);
    p->roles_len++;
    switch (pfl_role_cut(whole, &role->cut)) {
    case 0:
        return NULL;
    case PFL_ELIMIT:
        return "this role has too many names (1400 bytes of them); use patterns";
    default:
        return no_memory;
    }
}

/* The line on which the n-th (from 0) top-level block begins. */
static unsigned line_of_block(struct pfl_span text, unsigned n)
{
    unsigned line = 1;
    unsigned depth = 0;
    char quote = 0;
    bool is_comment = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = (char)text.data[i];

        if (c == '\n') {
            line++;
            is_comment = false;
        } else if (quote != 0) {
            i += c == '\\';
            quote = c == quote ? 0 : quote;
        } else if (!is_comment && (c == '"' || c == '\'')) {
            quote = c;
        } else if (c == '#') {
            is_comment = true;
        } else if (!is_comment && (c == '{' || c == '<') && depth++ == 0 && n-- == 0) {
            return line;
        } else if (!is_comment && (c == '}' || c == '>') && depth != 0) {
            depth--;
        }
    }
    return line;
}

/* Roles first, because rules anywhere in the file name them. */
static int check(struct pfl_policy *p, struct pfl_span text, char *ret_why)
{
    for (unsigned pass = 0; pass < 2; pass++) {
        struct pfl_reader r = pfl_reader_of(pfl_buf_get(&p->message));
        struct pfl_field f;
        const char *why = NULL;

        for (unsigned n = 0; pfl_reader_field(&r, &f); n++) {
            if (pass == 0 && f.id == POLICY__ROLE)
                why = take_role(p, f.bytes);
            else if (pass == 1 && f.id == POLICY__RULE)
                why = check_rule(p, f.bytes);
            p->rules_len += pass == 1 && f.id == POLICY__RULE;
            if (why == NULL)
                continue;
            (void)snprintf(ret_why, PFL_POLICY_WHY_BYTES, "%u: %s", line_of_block(text, n), why);
            return why == no_memory ? PFL_ENOMEM : PFL_EPARSE;
        }
    }
    return 0;
}

int pfl_policy_parse(struct pfl_span text, char *ret_why, struct pfl_policy **ret_policy)
{
    struct pfl_policy *p = pfl_mem_zalloc(sizeof(*p));
    struct pfl_text_error error = {0};
    int rc;

    (void)snprintf(ret_why, PFL_POLICY_WHY_BYTES, "out of memory");
    if (p == NULL)
        return PFL_ENOMEM;
    pfl_buf_init(&p->message, PFL_POLICY_MAX_BYTES);
    rc = pfl_text_format_parse(&perfleet__policy__descriptor, text, &p->message, &error);
    if (rc == PFL_EPARSE || rc == PFL_ELIMIT)
        (void)snprintf(ret_why, PFL_POLICY_WHY_BYTES, "%u:%u: %s", error.line, error.column,
                       error.message);
    if (rc == 0)
        rc = check(p, text, ret_why);
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
    for (unsigned i = 0; i < self->roles_len; i++)
        pfl_buf_fini(&self->roles[i].cut);
    pfl_buf_fini(&self->message);
    pfl_mem_free(self);
}

unsigned pfl_policy_count_rules(const struct pfl_policy *self)
{
    return self->rules_len;
}

unsigned pfl_policy_count_roles(const struct pfl_policy *self)
{
    return self->roles_len;
}
