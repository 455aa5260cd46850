/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a session, from enable to end.
 *
 * enable: parse the config, check it, make the session with its buffers, set up data sources,
 * start. start: first clock snapshot, tracing_started, timers, start commands. disable: stop
 * commands; wait for data sources that acknowledge, up to the stop timeout; then finish: DISABLED,
 * scrape in turns of the loop (is_finishing), tracing_disabled, on_disabled. end: the same without
 * waiting, then free; it scrapes only for a file, in which case the session continues to exist,
 * invisible.
 *
 * What flushes, scraping and the session's file tell comes by the session's ops, so that they call
 * nothing here.
 *
 * A session that could not be made leaves nothing behind but its id. Everything else cannot fail:
 * without memory events are missing from the trace.
 */
#include "service/session/session_run.h"

#include <stdio.h>

#include "base/log.h"
#include "service/core/command.h"
#include "service/session/admission.h"
#include "service/session/boost.h"
#include "service/session/clone.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_file.h"
#include "service/session/session_flush.h"
#include "service/session/session_instances.h"
#include "service/session/session_parts.h"
#include "service/session/session_record.h"
#include "service/session/session_setup.h"
#include "service/session/session_timers.h"
#include "service/session/trigger_state.h"

static const struct pfl_session_ops session_ops;

static uint64_t sum_buffers(const struct pfl_session_plan *plan)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < plan->buffers_len; i++)
        sum += (uint64_t)plan->buffers[i].size_kb * 1024;
    return sum;
}

static int refuse_memory(const struct pfl_service *service, const struct pfl_consumer *consumer,
                         const struct pfl_session_plan *plan, char *why)
{
    const struct pfl_shares *shares = &service->shares.buffer_bytes;

    (void)snprintf(
        why, PFL_PLAN_WHY_BYTES,
        "buffers: %llu MiB; user %u has %llu MiB of the %llu MiB for all buffers of this "
        "host, and may have as much as is then left for others (all have %llu MiB); ask "
        "for smaller ones, or free sessions",
        (unsigned long long)(sum_buffers(plan) >> 20), consumer->uid,
        (unsigned long long)(pfl_shares_get(shares, consumer->who) >> 20),
        (unsigned long long)(shares->max >> 20), (unsigned long long)(shares->used >> 20));
    return PFL_EINVAL;
}

/* Takes the plan as soon as the session has it, even if it fails then. */
static int make_session(struct pfl_service *service, struct pfl_consumer *consumer,
                        struct pfl_session_plan **taken_plan, char *why)
{
    const struct pfl_session_plan *plan = *taken_plan;
    uint64_t held_bytes = 0;
    struct pfl_session *session;
    int rc;

    if (!pfl_shares_set(&service->shares.buffer_bytes, consumer->who, &held_bytes,
                        sum_buffers(plan)))
        return refuse_memory(service, consumer, plan, why);
    rc = pfl_session_make_parts(service, consumer->who, *taken_plan, &session);
    if (rc != 0) {
        pfl_shares_give(&service->shares.buffer_bytes, consumer->who, held_bytes);
        (void)snprintf(why, PFL_PLAN_WHY_BYTES,
                       "buffers: no memory for them on this host; ask for smaller ones");
        return rc;
    }
    *taken_plan = NULL;
    session->id = service->last_session_id;
    session->uid = consumer->uid;
    session->who = consumer->who;
    session->subject = consumer->subject;
    session->service = service;
    session->ops = &session_ops;
    session->held_bytes = held_bytes;
    session->consumer = consumer;
    session->instance_shares.owner = service->conf.facts->uid;
    rc = pfl_service_add_buffers(service, session);
    if (rc != 0) {
        (void)snprintf(why, PFL_PLAN_WHY_BYTES,
                       "buffers: this user's share of the %u buffers of all sessions is used up; "
                       "free other sessions or clones first",
                       PFL_SERVICE_MAX_BUFFERS);
        pfl_shares_give(&service->shares.buffer_bytes, consumer->who, held_bytes);
        pfl_session_free(session);
        return rc;
    }
    session->uuid = pfl_session_make_uuid(service);
    if (plan->uuid_msb != 0 || plan->uuid_lsb != 0)
        session->uuid = (struct pfl_trace_uuid){.msb = plan->uuid_msb, .lsb = plan->uuid_lsb};
    pfl_concurrent_begin(service, session);
    pfl_list_append(&service->sessions, &session->node);
    service->sessions_len++;
    session->is_boosted = plan->has_boost;
    consumer->session = session;
    return 0;
}

