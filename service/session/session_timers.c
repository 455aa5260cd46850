/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timers of all sessions and flushes, as deadlines.
 *
 * Periodic work (snapshot, flush, clear of incremental state) falls on multiples of its period on
 * CLOCK_MONOTONIC, so that sessions of one period work together. The duration and the snapshots
 * count on CLOCK_MONOTONIC, or on CLOCK_BOOTTIME when the config wants suspended time to count. The
 * shell asks for the next deadline and calls run then, or later; run does what is due, each once.
 * The service keeps one number, before which nothing is due: setting a deadline lowers it, and run
 * raises it again. It may be too low, which costs one call. So a turn of the loop need not look at
 * every session.
 */
#include "service/session/session_timers.h"

#include "service/buffer/retired_rings.h"
#include "service/core/command.h"
#include "service/session/clone.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_file.h"
#include "service/session/session_flush.h"
#include "service/session/session_run.h"
#include "service/session/trigger.h"

/* The shell's timer stops while the machine sleeps: the maximal delay after the end of the sleep
 * until a session whose duration continued is stopped. */
#define SLEEP_CHECK_MS 1000u

static uint64_t next_multiple(uint64_t now_ms, uint32_t period_ms)
{
    return now_ms + period_ms - now_ms % period_ms;
}

static uint64_t get_clock_ms(const struct pfl_service *service, bool counts_suspend)
{
    return counts_suspend ? pfl_service_boottime_ns(service) / 1000000
                          : pfl_service_now_ms(service);
}

static uint64_t get_next_snapshot_ms(const struct pfl_service *service,
                                     const struct pfl_session *session)
{
    const struct pfl_plan_builtin *builtin = &session->plan->builtin;

    return next_multiple(get_clock_ms(service, builtin->snapshot_counts_suspend),
                         builtin->snapshot_period_ms);
}

static void run_snapshot(struct pfl_service *service, struct pfl_session *session)
{
    session->pending.sync_marker = true;
    session->pending.stats = true;
    pfl_session_snapshot_clocks(service, session);
}

static uint64_t min_ms(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* When to look at a deadline of either clock. */
static uint64_t get_look_ms(const struct pfl_service *service, uint64_t due_ms, bool counts_suspend)
{
    uint64_t clock_ms = get_clock_ms(service, counts_suspend);
    uint64_t left = due_ms > clock_ms ? due_ms - clock_ms : 0;

    if (due_ms == PFL_SESSION_NEVER)
        return PFL_SESSION_NEVER;
    return pfl_service_now_ms(service) + (counts_suspend ? min_ms(left, SLEEP_CHECK_MS) : left);
}

static uint64_t get_next_ms(const struct pfl_service *service, const struct pfl_session *session)
{
    const struct pfl_session_plan *plan = session->plan;
    const struct pfl_session_timers *t = &session->timers;
    uint64_t next = min_ms(t->flush_ms, t->clear_ms);

    next = min_ms(next, min_ms(t->stop_ms, t->slow_ms));
    next = min_ms(next, pfl_trigger_next_ms(session));
    if (session->file != NULL)
        next = min_ms(next, session->file->next_write_ms);
    next =
        min_ms(next, get_look_ms(service, t->snapshot_ms, plan->builtin.snapshot_counts_suspend));
    return min_ms(next, get_look_ms(service, t->duration_ms, plan->duration_counts_suspend));
}

uint64_t pfl_session_timers_get_left_ms(const struct pfl_service *service,
                                        const struct pfl_session *session)
{
    uint64_t due_ms = session->timers.duration_ms;
    uint64_t now_ms = get_clock_ms(service, session->plan->duration_counts_suspend);

    if (due_ms == PFL_SESSION_NEVER)
        return PFL_SESSION_NEVER;
    return due_ms > now_ms ? due_ms - now_ms : 0;
}

void pfl_session_timers_start(struct pfl_service *service, struct pfl_session *session)
{
    const struct pfl_session_plan *plan = session->plan;
    struct pfl_session_timers *t = &session->timers;
    uint64_t now_ms = pfl_service_now_ms(service);

    run_snapshot(service, session);
    t->snapshot_ms = get_next_snapshot_ms(service, session);
    t->slow_ms = now_ms + PFL_SESSION_SLOW_START_MS;
    if (plan->flush_period_ms != 0)
        t->flush_ms = next_multiple(now_ms, plan->flush_period_ms);
    if (plan->clear_period_ms != 0)
        t->clear_ms = next_multiple(now_ms, plan->clear_period_ms);
    if (plan->duration_ms != 0)
        t->duration_ms =
            get_clock_ms(service, session->plan->duration_counts_suspend) + plan->duration_ms;
    pfl_session_timers_look_at(service, get_next_ms(service, session));
}

void pfl_session_timers_stop(struct pfl_session *session)
{
    session->timers =
        (struct pfl_session_timers){PFL_SESSION_NEVER, PFL_SESSION_NEVER, PFL_SESSION_NEVER,
                                    PFL_SESSION_NEVER, PFL_SESSION_NEVER, PFL_SESSION_NEVER};
}

void pfl_session_timers_look_at(struct pfl_service *service, uint64_t due_ms)
{
    service->due_ms = min_ms(service->due_ms, due_ms);
}

uint64_t pfl_session_timers_next_ms(const struct pfl_service *service)
{
    return pfl_retired_rings_get_bytes() != 0 ? 0 : service->due_ms;
}

uint64_t pfl_session_timers_find_ms(const struct pfl_service *service)
{
    uint64_t next = pfl_flush_book_next_deadline_ms(&service->flushes);
    struct pfl_list *it;

    if (service->is_copying || service->is_scraping)
        return 0;
    PFL_LIST_EACH (it, &service->sessions) {
        next = min_ms(next, get_next_ms(service, PFL_CONTAINER_OF(it, struct pfl_session, node)));
    }
    return next;
}

void pfl_session_clear_state(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->producers) {
        (void)pfl_command_flush(PFL_CONTAINER_OF(it, struct pfl_producer, node), session, NULL);
    }
}

