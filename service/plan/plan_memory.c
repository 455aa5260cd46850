/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plan costs its user.
 *
 * charge: sum the bytes of the config, its tables, patterns and filter, once, when the plan is made
 * and checked. A pipeline that takes the filter lives as long as the plan, so the sum has both.
 * What a filter shares with its copies it charges itself (trace_filter.h). change: charge the
 * difference, then take the new config. Failures: the share is used up; then nothing is charged.
 */
#include "base/mem.h"
#include "service/plan/session_plan.h"

/* Of the bytes as the config was sent, or as they were changed. */
static uint64_t get_config_bytes(size_t len)
{
    return len + PFL_PLAN_DURATIONS_BYTES;
}

static uint64_t get_bytes(const struct pfl_session_plan *p)
{
    uint64_t bytes = sizeof(*p) + get_config_bytes(p->config.len) +
                     (p->buffers_len + 1) * sizeof(p->buffers[0]) +
                     (p->sources_len + 1) * sizeof(p->sources[0]) + pfl_plan_index_get_bytes(p);

    if (p->changed_bytes != NULL)
        bytes += get_config_bytes(p->changed.len);
    return bytes + p->filter_bytes;
}

int pfl_session_plan_charge(struct pfl_session_plan *self, struct pfl_shares *charged, uint64_t who)
{
    if (self->filter != NULL)
        self->filter_bytes = pfl_trace_filter_get_own_bytes(self->filter);
    if (!pfl_shares_set(charged, who, &self->held_bytes, get_bytes(self)))
        return PFL_EPERM;
    self->charged = charged;
    self->who = who;
    return self->filter == NULL || pfl_trace_filter_charge(self->filter, charged, who) ? 0
                                                                                       : PFL_EPERM;
}

static bool charge_change(struct pfl_session_plan *p, size_t len,
                          const struct pfl_plan_index *filters)
{
    uint64_t bytes = get_bytes(p);

    if (p->charged == NULL)
        return true;
    if (p->changed_bytes != NULL)
        bytes -= get_config_bytes(p->changed.len);
    bytes -= pfl_plan_index_get_filter_bytes(&p->index);
    bytes += get_config_bytes(len) + pfl_plan_index_get_filter_bytes(filters);
    return pfl_shares_set(p->charged, p->who, &p->held_bytes, bytes);
}

int pfl_session_plan_change(struct pfl_session_plan *self, uint8_t *bytes, size_t len,
                            const struct pfl_span *sources)
{
    struct pfl_plan_index filters;
    int rc = pfl_plan_index_make_filters(self, sources, &filters);

    if (rc != 0)
        return rc;
    if (!charge_change(self, len, &filters)) {
        pfl_plan_index_fini(&filters);
        return PFL_EPERM;
    }
    pfl_plan_index_give_filters(self, sources, &filters);
    pfl_mem_free(self->changed_bytes);
    self->changed_bytes = bytes;
    self->changed = pfl_span_of(bytes, len);
    return 0;
}