static int refuse_config(const struct pfl_service *service, const struct pfl_consumer *consumer,
                         char *why)
{
    const struct pfl_shares *shares = &service->shares.peer_bytes;

    (void)snprintf(
        why, PFL_PLAN_WHY_BYTES,
        "the config, with its compiled rules and patterns, is too large: user %u has %llu MiB of "
        "the %llu MiB for what the service keeps for its clients, and may have as much as is then "
        "left for others (all have %llu MiB); use fewer rules and patterns, or free sessions",
        consumer->uid, (unsigned long long)(pfl_shares_get(shares, consumer->who) >> 20),
        (unsigned long long)(shares->max >> 20), (unsigned long long)(shares->used >> 20));
    return PFL_EINVAL;
}

/* In force from here on: a session that is then refused lowers it again. */
static int check_boost(struct pfl_service *service, const struct pfl_session_plan *plan, char *why)
{
    if (pfl_boost_apply(service, &plan->boost) == 0)
        return 0;
    (void)snprintf(why, PFL_PLAN_WHY_BYTES,
                   "priority_boost: this host does not allow perfleetd that priority; give it "
                   "CAP_SYS_NICE, or remove the boost");
    return PFL_EINVAL;
}

static int check_plan(struct pfl_service *service, struct pfl_consumer *consumer,
                      struct pfl_session_plan *plan, char *why)
{
    int rc;

    if (consumer->session != NULL) {
        (void)snprintf(why, PFL_PLAN_WHY_BYTES,
                       "this connection has a session already; free it first or open another one");
        return PFL_EINVAL;
    }
    rc = pfl_session_plan_check_early(plan, why);
    if (rc == 0)
        rc = pfl_admission_check(service, consumer, plan, why);
    if (rc == 0)
        rc = pfl_session_plan_check_late(plan, why);
    if (rc == 0 && pfl_session_plan_charge(plan, &service->shares.peer_bytes, consumer->who) != 0)
        rc = refuse_config(service, consumer, why);
    if (rc == 0 && plan->has_boost)
        rc = check_boost(service, plan, why);
    return rc;
}

/* Rule 22: a descriptor or a path, and the file itself. */
static int check_file(const struct pfl_service *service, const struct pfl_consumer *consumer,
                      const struct pfl_session_plan *plan,
                      const struct pfl_session_enable_conf *conf, char *why)
{
    bool has_fd = conf->fd != NULL && *conf->fd >= 0;
    const char *said = NULL;

    if (!plan->file.is_wanted)
        return 0;
    if (!has_fd && plan->file.path.len == 0)
        said = "write_into_file: pass a descriptor with EnableTracing, or set output_path";
    else if (service->conf.disk == NULL)
        said = "write_into_file: this service cannot write files; let the client write it";
    else if (!pfl_session_may_close_later(service, consumer->who))
        said = "write_into_file: too many earlier traces are still being written; try again later";
    if (said == NULL)
        return 0;
    (void)snprintf(why, PFL_PLAN_WHY_BYTES, "%s", said);
    return PFL_EINVAL;
}

