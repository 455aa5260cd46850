/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The regular expressions of one config for producers' names. Each is compiled once, however often
 * the config has it. Number, size and work are limited.
 */
#ifndef PFL_SERVICE_PATTERN_SET_H
#define PFL_SERVICE_PATTERN_SET_H

#include "service/output/pattern.h"

#define PFL_PATTERN_SET_MAX       128u
#define PFL_PATTERN_SET_MAX_BYTES (1u << 20) /* compiled */

struct pfl_pattern_set {
    struct pfl_pattern *patterns[PFL_PATTERN_SET_MAX]; /* owned */
    struct pfl_span texts[PFL_PATTERN_SET_MAX];        /* borrowed: the config's */
    size_t len;
    size_t bytes;
    uint64_t work;
};

/* A zeroed set is empty. Finds or compiles; the set owns `*ret_pattern`. PFL_EPARSE: invalid, or
 * past the limits; see `ret_why`. PFL_ENOMEM. */
PFL_MUST_USE int pfl_pattern_set_get(struct pfl_pattern_set *self, struct pfl_span text,
                                     struct pfl_pattern **ret_pattern,
                                     char ret_why[PFL_PATTERN_WHY_BYTES]);
void pfl_pattern_set_fini(struct pfl_pattern_set *self);

#endif
