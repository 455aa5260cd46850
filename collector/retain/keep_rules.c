/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of retention: see keep_rules.h. Happy path: the class up to the colon, then bounds by name.
 * Failures: an unknown bound, a number that is malformed or too large, a class that has a rule.
 * Owns nothing. Limits: PFL_KEEP_RULES_MAX.
 */
#include "collector/retain/keep_rules.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_S       UINT64_C(1000000000)
#define AGE_MAX_NS     (UINT64_C(36500) * 86400 * NS_PER_S)
#define VALUE_MAX_SIZE 24u

struct unit {
    char letter;
    uint64_t factor;
};

static const struct unit times[] = {
    {'s', NS_PER_S},         {'m', 60 * NS_PER_S},        {'h', 3600 * NS_PER_S},
    {'d', 86400 * NS_PER_S}, {'w', 7 * 86400 * NS_PER_S}, {0, 0}};
static const struct unit sizes[] = {{'\0', 1},
                                    {'K', UINT64_C(1) << 10},
                                    {'M', UINT64_C(1) << 20},
                                    {'G', UINT64_C(1) << 30},
                                    {'T', UINT64_C(1) << 40},
                                    {0, 0}};
static const struct unit counts[] = {{'\0', 1}, {0, 0}};

static const struct bound {
    const char *name;
    const struct unit *units;
    size_t offset;
} bounds[] = {
    {"age", times, offsetof(struct pfl_keep_rule, age_ns)},
    {"triggered", times, offsetof(struct pfl_keep_rule, triggered_ns)},
    {"bytes", sizes, offsetof(struct pfl_keep_rule, bytes)},
    {"host-bytes", sizes, offsetof(struct pfl_keep_rule, host_bytes)},
    {"order-bytes", sizes, offsetof(struct pfl_keep_rule, order_bytes)},
    {"per-trigger", counts, offsetof(struct pfl_keep_rule, per_trigger)},
};

static bool parse_value(const char *text, const struct unit *units, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *c = text;

    if (strcmp(text, "none") == 0) {
        *ret_value = 0;
        return true;
    }
    for (; *c >= '0' && *c <= '9'; c++) {
        if (value > UINT32_MAX)
            return false;
        value = value * 10 + (uint64_t)(*c - '0');
    }
    if (c == text || value == 0 || (*c != '\0' && c[1] != '\0'))
        return false;
    for (; units->factor != 0; units++) {
        if (units->letter != *c)
            continue;
        if (value > INT64_MAX / units->factor)
            return false;
        *ret_value = value * units->factor;
        return true;
    }
    return false;
}

bool pfl_keep_rules_parse_bytes(const char *text, uint64_t *ret_bytes)
{
    return parse_value(text, sizes, ret_bytes);
}

void pfl_keep_rules_init(struct pfl_keep_rules *ret_rules)
{
    *ret_rules = (struct pfl_keep_rules){.len = 1};
    ret_rules->list[0] = (struct pfl_keep_rule){.class_name = "*",
                                                .age_ns = PFL_KEEP_DEFAULT_AGE_NS,
                                                .triggered_ns = PFL_KEEP_TRIGGERED_AGE_NS};
}

/* NAME=VALUE up to `end`. */
static bool parse_bound(const char *text, const char *end, struct pfl_keep_rule *rule)
{
    char value[VALUE_MAX_SIZE];

    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        size_t len = strlen(bounds[i].name);
        size_t rest = (size_t)(end - text);

        if (rest <= len || strncmp(text, bounds[i].name, len) != 0 || text[len] != '=')
            continue;
        rest -= len + 1;
        if (rest == 0 || rest >= sizeof(value))
            return false;
        memcpy(value, text + len + 1, rest);
        value[rest] = '\0';
        return parse_value(value, bounds[i].units,
                           (uint64_t *)(void *)((char *)rule + bounds[i].offset));
    }
    return false;
}

/* The letters of pfl_identity_is_name, or "*". */
static bool parse_class(const char *text, size_t len, char *ret_name)
{
    if (len == 0 || len >= PFL_KEEP_CLASS_BYTES)
        return false;
    memcpy(ret_name, text, len);
    ret_name[len] = '\0';
    return strcmp(ret_name, "*") == 0 ||
           strspn(ret_name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
               len;
}

static struct pfl_keep_rule *find_own(struct pfl_keep_rules *self, const char *class_name)
{
    for (size_t i = 0; i < self->len; i++)
        if (strcmp(self->list[i].class_name, class_name) == 0)
            return &self->list[i];
    return NULL;
}

static bool refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return false;
}

static bool is_default(const struct pfl_keep_rule *rule)
{
    struct pfl_keep_rules fresh;

    pfl_keep_rules_init(&fresh);
    return memcmp(rule, &fresh.list[0], sizeof(*rule)) == 0;
}

bool pfl_keep_rules_add(struct pfl_keep_rules *self, const char *text, const char **ret_why)
{
    struct pfl_keep_rules fresh;
    struct pfl_keep_rule *rule = &fresh.list[0];
    struct pfl_keep_rule *own;
    const char *pos = strchr(text, ':');
    bool has_triggered = strstr(text, "triggered=") != NULL;

    pfl_keep_rules_init(&fresh);
    if (pos == NULL || pos[1] == '\0')
        return refuse(ret_why, "wants CLASS:BOUND[,BOUND]..., such as crash:age=90d");
    memset(rule->class_name, 0, sizeof(rule->class_name));
    if (!parse_class(text, (size_t)(pos - text), rule->class_name))
        return refuse(ret_why, "wants a class, or *, before the colon");
    while (*pos != '\0') {
        const char *begin = pos + 1;

        pos = begin + strcspn(begin, ",");
        if (!parse_bound(begin, pos, rule))
            return refuse(ret_why, "wants bounds as age=30d, triggered=90d, bytes=500G, "
                                   "host-bytes=10G, order-bytes=50G, per-trigger=20, or none");
    }
    /* What a trigger made is kept longer. */
    if (!has_triggered && rule->triggered_ns != 0 &&
        (rule->age_ns == 0 || rule->triggered_ns < rule->age_ns))
        rule->triggered_ns = rule->age_ns;
    if (rule->triggered_ns != 0 && (rule->age_ns == 0 || rule->triggered_ns < rule->age_ns))
        return refuse(ret_why, "wants triggered not less than age");
    if (rule->age_ns > AGE_MAX_NS || rule->triggered_ns > AGE_MAX_NS)
        return refuse(ret_why, "wants at most 36500d");
    own = find_own(self, rule->class_name);
    if (own != NULL && !(strcmp(own->class_name, "*") == 0 && is_default(own)))
        return refuse(ret_why, "is given twice for one class");
    if (own == NULL && self->len == PFL_KEEP_RULES_MAX)
        return refuse(ret_why, "may be given for 15 classes and *");
    if (own == NULL)
        own = &self->list[self->len++];
    *own = *rule;
    return true;
}

const struct pfl_keep_rule *pfl_keep_rules_find(const struct pfl_keep_rules *self,
                                                const char *class_name)
{
    for (size_t i = 1; i < self->len; i++)
        if (strcmp(self->list[i].class_name, class_name) == 0)
            return &self->list[i];
    return &self->list[0];
}
