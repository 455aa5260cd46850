/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session waits for of its triggers, and the packets of those that came. No failures: what
 * does not fit is missing from the trace.
 */
#include "service/session/trigger_state.h"

#include "perfetto/service_packets.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "service/core/service_packets.h"

bool pfl_trigger_starts(const struct pfl_session *session)
{
    return session->plan->trigger_mode == PFL_TRIGGER_START;
}

bool pfl_trigger_is_awaited(const struct pfl_session *session)
{
    const struct pfl_session_plan *plan = session->plan;

    if (session->state == PFL_SESSION_CLONED)
        return false;
    if (plan->trigger_mode == PFL_TRIGGER_CLONE)
        return true;
    return plan->index.triggers_len != 0 && session->triggers.received_len == 0;
}

bool pfl_trigger_is_stopping(const struct pfl_session *session)
{
    return session->plan->trigger_mode == PFL_TRIGGER_STOP && session->triggers.received_len != 0;
}

void pfl_trigger_wait(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_session_plan *plan = session->plan;

    session->triggers.timeout_ms = PFL_SESSION_NEVER;
    if (plan->trigger_mode == PFL_TRIGGER_START)
        session->triggers.timeout_ms = pfl_service_now_ms(service) + plan->trigger_timeout_ms;
    else if (plan->trigger_mode == PFL_TRIGGER_STOP || plan->trigger_mode == PFL_TRIGGER_CLONE)
        pfl_session_plan_set_duration(plan, plan->trigger_timeout_ms);
    pfl_service_look_at(service, session->triggers.timeout_ms);
}

uint64_t pfl_trigger_next_ms(const struct pfl_session *session)
{
    uint64_t next =
        session->plan->trigger_mode != 0 ? session->triggers.timeout_ms : PFL_SESSION_NEVER;

    for (size_t i = 0; i < session->triggers.received_len; i++) {
        if (session->triggers.received[i].due_ms < next)
            next = session->triggers.received[i].due_ms;
    }
    return next;
}

void pfl_trigger_encode(struct pfl_message *m, const struct pfl_service_facts *facts,
                        const struct pfl_session *session)
{
    const struct pfl_trigger_list *triggers = &session->triggers;

    for (size_t i = triggers->sent_len; i < triggers->received_len; i++) {
        const struct pfl_trigger *trigger = &triggers->received[i];
        size_t packet = pfl_service_packet_begin(m, facts);
        size_t content;

        pfl_message_varint(m, TRACE_PACKET__TIMESTAMP, trigger->boottime_ns);
        content = pfl_message_begin(m, TRACE_PACKET__TRIGGER);
        pfl_message_bytes(m, TRIGGER__TRIGGER_NAME, trigger->name);
        pfl_message_bytes(m, TRIGGER__PRODUCER_NAME, trigger->producer_name);
        pfl_message_varint(m, TRIGGER__TRUSTED_PRODUCER_UID, trigger->producer_uid);
        pfl_message_varint(m, TRIGGER__STOP_DELAY_MS, trigger->stop_delay_ms);
        pfl_message_end(m, content);
        pfl_service_packet_end(m, packet);
    }
}

void pfl_trigger_set_sent(struct pfl_session *session)
{
    session->triggers.sent_len = session->triggers.received_len;
}
