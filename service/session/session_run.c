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
 * A session that could not be made leaves nothing behind but its id. Everything else cannot fail:
 * without memory events are missing from the trace.
 */
#include "service/session/session_run.h"

#include <stdio.h>

#include "base/log.h"
#include "perfetto/service_packets.fields.h"
#include "service/core/command.h"
#include "service/session/admission.h"
#include "service/session/boost.h"
#include "service/session/clone.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_file.h"
#include "service/session/session_flush.h"
#include "service/session/session_setup.h"
#include "service/session/session_timers.h"
#include "service/session/trigger.h"

static const enum pfl_clock_id snapshot_clocks[PFL_SESSION_CLOCKS] = {
    PFL_CLOCK_BOOTTIME, PFL_CLOCK_REALTIME_COARSE, PFL_CLOCK_MONOTONIC_COARSE,
    PFL_CLOCK_REALTIME, PFL_CLOCK_MONOTONIC,       PFL_CLOCK_MONOTONIC_RAW,
    PFL_CLOCK_TSC,
};

struct pfl_clock_snapshot pfl_session_read_clocks(const struct pfl_service *service)
{
    struct pfl_clock_snapshot snapshot = {0};

    for (size_t i = 0; i < PFL_SESSION_CLOCKS; i++) {
        uint64_t value = service->conf.now_ns(service->conf.user, snapshot_clocks[i]);

        if (snapshot_clocks[i] == PFL_CLOCK_TSC && value == 0)
            continue;
        snapshot.clocks[snapshot.clocks_len].clock_id = (uint32_t)snapshot_clocks[i];
        snapshot.clocks[snapshot.clocks_len++].value = value;
    }
    return snapshot;
}

void pfl_session_snapshot_clocks(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_clock_snapshot snapshot;

    if (session->plan->builtin.no_clock_snapshots)
        return;
    snapshot = pfl_session_read_clocks(service);
    pfl_session_events_snapshot(&session->events, &snapshot);
}

void pfl_session_tell_again(struct pfl_service *service, struct pfl_session *session)
{
    session->pending =
        (struct pfl_session_pending){.is_first_pass = true, .sync_marker = true, .stats = true};
    session->infos_told.len = 0;
    session->clocks_told.len = 0;
    session->triggers.told_len = 0;
    if (session->plan->builtin.no_clock_snapshots)
        return;
    /* In order: one that waits in the ring is older, and serves as well. */
    if (session->events.ring_len != 0 || session->events.has_first) {
        pfl_session_snapshot_clocks(service, session);
        return;
    }
    session->events.first = pfl_session_read_clocks(service);
    session->events.has_first = true;
}

void pfl_session_record(struct pfl_service *service, struct pfl_session *session,
                        enum pfl_session_event_kind kind, struct pfl_span payload)
{
    pfl_session_events_record(&session->events, pfl_service_boottime_ns(service), kind, payload);
}

void pfl_session_encode_slow(struct pfl_message *m, const struct pfl_session *session,
                             const struct pfl_instance *instance)
{
    size_t before = m->buf->len;
    size_t entry = pfl_message_begin(m, TRACING_SERVICE_EVENT__DATA_SOURCES__DATA_SOURCE);

    pfl_message_str(m, TRACING_SERVICE_EVENT__DATA_SOURCES__DATA_SOURCE__PRODUCER_NAME,
                    instance->producer_name);
    pfl_message_bytes(m, TRACING_SERVICE_EVENT__DATA_SOURCES__DATA_SOURCE__DATA_SOURCE_NAME,
                      pfl_session_source_of(session, instance)->name);
    pfl_message_end(m, entry);
    if (m->rc != PFL_ELIMIT)
        return;
    m->buf->len = before; /* one with a long name is left out, not all of them */
    m->rc = 0;
}

int pfl_session_make_parts(struct pfl_service *service, uint32_t who, struct pfl_session_plan *plan,
                           struct pfl_session **ret_session)
{
    const struct pfl_pipeline_job_conf conf = {.submit = service->conf.submit,
                                               .now_ns = service->conf.now_ns,
                                               .user = service->conf.user,
                                               .who = who};
    struct pfl_pipeline_job *output;
    int rc = pfl_pipeline_job_new(plan, &conf, &output);

    if (rc != 0)
        return rc;
    rc = pfl_session_new(plan, &service->hash_key, ret_session);
    if (rc != 0)
        pfl_pipeline_job_free(output);
    else
        (*ret_session)->output = output;
    return rc;
}

struct pfl_trace_uuid pfl_session_make_uuid(struct pfl_service *service)
{
    struct pfl_trace_uuid uuid;

