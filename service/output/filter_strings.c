/* SPDX-License-Identifier: Apache-2.0 */
/*
 * String rules.
 *
 * Happy path: rules are compiled when the session is made; the chain is applied to each string of a
 * field that asks for it. Rules for atrace first compare what follows the second '|' of the string,
 * so that most strings cost a comparison and no match. A match's groups are overwritten with
 * P60REDACTED, cut to their length or padded with '-': lengths never change, so the message around
 * the string stays as it is. Failures: an invalid rule, named by chain and index. If a match
 * exceeds its bounds, the whole string is overwritten, because it is unknown what the rule would
 * have hidden. The chain owns its rules. Limits: rules, bytes of their patterns,
 * work to compile them.
 */
#include "service/output/filter_strings.h"

#include <stdio.h>

#include "base/mem.h"
#include "perfetto/trace_config.fields.h"

static const char redacted[] = "P60REDACTED";

/* A rule as it lies in the config. */
struct raw_rule {
    uint32_t policy;
    struct pfl_span pattern;
    struct pfl_span payload_start;
    struct pfl_span name;
    uint64_t types[PFL_FILTER_SEMANTIC_TYPES / 64];
};

static void fini_rule(struct pfl_filter_rule *rule)
{
    pfl_pattern_free(rule->pattern);
    pfl_mem_free(rule->name);
    pfl_mem_free(rule->payload_start);
}

/* ---- reading ---- */

static bool add_type(struct raw_rule *raw, uint64_t type)
{
    if (type >= PFL_FILTER_SEMANTIC_TYPES)
        return false;
    raw->types[type / 64] |= 1ull << (type % 64);
    return true;
}

static bool read_types(struct raw_rule *raw, const struct pfl_field *f)
{
    struct pfl_reader packed = pfl_reader_of(f->bytes);
    bool is_good = true;

    if (f->type != PFL_WIRE_BYTES)
        return add_type(raw, f->value);
    while (is_good && packed.left != 0 && !packed.failed)
        is_good = add_type(raw, pfl_reader_varint(&packed));
    return is_good && !packed.failed;
}

/* NULL, or the error. */
static const char *read_rule(struct pfl_span bytes, struct raw_rule *ret_raw)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct raw_rule raw = {0};
    bool has_types = false;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__TRACE_FILTER__STRING_FILTER_RULE__POLICY)
            raw.policy = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__TRACE_FILTER__STRING_FILTER_RULE__REGEX_PATTERN)
            raw.pattern = f.bytes;
        else if (f.id == TRACE_CONFIG__TRACE_FILTER__STRING_FILTER_RULE__ATRACE_PAYLOAD_STARTS_WITH)
            raw.payload_start = f.bytes;
        else if (f.id == TRACE_CONFIG__TRACE_FILTER__STRING_FILTER_RULE__NAME)
            raw.name = f.bytes;
        else if (f.id == TRACE_CONFIG__TRACE_FILTER__STRING_FILTER_RULE__SEMANTIC_TYPE &&
                 !read_types(&raw, &f))
            return "semantic_type: it must be below 128";
        has_types =
            has_types || f.id == TRACE_CONFIG__TRACE_FILTER__STRING_FILTER_RULE__SEMANTIC_TYPE;
    }
    if (r.failed)
        return "it is no valid message";
    if (raw.policy < TRACE_CONFIG__TRACE_FILTER__SFP_MATCH_REDACT_GROUPS ||
        raw.policy > TRACE_CONFIG__TRACE_FILTER__SFP_ATRACE_REPEATED_SEARCH_REDACT_GROUPS)
        return "policy: unset or unknown";
    if (!has_types)
        raw.types[0] = 1; /* only fields without a type */
    *ret_raw = raw;
    return NULL;
}

static int copy_rule(const struct raw_rule *raw, struct pfl_filter_rule *rule, char *why)
{
    int rc = pfl_pattern_new(raw->pattern, &rule->pattern, why);

    if (rc != 0)
        return rc;
    rule->policy = raw->policy;
    memcpy(rule->types, raw->types, sizeof(rule->types));
    if (raw->name.len != 0) {
        rule->name = pfl_mem_strndup((const char *)raw->name.data, raw->name.len);
        if (rule->name == NULL)
            return PFL_ENOMEM;
    }
    if (raw->payload_start.len != 0) {
        rule->payload_start = pfl_mem_memdup(raw->payload_start.data, raw->payload_start.len);
        if (rule->payload_start == NULL)
            return PFL_ENOMEM;
        rule->payload_start_len = raw->payload_start.len;
    }
    return 0;
}

static int grow(struct pfl_filter_strings *self)
{
    size_t capacity = self->capacity != 0 ? self->capacity * 2 : 8;
    struct pfl_filter_rule *rules;

    if (self->len < self->capacity)
        return 0;
    rules = pfl_mem_realloc(self->rules, capacity * sizeof(*rules));
    if (rules == NULL)
        return PFL_ENOMEM;
    self->rules = rules;
    self->capacity = capacity;
    return 0;
}

