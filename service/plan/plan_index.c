/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of a config's parts: see plan_index.h.
 *
 * make: count, allocate, read. Tables that are looked up by name are sorted; among equal names the
 * first one of the config comes first. Patterns are compiled when the plan is checked, each once.
 */
#include "service/plan/plan_index.h"

#include <stdlib.h>

#include "base/mem.h"
#include "perfetto/trace_config.fields.h"
#include "service/plan/session_plan.h"

static bool is_filter(const struct pfl_field *f)
{
    return f->type == PFL_WIRE_BYTES && f->id >= TRACE_CONFIG__DATA_SOURCE__PRODUCER_NAME_FILTER &&
           f->id <= TRACE_CONFIG__DATA_SOURCE__MACHINE_NAME_FILTER;
}

static int compare_spans(struct pfl_span a, struct pfl_span b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len != 0 ? memcmp(a.data, b.data, len) : 0;

    if (order == 0 && a.len != b.len)
        order = a.len < b.len ? -1 : 1;
    return order;
}

/* ---- filters ---- */

static size_t count_filters(struct pfl_span source)
{
    struct pfl_reader r = pfl_reader_of(source);
    struct pfl_field f;
    size_t count = 0;

    while (pfl_reader_field(&r, &f))
        count += is_filter(&f);
    return count;
}

/* `sources_len` messages DataSource; NULL: no memory. */
static struct pfl_plan_filter *read_filters(const struct pfl_span *sources, size_t sources_len,
                                            size_t *ret_len)
{
    struct pfl_plan_filter *filters;
    size_t count = 0;
    size_t len = 0;

    for (size_t i = 0; i < sources_len; i++)
        count += count_filters(sources[i]);
    filters = pfl_mem_calloc(count + 1, sizeof(*filters));
    if (filters == NULL)
        return NULL;
    for (size_t i = 0; i < sources_len; i++) {
        struct pfl_reader r = pfl_reader_of(sources[i]);
        struct pfl_field f;

        while (pfl_reader_field(&r, &f)) {
            if (is_filter(&f))
                filters[len++] = (struct pfl_plan_filter){.id = f.id, .text = f.bytes};
        }
    }
    *ret_len = len;
    return filters;
}

static void place_filters(struct pfl_session_plan *p, const struct pfl_span *sources)
{
    size_t at = 0;

    for (size_t i = 0; i < p->sources_len; i++) {
        p->sources[i].raw = sources[i];
        p->sources[i].filters_at = at;
        p->sources[i].filters_len = count_filters(sources[i]);
        at += p->sources[i].filters_len;
    }
}

static int make_filters(struct pfl_session_plan *p)
{
    struct pfl_span *sources = pfl_mem_calloc(p->sources_len + 1, sizeof(*sources));

    if (sources == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < p->sources_len; i++)
        sources[i] = p->sources[i].raw;
    p->index.filters = read_filters(sources, p->sources_len, &p->index.filters_len);
    place_filters(p, sources);
    pfl_mem_free(sources);
    return p->index.filters != NULL ? 0 : PFL_ENOMEM;
}

static int compile(struct pfl_pattern_set *set, struct pfl_plan_filter *filters, size_t len,
                   size_t *ret_at, char *why)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < len; i++) {
        *ret_at = i;
        if (filters[i].id == TRACE_CONFIG__DATA_SOURCE__PRODUCER_NAME_REGEX_FILTER)
            rc = pfl_pattern_set_get(set, filters[i].text, &filters[i].pattern, why);
    }
    return rc;
}

int pfl_plan_index_make_filters(const struct pfl_session_plan *plan, const struct pfl_span *sources,
                                struct pfl_plan_index *ret_filters)
{
    char why[PFL_PATTERN_WHY_BYTES];
    size_t at;
    int rc = PFL_ELIMIT;

    *ret_filters = (struct pfl_plan_index){0};
    ret_filters->filters = read_filters(sources, plan->sources_len, &ret_filters->filters_len);
    if (ret_filters->filters == NULL)
        return PFL_ENOMEM;
    if (ret_filters->filters_len <= PFL_PLAN_MAX_FILTERS)
        rc = compile(&ret_filters->filter_patterns, ret_filters->filters, ret_filters->filters_len,
                     &at, why);
    if (rc != 0)
        pfl_plan_index_fini(ret_filters);
    return rc;
}

void pfl_plan_index_give_filters(struct pfl_session_plan *plan, const struct pfl_span *sources,
                                 struct pfl_plan_index *filters)
{
    pfl_mem_free(plan->index.filters);
    pfl_pattern_set_fini(&plan->index.filter_patterns);
    plan->index.filters = filters->filters;
    plan->index.filters_len = filters->filters_len;
    plan->index.filter_patterns = filters->filter_patterns;
    place_filters(plan, sources);
    *filters = (struct pfl_plan_index){0};
}

