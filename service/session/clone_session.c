/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session that a consumer gets for a clone: the source's config and triggers, its cloned
 * buffers, and its events of that moment. Failures: PFL_ENOMEM, PFL_EPERM (the user's share of
 * memory for configs); then there is no session.
 */
#include "base/mem.h"
#include "service/session/clone_inner.h"
#include "service/session/session_parts.h"
#include "service/session/session_record.h"

/* The clone has the session's received triggers, whether their delay is over or not. Names point
 * into the config, which is the same in both plans. */
static int copy_triggers(struct pfl_session *copy, const struct pfl_session *source)
{
    int rc = pfl_trigger_list_copy(&copy->triggers, &source->triggers);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < copy->triggers.received_len; i++) {
        struct pfl_span *name = &copy->triggers.received[i].name;

        name->data = copy->plan->config.data + (name->data - source->plan->config.data);
    }
    return 0;
}

void pfl_clone_session_copy_history(struct pfl_service *service, struct pfl_session *copy,
                                    const struct pfl_session *source, const struct pfl_clone *clone)
{
    copy->counters = source->counters;
    copy->inherited = source->counters;
    copy->counters.final_flush_outcome = clone->is_flush_failed ? 2 : 1;
    copy->start_realtime_ns = source->start_realtime_ns;
    copy->pending.stats = true;
    pfl_session_events_copy(&copy->events, &source->events);
    pfl_concurrent_copy(&copy->concurrent, &source->concurrent);
    pfl_session_events_record_value(&copy->events, clone->started_ns, PFL_EVENT_CLONE_STARTED, 1);
    for (size_t i = 0; i < clone->buffers_len; i++)
        pfl_session_events_record_value(&copy->events, clone->cloned_ns[i], PFL_EVENT_BUFFER_CLONED,
                                        i);
    pfl_session_snapshot_clocks(service, copy);
    pfl_session_record(service, copy, PFL_EVENT_TRACING_DISABLED, (struct pfl_span){0});
}

/* What is compiled is not compiled again, which may take 10 ms. A clone without a filter, of which
 * this is a clone, has nothing to share. */
static int share_filter(const struct pfl_session *source, struct pfl_session_plan *plan)
{
    const struct pfl_trace_filter *filter =
        source->output != NULL ? pfl_pipeline_get_filter(source->output->pipeline) : NULL;

    return filter != NULL ? pfl_trace_filter_copy(filter, &plan->filter) : 0;
}

/* The source's config as it is now; plain packets unless compressed ones were asked for, and
 * filtered unless that was waived. */
static int make_plan(struct pfl_service *service, const struct pfl_session *source,
                     const struct pfl_clone *clone, struct pfl_session_plan **ret_plan)
{
    const struct pfl_session_plan *from = source->plan;
    int rc = pfl_session_plan_new(from->config, ret_plan);

    if (rc != 0)
        return rc;
    if (from->changed_bytes != NULL) {
        (*ret_plan)->changed_bytes = pfl_mem_memdup(from->changed.data, from->changed.len);
        (*ret_plan)->changed = pfl_span_of((*ret_plan)->changed_bytes, from->changed.len);
        if ((*ret_plan)->changed_bytes == NULL) {
            pfl_session_plan_free(*ret_plan);
            return PFL_ENOMEM;
        }
    }
    if (clone->skips_filter)
        (*ret_plan)->has_filter = false;
    rc = (*ret_plan)->has_filter ? share_filter(source, *ret_plan) : 0;
    if (rc == 0)
        rc = pfl_session_plan_charge(*ret_plan, &service->shares.peer_bytes, clone->who);
    if (rc != 0) {
        pfl_session_plan_free(*ret_plan);
        return rc;
    }
    if (!clone->is_compressed)
        (*ret_plan)->codec = PFL_CODEC_NONE;
    (*ret_plan)->file = (struct pfl_plan_file){0};
    return 0;
}

int pfl_clone_session_new(struct pfl_service *service, const struct pfl_session *source,
                          const struct pfl_clone *clone, struct pfl_session **ret_session)
{
    struct pfl_session_plan *plan;
    struct pfl_session *copy;
    int rc = make_plan(service, source, clone, &plan);

    if (rc != 0)
        return rc;
    rc = pfl_session_make_parts(service, clone->who, plan, &copy);
    if (rc != 0) {
        pfl_session_plan_free(plan);
        return rc;
    }
    if (clone->trigger.len != 0) {
        copy->clone_trigger = pfl_mem_memdup(pfl_buf_get(&clone->trigger).data, clone->trigger.len);
        copy->clone_trigger_len = clone->trigger.len;
        if (copy->clone_trigger == NULL) {
            pfl_session_free(copy);
            return PFL_ENOMEM;
        }
    }
    rc = copy_triggers(copy, source);
    /* What follows in the file belongs to the sequences that are in it. */
    if (rc == 0 && clone->fd >= 0)
        rc = pfl_sequence_ids_copy(&copy->sequences, &source->sequences);
    if (rc != 0) {
        pfl_session_free(copy);
        return PFL_ENOMEM;
    }
    *ret_session = copy;
    return 0;
}

void pfl_clone_session_take_buffers(struct pfl_session *copy, struct pfl_clone *clone)
{
    for (size_t i = 0; i < clone->buffers_len; i++) {
        pfl_trace_buffer_free(copy->buffers[i].ring);
        copy->buffers[i].ring = clone->buffers[i];
        clone->buffers[i] = NULL;
    }
}
