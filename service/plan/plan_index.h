/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a config that are looked up while sessions run: filters of data sources, memory of
 * producers, semaphores, triggers. The spans point into the config. Made once, because a config may
 * have tens of thousands of each and no look-up may read it again.
 */
#ifndef PFL_SERVICE_PLAN_INDEX_H
#define PFL_SERVICE_PLAN_INDEX_H

#include "service/output/pattern_set.h"

#define PFL_PLAN_MAX_FILTERS    1024u /* of all data sources */
#define PFL_PLAN_MAX_SEMAPHORES 64u

struct pfl_session_plan;

/* One of a data source's filters. */
struct pfl_plan_filter {
    uint32_t id; /* the field of DataSource: 2, 3, or 4 */
    struct pfl_span text;
    struct pfl_pattern *pattern; /* borrowed; of field 3, once it is compiled */
};

struct pfl_plan_semaphore {
    struct pfl_span name;
    uint64_t max_others;
};

struct pfl_plan_shm {
    struct pfl_span producer;
    uint32_t size_kb;
    uint32_t page_kb;
    size_t at; /* in the config */
};

struct pfl_plan_trigger {
    struct pfl_span name;
    struct pfl_span producer_regex;
    struct pfl_pattern *pattern; /* borrowed; once it is compiled; NULL: every producer */
    size_t at;                   /* in the config */
    uint32_t stop_delay_ms;
    uint32_t max_per_24_h; /* 0: no limit */
    double skip_probability;
};

/* The name of a data source, and its place in the config. */
struct pfl_plan_name {
    struct pfl_span name;
    size_t at;
};

struct pfl_plan_index {
    struct pfl_plan_name *names;     /* owned; by name, then in the config's order */
    struct pfl_plan_filter *filters; /* owned, as all arrays here; by data source */
    size_t filters_len;
    struct pfl_plan_semaphore *semaphores; /* in the config's order */
    size_t semaphores_len;
    struct pfl_plan_shm *shms; /* by producer, then in the config's order */
    size_t shms_len;
    struct pfl_plan_trigger *triggers; /* by name, then in the config's order */
    size_t triggers_len;
    struct pfl_pattern_set filter_patterns;
    struct pfl_pattern_set trigger_patterns;
};

/* For a plan whose config and sources are read. PFL_ENOMEM; the caller must call
 * pfl_plan_index_fini then, too. */
PFL_MUST_USE int pfl_plan_index_make(struct pfl_session_plan *plan);
void pfl_plan_index_fini(struct pfl_plan_index *self);
/* Bytes that it holds, and those of its filters. */
size_t pfl_plan_index_get_bytes(const struct pfl_session_plan *plan);
size_t pfl_plan_index_get_filter_bytes(const struct pfl_plan_index *self);

/* New filters for the plan's data sources, from the bytes of `sources`: made, then taken into the
 * plan, or freed. In `ret_filters` are only filters. PFL_ENOMEM, PFL_ELIMIT, PFL_EPARSE (an invalid
 * pattern). */
PFL_MUST_USE int pfl_plan_index_make_filters(const struct pfl_session_plan *plan,
                                             const struct pfl_span *sources,
                                             struct pfl_plan_index *ret_filters);
void pfl_plan_index_give_filters(struct pfl_session_plan *plan, const struct pfl_span *sources,
                                 struct pfl_plan_index *filters);

/* Compiles the patterns. PFL_EPARSE: `*ret_text` is the invalid pattern, `*ret_at` the index of its
 * data source or trigger. PFL_ENOMEM. */
PFL_MUST_USE int pfl_plan_index_compile_filters(struct pfl_session_plan *plan, size_t *ret_at,
                                                struct pfl_span *ret_text,
                                                char ret_why[PFL_PATTERN_WHY_BYTES]);
PFL_MUST_USE int pfl_plan_index_compile_triggers(struct pfl_session_plan *plan, size_t *ret_at,
                                                 char ret_why[PFL_PATTERN_WHY_BYTES]);

#endif