static struct pfl_filter_rule *find_named(struct pfl_filter_strings *self, const char *name)
{
    for (size_t i = 0; name != NULL && i < self->len; i++) {
        if (self->rules[i].name != NULL && strcmp(self->rules[i].name, name) == 0)
            return &self->rules[i];
    }
    return NULL;
}

/* Takes the rule. */
static void give_rule(struct pfl_filter_strings *self, struct pfl_filter_rule *rule)
{
    struct pfl_filter_rule *place = find_named(self, rule->name);

    if (place != NULL)
        fini_rule(place);
    else
        place = &self->rules[self->len++];
    *place = *rule;
}

static int refuse(char *why, const char *what)
{
    (void)snprintf(why, PFL_PATTERN_WHY_BYTES, "%s", what);
    return PFL_EPARSE;
}

static int add_rule(struct pfl_filter_strings *self, struct pfl_span bytes, char *why)
{
    struct pfl_filter_rule rule = {0};
    struct raw_rule raw;
    const char *wrong = read_rule(bytes, &raw);
    int rc;

    if (wrong != NULL)
        return refuse(why, wrong);
    if (self->len == PFL_FILTER_MAX_RULES)
        return refuse(why, "more than 1024 rules");
    if (pfl_pattern_get_work(raw.pattern) > PFL_PATTERN_MAX_WORK - self->work)
        return refuse(why, PFL_PATTERN_TOO_MUCH_WORK);
    self->work += pfl_pattern_get_work(raw.pattern);
    rc = grow(self);
    if (rc == 0)
        rc = copy_rule(&raw, &rule, why);
    if (rc == 0) {
        self->bytes += pfl_pattern_get_bytes(rule.pattern);
        if (self->bytes > PFL_FILTER_MAX_RULES_BYTES)
            rc = refuse(why, "all patterns together are too large");
    }
    if (rc != 0) {
        fini_rule(&rule);
        return rc;
    }
    give_rule(self, &rule);
    return 0;
}

int pfl_filter_strings_add(struct pfl_filter_strings *self, struct pfl_span chain,
                           const char *field, char ret_why[PFL_FILTER_WHY_BYTES])
{
    struct pfl_reader r = pfl_reader_of(chain);
    char why[PFL_PATTERN_WHY_BYTES] = "";
    struct pfl_field f;
    size_t index = 0;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.id != TRACE_CONFIG__TRACE_FILTER__STRING_FILTER_CHAIN__RULES ||
            f.type != PFL_WIRE_BYTES)
            continue;
        rc = add_rule(self, f.bytes, why);
        if (rc == PFL_EPARSE)
            (void)snprintf(ret_why, PFL_FILTER_WHY_BYTES, "%s.rules[%zu]: %s", field, index, why);
        index++;
    }
    if (rc != 0 || !r.failed)
        return rc;
    (void)snprintf(ret_why, PFL_FILTER_WHY_BYTES, "%s: it is no valid message", field);
    return PFL_EPARSE;
}

/* Without its name, which only a chain that is added later needs. */
static int share_rule(const struct pfl_filter_rule *from, struct pfl_filter_rule *rule)
{
    int rc = pfl_pattern_copy(from->pattern, &rule->pattern);

    if (rc != 0)
        return rc;
    rule->policy = from->policy;
    memcpy(rule->types, from->types, sizeof(rule->types));
    rule->payload_start_len = from->payload_start_len;
    if (from->payload_start_len == 0)
        return 0;
    rule->payload_start = pfl_mem_memdup(from->payload_start, from->payload_start_len);
    return rule->payload_start != NULL ? 0 : PFL_ENOMEM;
}

int pfl_filter_strings_copy(struct pfl_filter_strings *self, const struct pfl_filter_strings *from)
{
    int rc = 0;

    if (from->len == 0)
        return 0;
    self->rules = pfl_mem_calloc(from->len, sizeof(*self->rules));
    if (self->rules == NULL)
        return PFL_ENOMEM;
    self->capacity = from->len;
    while (rc == 0 && self->len < from->len) {
        rc = share_rule(&from->rules[self->len], &self->rules[self->len]);
        self->len++;
    }
    return rc;
}

void pfl_filter_strings_fini(struct pfl_filter_strings *self)
{
    for (size_t i = 0; i < self->len; i++)
        fini_rule(&self->rules[i]);
    pfl_mem_free(self->rules);
    *self = (struct pfl_filter_strings){0};
}

size_t pfl_filter_strings_get_shared_bytes(const struct pfl_filter_strings *self)
{
    size_t bytes = 0;

    for (size_t i = 0; i < self->len; i++)
        bytes += pfl_pattern_get_shared_bytes(self->rules[i].pattern);
    return bytes;
}

size_t pfl_filter_strings_get_own_bytes(const struct pfl_filter_strings *self)
{
    size_t bytes = self->capacity * sizeof(self->rules[0]);

    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_filter_rule *rule = &self->rules[i];

        bytes += pfl_pattern_get_own_bytes(rule->pattern) + rule->payload_start_len;
        bytes += rule->name != NULL ? strlen(rule->name) + 1 : 0;
    }
    return bytes;
}