int pfl_plan_index_compile_filters(struct pfl_session_plan *plan, size_t *ret_at,
                                   struct pfl_span *ret_text, char ret_why[PFL_PATTERN_WHY_BYTES])
{
    struct pfl_plan_index *index = &plan->index;
    size_t at = 0;
    int rc = compile(&index->filter_patterns, index->filters, index->filters_len, &at, ret_why);

    if (rc == 0)
        return 0;
    *ret_text = index->filters[at].text;
    *ret_at = 0;
    while (at >= plan->sources[*ret_at].filters_at + plan->sources[*ret_at].filters_len)
        (*ret_at)++;
    return rc;
}

/* ---- names of data sources ---- */

static int compare_names(const void *a, const void *b)
{
    const struct pfl_plan_name *x = a;
    const struct pfl_plan_name *y = b;
    int order = compare_spans(x->name, y->name);

    return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int make_names(struct pfl_session_plan *p)
{
    p->index.names = pfl_mem_calloc(p->sources_len + 1, sizeof(*p->index.names));
    if (p->index.names == NULL)
        return PFL_ENOMEM;
    for (size_t i = 0; i < p->sources_len; i++)
        p->index.names[i] = (struct pfl_plan_name){.name = p->sources[i].name, .at = i};
    qsort(p->index.names, p->sources_len, sizeof(*p->index.names), compare_names);
    return 0;
}

/* Where the names begin that are not smaller. */
static size_t find_name(const struct pfl_session_plan *self, struct pfl_span name)
{
    const struct pfl_plan_name wanted = {.name = name};
    size_t begin = 0;
    size_t end = self->sources_len;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;

        if (compare_names(&self->index.names[middle], &wanted) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
}

const struct pfl_plan_name *pfl_session_plan_find_sources(const struct pfl_session_plan *self,
                                                          struct pfl_span name, size_t *ret_len)
{
    const struct pfl_plan_name *names = self->index.names;
    size_t begin = find_name(self, name);
    size_t end = begin;

    while (end < self->sources_len && pfl_span_eq(names[end].name, name))
        end++;
    *ret_len = end - begin;
    return end != begin ? &names[begin] : NULL;
}

const struct pfl_plan_source *pfl_session_plan_find_source(const struct pfl_session_plan *self,
                                                           struct pfl_span name)
{
    const struct pfl_plan_name *names = self->index.names;
    size_t at = find_name(self, name);

    if (at == self->sources_len || !pfl_span_eq(names[at].name, name))
        return NULL;
    return &self->sources[names[at].at];
}

/* ---- semaphores and producers' memory ---- */

static void read_semaphore(struct pfl_span bytes, struct pfl_plan_semaphore *s)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__SESSION_SEMAPHORE__NAME)
            s->name = f.bytes;
        else if (f.id == TRACE_CONFIG__SESSION_SEMAPHORE__MAX_OTHER_SESSION_COUNT)
            s->max_others = f.value;
    }
}

static void read_shm(struct pfl_span bytes, struct pfl_plan_shm *s)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__PRODUCER_CONFIG__PRODUCER_NAME)
            s->producer = f.bytes;
        else if (f.id == TRACE_CONFIG__PRODUCER_CONFIG__SHM_SIZE_KB)
            s->size_kb = (uint32_t)f.value;
        else if (f.id == TRACE_CONFIG__PRODUCER_CONFIG__PAGE_SIZE_KB)
            s->page_kb = (uint32_t)f.value;
    }
}

static int compare_shms(const void *a, const void *b)
{
    const struct pfl_plan_shm *x = a;
    const struct pfl_plan_shm *y = b;
    int order = compare_spans(x->producer, y->producer);

    return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int make_shms_and_semaphores(struct pfl_session_plan *p)
{
    struct pfl_plan_index *index = &p->index;
    struct pfl_reader r = pfl_reader_of(p->config);
    struct pfl_field f;
    size_t semaphores = 0;
    size_t shms = 0;

    while (pfl_reader_field(&r, &f)) {
        semaphores += f.id == TRACE_CONFIG__SESSION_SEMAPHORES;
        shms += f.id == TRACE_CONFIG__PRODUCERS;
    }
    index->semaphores = pfl_mem_calloc(semaphores + 1, sizeof(*index->semaphores));
    index->shms = pfl_mem_calloc(shms + 1, sizeof(*index->shms));
    if (index->semaphores == NULL || index->shms == NULL)
        return PFL_ENOMEM;
    r = pfl_reader_of(p->config);
    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_CONFIG__SESSION_SEMAPHORES)
            read_semaphore(f.bytes, &index->semaphores[index->semaphores_len++]);
        if (f.id == TRACE_CONFIG__PRODUCERS) {
            index->shms[index->shms_len].at = index->shms_len;
            read_shm(f.bytes, &index->shms[index->shms_len++]);
        }
    }
    qsort(index->shms, index->shms_len, sizeof(*index->shms), compare_shms);
    return 0;
}

