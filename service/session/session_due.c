/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is due, of all sessions: their deadlines (session_timers.h), those of flushes and triggers,
 * turns of scraping and copying. Each is done once. No failures.
 */
#include "service/session/session_due.h"

#include "service/buffer/retired_rings.h"
#include "service/session/clone.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_file.h"
#include "service/session/session_flush.h"
#include "service/session/session_instances.h"
#include "service/session/session_record.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"
#include "service/session/trigger.h"
#include "service/session/trigger_state.h"

static void run_slow(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_list *it;
    unsigned named = 0;

    if (session->is_all_started_sent || pfl_session_is_detached(session))
        return;
    pfl_buf_init(&buf, 65536);
    PFL_LIST_EACH (it, &session->instances) {
        const struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);

        if (instance->state == PFL_INSTANCE_STARTING && named++ < PFL_SESSION_SLOW_MAX)
            pfl_session_encode_slow(&m, session, instance);
    }
    if (m.rc == 0)
        pfl_session_record(service, session, PFL_EVENT_SLOW_STARTING, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

static void run_duration(struct pfl_service *service, struct pfl_session *session)
{
    const struct pfl_session_flush_conf conf = {
        .timeout_ms = session->plan->flush_timeout_ms,
        .flags = PFL_FLUSH_TRACE_STOP | PFL_FLUSH_INITIATOR_SERVICE,
        .then = PFL_FLUSH_THEN_DISABLE,
    };

    if (pfl_trigger_is_stopping(session))
        return;
    pfl_session_flush(service, session, &conf);
}

/* A detached session may be gone afterwards. */
static void run_session(struct pfl_service *service, struct pfl_session *session)
{
    const struct pfl_session_flush_conf periodic = {
        .timeout_ms = session->plan->flush_timeout_ms,
        .flags = PFL_FLUSH_PERIODIC | PFL_FLUSH_INITIATOR_SERVICE,
        .then = PFL_FLUSH_THEN_NOTHING,
    };
    const uint64_t id = session->id;

    if (pfl_session_timers_take_snapshot(service, session))
        pfl_session_record_snapshot(service, session);
    if (pfl_session_timers_take_clear(service, session) && session->state == PFL_SESSION_STARTED)
        pfl_session_clear_state(service, session);
    if (pfl_session_timers_take_slow(service, session))
        run_slow(service, session);
    if (pfl_session_timers_take_flush(service, session))
        pfl_session_flush(service, session, &periodic);
    if (pfl_session_timers_take_stop(service, session)) {
        pfl_session_finish_stop(service, session);
        if (pfl_service_find_session(service, id) == NULL)
            return;
    }
    if (session->file != NULL && session->file->next_write_ms <= pfl_service_now_ms(service))
        pfl_session_file_run(session->file);
    if (pfl_session_timers_take_duration(service, session))
        run_duration(service, session);
    else
        pfl_trigger_run(service, session);
}

void pfl_session_due_run(struct pfl_service *service)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    pfl_session_expire_flushes(service);
    PFL_LIST_EACH_SAFE (it, tmp, &service->sessions) {
        run_session(service, PFL_CONTAINER_OF(it, struct pfl_session, node));
    }
    pfl_retired_rings_release();
    pfl_copies_check(&service->copies);
    pfl_scrape_turns_run(service);
    pfl_clone_run(service);
    service->due_ms = pfl_session_timers_find_ms(service);
}
