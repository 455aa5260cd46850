/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Activations of triggers and their actions.
 *
 * activate: for each session with a trigger of that name, check its regular expression against the
 * producer, its probability, and its limit per day. Then the activation is recorded for the trace.
 * The session starts at once (START_TRACING), is flushed and stopped after the delay (STOP_TRACING,
 * the first time only), or its consumer is notified after the delay (CLONE_SNAPSHOT, every time). A
 * session that waits for its start is disabled after its timeout; for the others the timeout is the
 * duration. Failures: none; without memory a packet is missing, and a delayed action is done at
 * once.
 */
#include "service/session/trigger.h"

#include "base/log.h"
#include "service/output/pattern.h"
#include "service/session/session_flush.h"
#include "service/session/session_record.h"
#include "service/session/session_run.h"
#include "service/session/trigger_state.h"

struct activation {
    const struct pfl_producer *producer;
    struct pfl_span name;
    size_t count_in_day;
    bool is_counted; /* among those of the day */
};

/* One of `random` in [0, 1) decides. */
static bool is_skipped(struct pfl_service *service, double probability)
{
    uint64_t r;

    if (!(probability > 0))
        return false;
    service->conf.random(service->conf.user, &r, sizeof(r));
    return (double)(r >> 11) * 0x1p-53 < probability;
}

static bool does_match(struct pfl_service *service, struct pfl_session *session,
                       const struct pfl_plan_trigger *trigger, const struct pfl_producer *producer)
{
    const struct pfl_judging_match match = {
        .all = &service->judging,
        .session_id = session->id,
        .session_who = session->who,
        .producer = producer,
    };
    uint64_t credit = pfl_judging_begin(&session->judging, &match, pfl_service_now_ms(service));
    bool is_match =
        pfl_pattern_match_within(trigger->pattern,
                                 pfl_span_of(producer->name, strlen(producer->name)), &credit) == 0;

    pfl_judging_end(&session->judging, &match, credit);
    return is_match;
}

static bool is_accepted(struct pfl_service *service, struct pfl_session *session,
                        const struct pfl_plan_trigger *trigger, const struct activation *activation)
{
    if (trigger->pattern != NULL && !does_match(service, session, trigger, activation->producer))
        return false;
    if (is_skipped(service, trigger->skip_probability))
        return false;
    return trigger->max_per_24_h == 0 ||
           (activation->is_counted && activation->count_in_day < trigger->max_per_24_h);
}

static void stop(struct pfl_service *service, struct pfl_session *session)
{
    const struct pfl_session_flush_conf conf = {
        .timeout_ms = session->plan->flush_timeout_ms,
        .flags = PFL_FLUSH_TRACE_STOP | PFL_FLUSH_INITIATOR_SERVICE,
        .then = PFL_FLUSH_THEN_DISABLE,
    };

    pfl_session_flush(service, session, &conf);
}

static void tell_clone(struct pfl_session *session, const struct pfl_trigger *trigger)
{
    struct pfl_consumer *consumer = session->consumer;
    const struct pfl_observe_clone_hit hit = {
        .session_id = session->id,
        .trigger_name = trigger->name,
        .producer_name = trigger->producer_name,
        .producer_uid = trigger->producer_uid,
        .boottime_ns = trigger->boottime_ns,
        .delay_ms = trigger->stop_delay_ms,
    };

    pfl_observe_clone_hit(&consumer->observe, &hit);
    if (pfl_observe_has_events(&consumer->observe))
        consumer->ops->on_observed(consumer->port);
}

/* What the delay was for. */
static void act(struct pfl_service *service, struct pfl_session *session,
                const struct pfl_trigger *trigger)
{
    if (session->plan->trigger_mode == PFL_TRIGGER_CLONE)
        tell_clone(session, trigger);
    else if (session->state == PFL_SESSION_STARTED)
        stop(service, session);
}

static void note(struct pfl_service *service, struct pfl_session *session,
                 struct pfl_trigger *trigger)
{
    int rc;

    /* The start takes one, which has to be the first. */
    if (session->state != PFL_SESSION_CONFIGURED)
        pfl_session_snapshot_clocks(service, session);
    rc = pfl_trigger_list_add(&session->triggers, trigger);
    if (rc == 0) {
        pfl_service_look_at(service, trigger->due_ms);
        return;
    }
    pfl_log_warn("trigger-not-noted", "session=%llu reason=\"%s\"", (unsigned long long)session->id,
                 pfl_err_str(rc));
    if (trigger->due_ms != PFL_SESSION_NEVER)
        act(service, session, trigger);
}