static void run_slow(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_list *it;
    unsigned named = 0;

    session->timers.slow_ms = PFL_SESSION_NEVER;
    if (session->is_all_started_told || pfl_session_is_detached(session))
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

    session->timers.duration_ms = PFL_SESSION_NEVER;
    if (pfl_trigger_is_stopping(session))
        return;
    pfl_session_flush(service, session, &conf);
}

/* A detached session may be gone afterwards. */
static void run_session(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_session_timers *t = &session->timers;
    const struct pfl_session_plan *plan = session->plan;
    const uint64_t id = session->id;
    uint64_t now_ms = pfl_service_now_ms(service);

    if (t->snapshot_ms != PFL_SESSION_NEVER &&
        t->snapshot_ms <= get_clock_ms(service, plan->builtin.snapshot_counts_suspend)) {
        t->snapshot_ms = get_next_snapshot_ms(service, session);
        run_snapshot(service, session);
    }
    if (t->clear_ms <= now_ms) {
        t->clear_ms = next_multiple(now_ms, plan->clear_period_ms);
        if (session->state == PFL_SESSION_STARTED)
            pfl_session_clear_state(service, session);
    }
    if (t->slow_ms <= now_ms)
        run_slow(service, session);
    if (t->flush_ms <= now_ms) {
        const struct pfl_session_flush_conf conf = {
            .timeout_ms = plan->flush_timeout_ms,
            .flags = PFL_FLUSH_PERIODIC | PFL_FLUSH_INITIATOR_SERVICE,
            .then = PFL_FLUSH_THEN_NOTHING,
        };

        t->flush_ms = next_multiple(now_ms, plan->flush_period_ms);
        pfl_session_flush(service, session, &conf);
    }
    if (t->stop_ms <= now_ms) {
        t->stop_ms = PFL_SESSION_NEVER;
        pfl_session_finish_stop(service, session);
        if (pfl_service_find_session(service, id) == NULL)
            return;
    }
    if (session->file != NULL && session->file->next_write_ms <= now_ms)
        pfl_session_file_run(session->file);
    if (t->duration_ms != PFL_SESSION_NEVER &&
        t->duration_ms <= get_clock_ms(service, session->plan->duration_counts_suspend))
        run_duration(service, session);
    else
        pfl_trigger_run(service, session);
}

void pfl_session_timers_run(struct pfl_service *service)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    pfl_session_expire_flushes(service);
    PFL_LIST_EACH_SAFE (it, tmp, &service->sessions) {
        run_session(service, PFL_CONTAINER_OF(it, struct pfl_session, node));
    }
    pfl_retired_rings_release();
    pfl_scrape_turns_run(service);
    pfl_clone_run(service);
    service->due_ms = pfl_session_timers_find_ms(service);
}