    service->conf.random(service->conf.user, &uuid, sizeof(uuid));
    uuid.msb = (uuid.msb & ~0xf000ull) | 0x4000ull; /* RFC 4122, version 4 */
    uuid.lsb = (uuid.lsb & ~(3ull << 62)) | (2ull << 62);
    return uuid;
}

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
    session->service = service;
    session->held_bytes = held_bytes;
    session->consumer = consumer;
    session->instance_shares.owner = service->conf.facts->uid;
    rc = pfl_service_add_buffers(service, session);
    if (rc != 0) {
        (void)snprintf(why, PFL_PLAN_WHY_BYTES,
                       "buffers: all %u buffer ids are in use; free other sessions first",
                       PFL_SERVICE_BUFFER_IDS - 1);
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
    if (rc == 0 && plan->has_boost)
        rc = check_boost(service, plan, why);
    return rc;
}

bool pfl_session_may_close_later(const struct pfl_service *service, uint32_t who)
{
    struct pfl_list *it;
    unsigned of_who = 0;

    PFL_LIST_EACH (it, &service->closing) {
        of_who += PFL_CONTAINER_OF(it, struct pfl_session, node)->who == who;
    }
    return service->closing_len < service->conf.sessions_max &&
           of_who < service->conf.sessions_per_uid_max;
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
    pfl_admission_apply(service, consumer->session);
    pfl_session_setup_all(service, consumer->session);
    pfl_trigger_wait(service, consumer->session);
    pfl_concurrent_tell(service, consumer->session);
    if (!consumer->session->plan->deferred_start && !pfl_trigger_starts(consumer->session))
        (void)pfl_session_start(service, consumer->session);
    return 0;
}

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

    if (session->is_all_started_told || pfl_session_is_detached(session) ||
        session->state != PFL_SESSION_STARTED ||
        !pfl_session_are_all(session, PFL_INSTANCE_STARTED))
        return;
    session->is_all_started_told = true;
    session->timers.slow_ms = PFL_SESSION_NEVER;
    pfl_session_snapshot_clocks(service, session);
    pfl_session_record(service, session, PFL_EVENT_ALL_STARTED, (struct pfl_span){0});
    pfl_observe_all_started(&consumer->observe);
    if (pfl_observe_has_events(&consumer->observe))
        consumer->ops->on_observed(consumer->port);
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

void pfl_session_on_last_scraped(struct pfl_service *service, struct pfl_session *session)
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

static void free_session(struct pfl_service *service, struct pfl_session *session)
{
    pfl_shares_give(&service->shares.buffer_bytes, session->who, session->held_bytes);
    pfl_session_file_free(session->file);
    session->file = NULL;
    pfl_session_free(session);
}

void pfl_session_on_file_closed(struct pfl_service *service, struct pfl_session *session)
{
    if (session->file->is_orphan) {
        pfl_list_remove(&session->node);
        service->closing_len--;
        if (session->is_finishing)
            pfl_service_remove_buffers(service, session);
        free_session(service, session);
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
    pfl_session_timers_look_at(service, session->timers.stop_ms);
}

/* Out of the service, with nothing left that refers to it from there but its buffers. */
static void take_out(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_consumer *consumer = session->consumer;

    consumer->ops->on_session_gone(consumer->port);
    consumer->session = NULL;
    pfl_list_remove(&session->node);
    service->sessions_len--;
    pfl_boost_lower(service);
}

void pfl_session_remove(struct pfl_service *service, struct pfl_session *session)
{
    take_out(service, session);
    pfl_service_remove_buffers(service, session);
    free_session(service, session);
}

/* Its file is still written: it lives on, unseen, until that is done. What its producers have for
 * it is scraped first. */
static void orphan(struct pfl_service *service, struct pfl_session *session, const char *why)
{
    struct pfl_consumer *consumer = session->consumer;

    if (session->file->is_copy)
        pfl_clone_give_up(session);
    else
        consumer->ops->on_disabled(consumer->port, why);
    take_out(service, session);
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
    struct pfl_instance *instance = pfl_producer_find_instance(producer, instance_id_untrusted);

    if (instance == NULL || instance->state != PFL_INSTANCE_STARTING ||
        instance->session->state != PFL_SESSION_STARTED)
        return;
    pfl_session_move_instance(instance->session, instance, PFL_INSTANCE_STARTED);
    pfl_session_check_all_started(service, instance->session);
}

void pfl_session_on_stopped(struct pfl_service *service, struct pfl_producer *producer,
                            uint64_t instance_id_untrusted)
{
    struct pfl_instance *instance = pfl_producer_find_instance(producer, instance_id_untrusted);

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
