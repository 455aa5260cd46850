/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session's instances are asked for, and what they have reached together. Failures: those of
 * command.h.
 */
#include "service/session/session_instances.h"

#include "service/core/command.h"
#include "service/session/session_record.h"

void pfl_session_start_instance(struct pfl_session *session, struct pfl_instance *instance)
{
    bool waits = (instance->flags & PFL_DATA_SOURCE_NOTIFIES_START) != 0;

    pfl_session_move_instance(session, instance,
                              waits ? PFL_INSTANCE_STARTING : PFL_INSTANCE_STARTED);
    pfl_command_start_source(instance);
}

void pfl_session_check_all_started(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_consumer *consumer = session->consumer;

    if (session->is_all_started_sent || pfl_session_is_detached(session) ||
        session->state != PFL_SESSION_STARTED ||
        !pfl_session_are_all(session, PFL_INSTANCE_STARTED))
        return;
    session->is_all_started_sent = true;
    session->timers.slow_ms = PFL_SESSION_NEVER;
    pfl_session_snapshot_clocks(service, session);
    pfl_session_record(service, session, PFL_EVENT_ALL_STARTED, (struct pfl_span){0});
    pfl_observe_all_started(&consumer->observe);
    if (pfl_observe_has_events(&consumer->observe))
        consumer->ops->on_observed(consumer->port);
}

void pfl_session_clear_state(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->producers) {
        (void)pfl_command_flush(PFL_CONTAINER_OF(it, struct pfl_producer, node), session, NULL);
    }
}
