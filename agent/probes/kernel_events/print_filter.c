/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules for texts of ftrace/print.
 *
 *     PrintFilter { rules=1 { prefix=1 | atrace_msg=3 { type=1 prefix=2 }, allow=2 } }
 *
 * Happy path: parse keeps the message and a rule with spans into it; allows walks the rules.
 * Failure: bytes that are not protobuf, too many rules, no memory: nothing is kept.
 */
#include "agent/probes/kernel_events/print_filter.h"

#include <ctype.h>

#include "base/mem.h"
#include "perfetto/ftrace_config.fields.h"

static bool has_prefix(struct pfl_span text, struct pfl_span prefix)
{
    return prefix.len <= text.len &&
           (prefix.len == 0 || memcmp(text.data, prefix.data, prefix.len) == 0);
}

static bool read_atrace(struct pfl_span message, struct pfl_print_rule *rule)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    rule->is_atrace = true;
    rule->prefix = pfl_span_of(NULL, 0);
    while (pfl_reader_field(&r, &f)) {
        if (f.id == FTRACE_CONFIG__PRINT_FILTER__RULE__ATRACE_MESSAGE__TYPE)
            rule->type = f.bytes;
        else if (f.id == FTRACE_CONFIG__PRINT_FILTER__RULE__ATRACE_MESSAGE__PREFIX)
            rule->prefix = f.bytes;
    }
    return !r.failed;
}

static int read_rule(struct pfl_span message, struct pfl_print_rule *rule)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == FTRACE_CONFIG__PRINT_FILTER__RULE__PREFIX) {
            rule->is_atrace = false; /* one of both: the later */
            rule->prefix = f.bytes;
        } else if (f.id == FTRACE_CONFIG__PRINT_FILTER__RULE__ALLOW) {
            rule->is_allowed = f.value != 0;
        } else if (f.id == FTRACE_CONFIG__PRINT_FILTER__RULE__ATRACE_MSG &&
                   !read_atrace(f.bytes, rule)) {
            return PFL_EPARSE;
        }
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int read_rules(struct pfl_print_filter *self, struct pfl_span config)
{
    struct pfl_reader r = pfl_reader_of(config);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.id != FTRACE_CONFIG__PRINT_FILTER__RULES)
            continue;
        if (self->count == PFL_PRINT_RULES_MAX)
            return PFL_ELIMIT;
        rc = read_rule(f.bytes, &self->rules[self->count++]);
    }
    return r.failed ? PFL_EPARSE : rc;
}

int pfl_print_filter_parse(struct pfl_span config, struct pfl_print_filter *ret_filter)
{
    int rc = PFL_ENOMEM;

    memset(ret_filter, 0, sizeof(*ret_filter));
    ret_filter->is_on = true;
    ret_filter->config = pfl_mem_alloc(config.len + 1);
    ret_filter->rules = pfl_mem_calloc(PFL_PRINT_RULES_MAX, sizeof(*ret_filter->rules));
    if (ret_filter->config != NULL && ret_filter->rules != NULL) {
        if (config.len != 0)
            memcpy(ret_filter->config, config.data, config.len);
        rc = read_rules(ret_filter, pfl_span_of(ret_filter->config, config.len));
    }
    if (rc != 0)
        pfl_print_filter_fini(ret_filter);
    return rc;
}

void pfl_print_filter_fini(struct pfl_print_filter *self)
{
    pfl_mem_free(self->config);
    pfl_mem_free(self->rules);
    memset(self, 0, sizeof(*self));
}

/* type|123|prefix... */
static bool is_atrace_text(const struct pfl_print_rule *rule, struct pfl_span text)
{
    size_t at = rule->type.len;

    if (!has_prefix(text, rule->type) || at == text.len || text.data[at] != '|')
        return false;
    at++;
    while (at < text.len && isdigit(text.data[at]))
        at++;
    if (at == text.len || text.data[at] != '|')
        return false;
    at++;
    return has_prefix(pfl_span_of(text.data + at, text.len - at), rule->prefix);
}

bool pfl_print_filter_allows(const struct pfl_print_filter *self, struct pfl_span text)
{
    for (size_t i = 0; i < self->count; i++) {
        const struct pfl_print_rule *rule = &self->rules[i];

        if (rule->is_atrace ? is_atrace_text(rule, text) : has_prefix(text, rule->prefix))
            return rule->is_allowed;
    }
    return true;
}