static void hit(struct pfl_service *service, struct pfl_session *session,
                const struct pfl_plan_trigger *config, const struct activation *activation)
{
    uint32_t mode = session->plan->trigger_mode;
    bool is_first = session->triggers.received_len == 0;
    bool has_effect = mode == PFL_TRIGGER_CLONE || (mode == PFL_TRIGGER_STOP && is_first) ||
                      (mode == PFL_TRIGGER_START && session->state == PFL_SESSION_CONFIGURED);
    struct pfl_trigger trigger = {
        .boottime_ns = pfl_service_boottime_ns(service),
        .name = config->name,
        .producer_name =
            pfl_span_of(activation->producer->name, strlen(activation->producer->name)),
        .producer_uid = activation->producer->uid,
        .who = activation->producer->who,
        .stop_delay_ms = config->stop_delay_ms,
        .due_ms = PFL_SESSION_NEVER,
    };

    if (has_effect && mode != PFL_TRIGGER_START)
        trigger.due_ms = pfl_service_now_ms(service) + config->stop_delay_ms;
    if (has_effect)
        pfl_log_info("trigger-activated", "session=%llu trigger=%s mode=%u producer=%s",
                     (unsigned long long)session->id,
                     pfl_log_quote((const char *)config->name.data, config->name.len), mode,
                     pfl_log_quote_str(activation->producer->name));
    note(service, session, &trigger);
    if (mode != PFL_TRIGGER_START || !has_effect)
        return;
    session->triggers.timeout_ms = PFL_SESSION_NEVER;
    pfl_session_plan_set_duration(session->plan, config->stop_delay_ms);
    (void)pfl_session_start(service, session);
}

static bool may_raise(struct pfl_service *service, const struct pfl_producer *producer,
                      uint64_t now_ns)
{
    static struct pfl_log_limit limit;

    if (pfl_trigger_history_may_raise(&service->triggers, now_ns, producer->who))
        return true;
    if (pfl_log_limit_take(&limit, "triggers-ignored", now_ns / 1000000))
        pfl_log_warn("triggers-ignored", "uid=%u; a user may raise %u at once, and %u a second",
                     producer->uid, PFL_TRIGGER_AT_ONCE, PFL_TRIGGER_PER_S);
    return false;
}

void pfl_trigger_activate(struct pfl_service *service, const struct pfl_producer *producer,
                          struct pfl_span name)
{
    const struct pfl_trigger_event event = {
        .boottime_ns = pfl_service_boottime_ns(service),
        .name_hash = pfl_hash_keyed(&service->hash_key, name),
        .who = producer->who,
    };
    struct activation activation = {.producer = producer, .name = name};
    const struct pfl_plan_trigger *config;
    struct pfl_list *it;
    struct pfl_list *tmp;
    bool is_matched = false;

    if (!may_raise(service, producer, event.boottime_ns))
        return;
    activation.count_in_day =
        pfl_trigger_history_count(&service->triggers, event.boottime_ns, event.name_hash);
    activation.is_counted = pfl_trigger_history_add(&service->triggers, &event);
    PFL_LIST_EACH_SAFE (it, tmp, &service->sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->state == PFL_SESSION_CLONED)
            continue;
        config = pfl_session_plan_find_trigger(session->plan, name);
        if (config == NULL || !is_accepted(service, session, config, &activation))
            continue;
        is_matched = true;
        hit(service, session, config, &activation);
    }
    if (!is_matched && activation.is_counted)
        pfl_trigger_history_take_back(&service->triggers);
}

void pfl_trigger_run(struct pfl_service *service, struct pfl_session *session)
{
    uint64_t now_ms = pfl_service_now_ms(service);
    struct pfl_trigger_list *triggers = &session->triggers;
    bool is_stop = session->plan->trigger_mode == PFL_TRIGGER_STOP;

    if (session->plan->trigger_mode != 0 && triggers->timeout_ms <= now_ms) {
        triggers->timeout_ms = PFL_SESSION_NEVER;
        if (session->state == PFL_SESSION_CONFIGURED)
            pfl_session_disable(service, session);
    }
    for (size_t i = 0; i < triggers->received_len; i++) {
        if (triggers->received[i].due_ms > now_ms)
            continue;
        triggers->received[i].due_ms = PFL_SESSION_NEVER;
        act(service, session, &triggers->received[i]);
        if (is_stop) /* a detached session may be gone */
            return;
    }
}