/* The session is made; without its file it goes again. */
static int open_file(struct pfl_service *service, struct pfl_session *session,
                     const struct pfl_session_enable_conf *conf, char *why)
{
    bool has_path = session->plan->file.path.len != 0;
    int rc;

    if (!session->plan->file.is_wanted)
        return 0;
    rc = pfl_session_file_open(service, session, has_path ? -1 : *conf->fd, why);
    if (rc != 0)
        pfl_session_remove(service, session);
    else if (!has_path)
        *conf->fd = -1;
    return rc;
}

int pfl_session_enable(struct pfl_service *service, struct pfl_consumer *consumer,
                       const struct pfl_session_enable_conf *conf, char ret_why[PFL_PLAN_WHY_BYTES])
{
    struct pfl_session_plan *plan;
    int rc;

    ret_why[0] = '\0';
    rc = pfl_session_plan_new(conf->config, &plan);
    if (rc == PFL_ELIMIT) {
        (void)snprintf(ret_why, PFL_PLAN_WHY_BYTES, "data_sources: more than %u; use fewer",
                       PFL_PLAN_MAX_SOURCES);
        return PFL_EINVAL;
    }
    if (rc != 0)
        return rc;
    rc = check_plan(service, consumer, plan, ret_why);
    if (rc == 0) {
        service->last_session_id++;
        rc = check_file(service, consumer, plan, conf, ret_why);
    }
    if (rc == 0)
        rc = make_session(service, consumer, &plan, ret_why);
    if (rc != 0) {
        pfl_session_plan_free(plan);
        pfl_boost_lower(service);
        return rc;
    }
    rc = open_file(service, consumer->session, conf, ret_why);
    if (rc != 0)
        return rc;
    pfl_admission_apply(service, consumer->session, pfl_session_abort);
    pfl_session_setup_all(service, consumer->session);
    pfl_trigger_wait(service, consumer->session);
    pfl_concurrent_tell(service, consumer->session);
    if (!consumer->session->plan->deferred_start && !pfl_trigger_starts(consumer->session))
        (void)pfl_session_start(service, consumer->session);
    return 0;
}

bool pfl_session_start(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_list *it;

    if (session->state != PFL_SESSION_CONFIGURED)
        return false;
    pfl_concurrent_move(service, session, PFL_SESSION_STARTED);
    session->start_realtime_ns = service->conf.now_ns(service->conf.user, PFL_CLOCK_REALTIME);
    if (!session->plan->builtin.no_clock_snapshots) {
        session->events.first = pfl_session_read_clocks(service);
        session->events.has_first = true;
    }
    pfl_session_record(service, session, PFL_EVENT_TRACING_STARTED, (struct pfl_span){0});
    pfl_session_timers_start(service, session);
    pfl_session_file_start(session->file);
    PFL_LIST_EACH (it, &session->instances) {
        struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);

        if (instance->state == PFL_INSTANCE_CONFIGURED)
            pfl_session_start_instance(session, instance);
    }
    pfl_session_check_all_started(service, session);
    return true;
}

static void stop_instance(struct pfl_session *session, struct pfl_instance *instance,
                          bool immediately)
{
    bool waits = !immediately && (instance->flags & PFL_DATA_SOURCE_NOTIFIES_STOP) != 0;

    if (instance->state != PFL_INSTANCE_STOPPING && instance->producer != NULL)
        pfl_command_stop_source(instance);
    pfl_session_move_instance(session, instance,
                              waits ? PFL_INSTANCE_STOPPING : PFL_INSTANCE_STOPPED);
}

static void end_tracing(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &session->instances) {
        struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);

        if (instance->state != PFL_INSTANCE_STOPPED)
            pfl_session_move_instance(session, instance, PFL_INSTANCE_STOPPED);
    }
    pfl_concurrent_move(service, session, PFL_SESSION_DISABLED);
    pfl_session_timers_stop(session);
}

static void finish(struct pfl_service *service, struct pfl_session *session)
{
    end_tracing(service, session);
    session->is_finishing = true;
    pfl_scrape_turns_begin(service, session);
}