void pfl_filter_strings_set_cancel(struct pfl_filter_strings *self, const atomic_bool *is_cancelled)
{
    self->is_cancelled = is_cancelled;
    for (size_t i = 0; i < self->len; i++)
        pfl_pattern_set_cancel(self->rules[i].pattern, is_cancelled);
}

/* ---- applying ---- */

/* What follows the second '|' of an atrace string, "B|1024|payload"; empty data: it is none. */
static struct pfl_span find_payload(struct pfl_span string)
{
    const uint8_t *bar;

    /* Strings that begin with E never have a payload. */
    if (string.len <= 2 || string.data[0] == 'E')
        return (struct pfl_span){0};
    bar = memchr(string.data + 2, '|', string.len - 2);
    if (bar == NULL)
        return (struct pfl_span){0};
    return pfl_span_of(bar + 1, (size_t)(string.data + string.len - bar - 1));
}

static bool is_for_payload(const struct pfl_filter_rule *rule, struct pfl_span payload)
{
    return payload.data != NULL && payload.len >= rule->payload_start_len &&
           (rule->payload_start_len == 0 ||
            memcmp(payload.data, rule->payload_start, rule->payload_start_len) == 0);
}

static bool is_for_type(const struct pfl_filter_rule *rule, uint32_t type)
{
    /* A type that no rule can name: all rules apply, to be on the safe side. */
    if (type >= PFL_FILTER_SEMANTIC_TYPES)
        return true;
    return ((rule->types[type / 64] >> (type % 64)) & 1) != 0;
}

static void overwrite(uint8_t *string, size_t len)
{
    const size_t mark_len = sizeof(redacted) - 1;

    memcpy(string, redacted, len < mark_len ? len : mark_len);
    if (len > mark_len)
        memset(string + mark_len, '-', len - mark_len);
}

static void redact_groups(const struct pfl_filter_rule *rule, uint8_t *string)
{
    size_t groups = pfl_pattern_count_groups(rule->pattern);
    size_t begin;
    size_t end;

    for (size_t g = 1; g <= groups; g++) {
        if (pfl_pattern_get_group(rule->pattern, g, &begin, &end))
            overwrite(string + begin, end - begin);
    }
}

/* 0 when something was found, PFL_ENOENT, PFL_ELIMIT. */
static int search(const struct pfl_filter_strings *self, const struct pfl_filter_rule *rule,
                  uint8_t *string, size_t len)
{
    bool is_found = false;
    size_t start = 0;
    int rc;

    while ((rc = pfl_pattern_search(rule->pattern, pfl_span_of(string, len), start)) == 0) {
        size_t begin;
        size_t end;

        if (pfl_filter_strings_is_cancelled(self) ||
            !pfl_pattern_get_group(rule->pattern, 0, &begin, &end))
            return PFL_ELIMIT;
        redact_groups(rule, string);
        is_found = true;
        start = end != begin ? end : end + 1;
    }
    return rc == PFL_ENOENT && is_found ? 0 : rc;
}

static int apply_rule(const struct pfl_filter_strings *self, const struct pfl_filter_rule *rule,
                      uint8_t *string, size_t len)
{
    if (pfl_filter_strings_is_cancelled(self))
        return PFL_ELIMIT;
    return rule->policy == TRACE_CONFIG__TRACE_FILTER__SFP_ATRACE_REPEATED_SEARCH_REDACT_GROUPS
               ? search(self, rule, string, len)
               : pfl_pattern_match(rule->pattern, pfl_span_of(string, len));
}

static bool is_candidate(const struct pfl_filter_rule *rule, struct pfl_span payload,
                         uint32_t semantic_type)
{
    bool is_about_atrace = rule->policy != TRACE_CONFIG__TRACE_FILTER__SFP_MATCH_REDACT_GROUPS &&
                           rule->policy != TRACE_CONFIG__TRACE_FILTER__SFP_MATCH_BREAK;

    return is_for_type(rule, semantic_type) && (!is_about_atrace || is_for_payload(rule, payload));
}

bool pfl_filter_strings_apply(struct pfl_filter_strings *self, uint8_t *string, size_t len,
                              uint32_t semantic_type)
{
    struct pfl_span payload;

    if (len == 0 || self->len == 0)
        return false;
    payload = find_payload(pfl_span_of(string, len));
    for (size_t i = 0; i < self->len; i++) {
        const struct pfl_filter_rule *rule = &self->rules[i];
        int rc;

        if (!is_candidate(rule, payload, semantic_type))
            continue;
        rc = apply_rule(self, rule, string, len);
        if (rc == PFL_ENOENT)
            continue;
        if (rc != 0) {
            overwrite(string, len);
            return true;
        }
        if (rule->policy == TRACE_CONFIG__TRACE_FILTER__SFP_MATCH_BREAK ||
            rule->policy == TRACE_CONFIG__TRACE_FILTER__SFP_ATRACE_MATCH_BREAK)
            return false;
        if (rule->policy != TRACE_CONFIG__TRACE_FILTER__SFP_ATRACE_REPEATED_SEARCH_REDACT_GROUPS)
            redact_groups(rule, string);
        return true;
    }
    return false;
}
