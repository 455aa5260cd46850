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

struct pfl_session_producers pfl_session_begin_producers(struct pfl_service *service,
                                                         const struct pfl_session *session)
{
    return (struct pfl_session_producers){
        .session = session, .at = session->instances.next, .walk = ++service->producer_walks};
}

struct pfl_producer *pfl_session_next_producer(struct pfl_session_producers *self)
{
    while (self->at != &self->session->instances) {
        struct pfl_producer *producer =
            PFL_CONTAINER_OF(self->at, struct pfl_instance, of_session)->producer;

        self->at = self->at->next;
        if (producer == NULL || producer->walk == self->walk)
            continue;
        producer->walk = self->walk;
        return producer;
    }
    return NULL;
}

void pfl_session_clear_state(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_session_producers walk = pfl_session_begin_producers(service, session);
    struct pfl_producer *producer;

    while ((producer = pfl_session_next_producer(&walk)) != NULL)
        (void)pfl_command_flush(producer, session, NULL);
}
