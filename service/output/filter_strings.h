/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The string rules of a TraceFilter (docs/abi/service.md section 8): the first rule that applies to
 * a string decides; what its groups matched is overwritten in place.
 */
#ifndef PFL_SERVICE_FILTER_STRINGS_H
#define PFL_SERVICE_FILTER_STRINGS_H

#include <stdatomic.h>

#include "service/output/filter_bytecode.h"
#include "service/output/pattern.h"

#define PFL_FILTER_MAX_RULES       1024u
#define PFL_FILTER_MAX_RULES_BYTES (8u << 20) /* of all compiled patterns together */
#define PFL_FILTER_SEMANTIC_TYPES  128u

struct pfl_filter_rule {
    uint32_t policy;
    struct pfl_pattern *pattern; /* owned */
    char *name;                  /* owned; NULL: none */
    uint8_t *payload_start;      /* owned; NULL: any */
    size_t payload_start_len;
    uint64_t types[PFL_FILTER_SEMANTIC_TYPES / 64]; /* a bit for each that it applies to */
};

struct pfl_filter_strings {
    struct pfl_filter_rule *rules; /* owned */
    size_t len;
    size_t capacity;
    size_t bytes;  /* of the patterns */
    uint64_t work; /* likewise */
    /* Set by any thread: no further rule is applied, and the present one ends. Borrowed; NULL:
     * never. */
    const atomic_bool *is_cancelled;
};

/* Adds a StringFilterChain; a rule replaces an earlier one of the same name. `field` is the chain's
 * name in TraceFilter, for messages. PFL_EPARSE with `ret_why`, PFL_ENOMEM. */
PFL_MUST_USE int pfl_filter_strings_add(struct pfl_filter_strings *self, struct pfl_span chain,
                                        const char *field, char ret_why[PFL_FILTER_WHY_BYTES]);
/* `self` is zeroed: gets the rules of `from`, as pfl_pattern_copy. PFL_ENOMEM: call fini. */
PFL_MUST_USE int pfl_filter_strings_copy(struct pfl_filter_strings *self,
                                         const struct pfl_filter_strings *from);
void pfl_filter_strings_fini(struct pfl_filter_strings *self); /* legal on zeroed memory */
/* Bytes of the rules' compiled patterns, which copies share, and what it has besides. */
size_t pfl_filter_strings_get_shared_bytes(const struct pfl_filter_strings *self);
size_t pfl_filter_strings_get_own_bytes(const struct pfl_filter_strings *self);

/* Once all rules are there. */
void pfl_filter_strings_set_cancel(struct pfl_filter_strings *self,
                                   const atomic_bool *is_cancelled);
static inline bool pfl_filter_strings_is_cancelled(const struct pfl_filter_strings *self)
{
    return self->is_cancelled != NULL &&
           atomic_load_explicit(self->is_cancelled, memory_order_relaxed);
}
/* True if the string was changed. If a rule exceeded its bounds, or the rules were cancelled, the
 * whole string was overwritten. Any thread, one at a time. */
bool pfl_filter_strings_apply(struct pfl_filter_strings *self, uint8_t *string, size_t len,
                              uint32_t semantic_type);

#endif