static void stop_all(struct pfl_session *session, bool immediately)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &session->instances) {
        struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);

        if (instance->state != PFL_INSTANCE_STOPPING && instance->state != PFL_INSTANCE_STOPPED)
            stop_instance(session, instance, immediately);
    }
}

void pfl_session_disable(struct pfl_service *service, struct pfl_session *session)
{
    if (session->state != PFL_SESSION_CONFIGURED && session->state != PFL_SESSION_STARTED)
        return;
    stop_all(session, session->state == PFL_SESSION_CONFIGURED);
    if (pfl_session_are_all(session, PFL_INSTANCE_STOPPED)) {
        finish(service, session);
        return;
    }
    pfl_concurrent_move(service, session, PFL_SESSION_STOP_WAIT);
    session->timers.duration_ms = PFL_SESSION_NEVER;
    session->timers.stop_ms = pfl_service_now_ms(service) + session->plan->stop_timeout_ms;
    pfl_service_look_at(service, session->timers.stop_ms);
}

/* Its file is still being written: the session continues to exist, invisible, until that is done.
 * Its producers' memory is scraped first. */
static void orphan(struct pfl_service *service, struct pfl_session *session, const char *why)
{
    struct pfl_consumer *consumer = session->consumer;

    if (session->file->is_copy)
        pfl_clone_give_up(session);
    else
        consumer->ops->on_disabled(consumer->port, why);
    pfl_session_take_out(service, session);
    session->consumer = &service->nobody;
    session->file->is_orphan = true;
    pfl_list_append(&service->closing, &session->node);
    service->closing_len++;
    while (!pfl_list_is_empty(&session->instances))
        pfl_session_remove_instance(
            session, PFL_CONTAINER_OF(session->instances.next, struct pfl_instance, of_session));
    if (session->is_finishing)
        pfl_scrape_turns_begin(service, session);
    else
        pfl_service_remove_buffers(service, session);
}

void pfl_session_end(struct pfl_service *service, struct pfl_session *session)
{
    pfl_session_abort(service, session, NULL);
}

void pfl_session_abort(struct pfl_service *service, struct pfl_session *session, const char *why)
{
    pfl_session_cancel_flushes(service, session);
    pfl_clone_cancel(service, session);
    if (session->state != PFL_SESSION_DISABLED && session->state != PFL_SESSION_CLONED) {
        stop_all(session, true);
        end_tracing(service, session);
        session->is_finishing = true;
    }
    if (session->is_copied) {
        pfl_clone_give_up(session);
        pfl_session_remove(service, session);
    } else if (pfl_session_file_is_open(session->file)) {
        orphan(service, session, why);
    } else {
        if (session->is_finishing)
            session->consumer->ops->on_disabled(session->consumer->port, why);
        pfl_session_remove(service, session);
    }
}

/* ---- callbacks of its parts ---- */

static void on_last_scraped(struct pfl_service *service, struct pfl_session *session)
{
    session->is_finishing = false;
    pfl_session_snapshot_clocks(service, session);
    pfl_session_record(service, session, PFL_EVENT_TRACING_DISABLED, (struct pfl_span){0});
    if (session->file != NULL && session->file->is_orphan)
        pfl_service_remove_buffers(service, session);
    if (pfl_session_file_is_open(session->file))
        pfl_session_file_finish(session->file);
    else
        session->consumer->ops->on_disabled(session->consumer->port, NULL);
}

static void on_scraped(struct pfl_service *service, struct pfl_session *session)
{
    const uint64_t id = session->id;

    session = pfl_session_end_flushes(service, session);
    if (session != NULL && session->is_finishing && session->scrape.at == NULL) {
        on_last_scraped(service, session);
        session = pfl_service_find_session(service, id);
    }
    if (session != NULL && session->scrape.at == NULL &&
        pfl_flush_book_has_answered(&service->flushes, id))
        pfl_scrape_turns_begin(service, session);
}

