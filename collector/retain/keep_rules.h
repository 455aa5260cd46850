/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long traces are kept: rules by class of retention, as text. Pure.
 *
 *     CLASS:BOUND[,BOUND]...      crash:age=90d,per-trigger=20
 *     *:age=30d                   each class without a rule of its own
 *
 *     age=T            of what no trigger made
 *     triggered=T      of what a trigger made; not less than age
 *     bytes=N          of the class
 *     host-bytes=N     of each host in the class
 *     order-bytes=N    of each order in the class
 *     per-trigger=N    traces of each trigger of an order, on each host
 *
 * T: a number with s, m, h, d or w. N: a number; of bytes with K, M, G or T (powers of 1024).
 * "none": no bound.
 */
#ifndef PFL_COLLECTOR_RETAIN_KEEP_RULES_H
#define PFL_COLLECTOR_RETAIN_KEEP_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PFL_KEEP_RULES_MAX        16u
#define PFL_KEEP_CLASS_BYTES      64u
#define PFL_KEEP_DEFAULT_AGE_NS   (UINT64_C(30) * 86400 * 1000000000)
#define PFL_KEEP_TRIGGERED_AGE_NS (UINT64_C(90) * 86400 * 1000000000)

/* 0: no bound. */
struct pfl_keep_rule {
    char class_name[PFL_KEEP_CLASS_BYTES]; /* "*": any other */
    uint64_t age_ns;
    uint64_t triggered_ns;
    uint64_t bytes;
    uint64_t host_bytes;
    uint64_t order_bytes;
    uint64_t per_trigger;
};

struct pfl_keep_rules {
    struct pfl_keep_rule list[PFL_KEEP_RULES_MAX];
    size_t len;
    uint64_t bytes;  /* of all classes */
    uint64_t traces; /* of all classes: no text says it */
};

/* The rule for "*": PFL_KEEP_DEFAULT_AGE_NS and PFL_KEEP_TRIGGERED_AGE_NS; no bytes. */
void pfl_keep_rules_init(struct pfl_keep_rules *ret_rules);
/* One more rule. A bound that it does not name is that of "*" by default. False: `ret_why`, static,
 * says what is wrong with it. */
bool pfl_keep_rules_add(struct pfl_keep_rules *self, const char *text, const char **ret_why);
/* "500G", "none". */
bool pfl_keep_rules_parse_bytes(const char *text, uint64_t *ret_bytes);
const struct pfl_keep_rule *pfl_keep_rules_find(const struct pfl_keep_rules *self,
                                                const char *class_name);

#endif