void pfl_session_plan_get_shm(const struct pfl_session_plan *self, struct pfl_span producer_name,
                              uint32_t *ret_page_kb, uint32_t *ret_size_kb)
{
    const struct pfl_plan_shm *shms = self->index.shms;
    size_t begin = 0;
    size_t end = self->index.shms_len;

    while (begin < end) { /* the first one that is not smaller */
        size_t middle = begin + (end - begin) / 2;

        if (compare_spans(shms[middle].producer, producer_name) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    *ret_page_kb = 0;
    *ret_size_kb = 0;
    if (begin == self->index.shms_len || !pfl_span_eq(shms[begin].producer, producer_name))
        return;
    *ret_page_kb = shms[begin].page_kb;
    *ret_size_kb = shms[begin].size_kb;
}

/* ---- triggers ---- */

static int compare_triggers(const void *a, const void *b)
{
    const struct pfl_plan_trigger *x = a;
    const struct pfl_plan_trigger *y = b;
    int order = compare_spans(x->name, y->name);

    return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int make_triggers(struct pfl_session_plan *p)
{
    struct pfl_plan_triggers walk = pfl_plan_triggers_of(p);
    struct pfl_plan_trigger trigger;
    size_t count = 0;
    size_t len = 0;

    while (pfl_plan_triggers_next(&walk, &trigger))
        count++;
    p->index.triggers = pfl_mem_calloc(count + 1, sizeof(*p->index.triggers));
    if (p->index.triggers == NULL)
        return PFL_ENOMEM;
    walk = pfl_plan_triggers_of(p);
    while (len < count && pfl_plan_triggers_next(&walk, &trigger)) {
        trigger.at = len;
        p->index.triggers[len++] = trigger;
    }
    p->index.triggers_len = len;
    qsort(p->index.triggers, len, sizeof(*p->index.triggers), compare_triggers);
    return 0;
}

int pfl_plan_index_compile_triggers(struct pfl_session_plan *plan, size_t *ret_at,
                                    char ret_why[PFL_PATTERN_WHY_BYTES])
{
    struct pfl_plan_index *index = &plan->index;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < index->triggers_len; i++) {
        *ret_at = i;
        if (index->triggers[i].producer_regex.len != 0)
            rc = pfl_pattern_set_get(&index->trigger_patterns, index->triggers[i].producer_regex,
                                     &index->triggers[i].pattern, ret_why);
    }
    return rc;
}

const struct pfl_plan_trigger *pfl_session_plan_find_trigger(const struct pfl_session_plan *self,
                                                             struct pfl_span name)
{
    const struct pfl_plan_trigger wanted = {.name = name};
    const struct pfl_plan_trigger *triggers = self->index.triggers;
    size_t begin = 0;
    size_t end = self->index.triggers_len;

    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;

        if (compare_triggers(&triggers[middle], &wanted) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    if (begin == self->index.triggers_len || !pfl_span_eq(triggers[begin].name, name))
        return NULL;
    return &triggers[begin];
}

/* ---- all of them ---- */

int pfl_plan_index_make(struct pfl_session_plan *plan)
{
    int rc = make_filters(plan);

    if (rc == 0)
        rc = make_names(plan);
    if (rc == 0)
        rc = make_shms_and_semaphores(plan);
    if (rc == 0)
        rc = make_triggers(plan);
    return rc;
}

void pfl_plan_index_fini(struct pfl_plan_index *self)
{
    pfl_mem_free(self->names);
    pfl_mem_free(self->filters);
    pfl_mem_free(self->semaphores);
    pfl_mem_free(self->shms);
    pfl_mem_free(self->triggers);
    pfl_pattern_set_fini(&self->filter_patterns);
    pfl_pattern_set_fini(&self->trigger_patterns);
}

/* Each table has a place more than it needs. */
size_t pfl_plan_index_get_filter_bytes(const struct pfl_plan_index *self)
{
    return (self->filters_len + 1) * sizeof(self->filters[0]) + self->filter_patterns.bytes;
}

size_t pfl_plan_index_get_bytes(const struct pfl_session_plan *plan)
{
    const struct pfl_plan_index *index = &plan->index;

    return pfl_plan_index_get_filter_bytes(index) + index->trigger_patterns.bytes +
           (plan->sources_len + 1) * sizeof(index->names[0]) +
           (index->semaphores_len + 1) * sizeof(index->semaphores[0]) +
           (index->shms_len + 1) * sizeof(index->shms[0]) +
           (index->triggers_len + 1) * sizeof(index->triggers[0]);
}