/* The recorded data is only useful to a consumer. */
static void stop_after_flush(struct pfl_service *service, struct pfl_session *session)
{
    if (pfl_session_is_detached(session))
        pfl_session_end(service, session);
    else
        pfl_session_disable(service, session);
}

static void on_flushed(struct pfl_service *service, struct pfl_session *session,
                       const struct pfl_flush *flush, bool is_ok)
{
    if (flush->then == PFL_FLUSH_THEN_DISABLE)
        stop_after_flush(service, session);
    else if (flush->then == PFL_FLUSH_THEN_CLONE)
        pfl_clone_on_flushed(service, session, flush->request_id, is_ok);
    else if (flush->then == PFL_FLUSH_THEN_WRITE)
        pfl_session_file_write(session->file);
    else if (flush->then == PFL_FLUSH_THEN_CUT)
        pfl_session_file_cut(session->file);
}

static void on_file_closed(struct pfl_service *service, struct pfl_session *session)
{
    if (session->file->is_orphan) {
        pfl_list_remove(&session->node);
        service->closing_len--;
        if (session->is_finishing)
            pfl_service_remove_buffers(service, session);
        pfl_session_drop(service, session);
    } else if (session->file->is_copy) {
        pfl_clone_on_file_written(service, session);
    } else if (session->is_finishing) {
        pfl_clone_on_file_idle(service, session);
    } else if (session->state == PFL_SESSION_DISABLED) {
        pfl_clone_on_file_idle(service, session); /* those that waited for it */
        session->consumer->ops->on_disabled(session->consumer->port, NULL);
    } else {
        pfl_session_disable(service, session);
    }
}

static const struct pfl_session_ops session_ops = {
    .on_scraped = on_scraped,
    .on_flushed = on_flushed,
    .on_file_idle = pfl_clone_on_file_idle,
    .on_file_closed = on_file_closed,
};

/* ---- stopping ---- */

void pfl_session_finish_stop(struct pfl_service *service, struct pfl_session *session)
{
    if (session->state == PFL_SESSION_STOP_WAIT)
        finish(service, session);
}

static void check_all_stopped(struct pfl_service *service, struct pfl_session *session)
{
    if (session->state == PFL_SESSION_STOP_WAIT &&
        pfl_session_are_all(session, PFL_INSTANCE_STOPPED))
        finish(service, session);
}

void pfl_session_on_started(struct pfl_service *service, struct pfl_producer *producer,
                            uint64_t instance_id_untrusted)
{
    struct pfl_instance *instance =
        pfl_service_find_instance(service, producer, instance_id_untrusted);

    if (instance == NULL || instance->state != PFL_INSTANCE_STARTING ||
        instance->session->state != PFL_SESSION_STARTED)
        return;
    pfl_session_move_instance(instance->session, instance, PFL_INSTANCE_STARTED);
    pfl_session_check_all_started(service, instance->session);
}

void pfl_session_on_stopped(struct pfl_service *service, struct pfl_producer *producer,
                            uint64_t instance_id_untrusted)
{
    struct pfl_instance *instance =
        pfl_service_find_instance(service, producer, instance_id_untrusted);

    if (instance == NULL || instance->state != PFL_INSTANCE_STOPPING)
        return;
    pfl_session_move_instance(instance->session, instance, PFL_INSTANCE_STOPPED);
    check_all_stopped(service, instance->session);
}

void pfl_session_drop_instance(struct pfl_service *service, struct pfl_instance *instance)
{
    struct pfl_session *session = instance->session;
    const uint64_t id = session->id;

    if (instance->state != PFL_INSTANCE_STOPPED)
        stop_instance(session, instance, true);
    pfl_session_remove_instance(session, instance);
    check_all_stopped(service, session); /* which may free it */
    session = pfl_service_find_session(service, id);
    if (session != NULL) /* it may have been the one waited for */
        pfl_session_check_all_started(service, session);
}
