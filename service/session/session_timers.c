/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timers of all sessions and flushes, as deadlines.
 *
 * Periodic work (snapshot, flush, clear of incremental state) falls on multiples of its period on
 * CLOCK_MONOTONIC, so that sessions of one period work together. The duration and the snapshots
 * count on CLOCK_MONOTONIC, or on CLOCK_BOOTTIME when the config wants suspended time to count. The
 * shell asks for the next deadline and calls pfl_session_due_run then, or later.
 * The service keeps one number, before which nothing is due: setting a deadline lowers it, and run
 * raises it again. It may be too low, which costs one call. So a turn of the loop need not look at
 * every session.
 */
#include "service/session/session_timers.h"

#include "service/buffer/retired_rings.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_file.h"
#include "service/session/session_record.h"
#include "service/session/trigger_state.h"

/* The shell's timer stops while the machine sleeps: the maximal delay after the end of the sleep
 * until a session whose duration continued is stopped. */
#define SLEEP_CHECK_MS 1000u
/* So long a data source may take to start before the trace says so. */
#define SLOW_START_MS 20000u

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

    pfl_session_record_snapshot(service, session);
    t->snapshot_ms = get_next_snapshot_ms(service, session);
    t->slow_ms = now_ms + SLOW_START_MS;
    if (plan->flush_period_ms != 0)
        t->flush_ms = next_multiple(now_ms, plan->flush_period_ms);
    if (plan->clear_period_ms != 0)
        t->clear_ms = next_multiple(now_ms, plan->clear_period_ms);
    if (plan->duration_ms != 0)
        t->duration_ms =
            get_clock_ms(service, session->plan->duration_counts_suspend) + plan->duration_ms;
    pfl_service_look_at(service, get_next_ms(service, session));
}

void pfl_session_timers_stop(struct pfl_session *session)
{
    session->timers =
        (struct pfl_session_timers){PFL_SESSION_NEVER, PFL_SESSION_NEVER, PFL_SESSION_NEVER,
                                    PFL_SESSION_NEVER, PFL_SESSION_NEVER, PFL_SESSION_NEVER};
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
    next = min_ms(next, service->clone_due_ms);
    next = min_ms(next, pfl_copies_get_due_ms(&service->copies));
    next = min_ms(next, pfl_scrape_turns_get_due_ms(service));
    PFL_LIST_EACH (it, &service->sessions) {
        next = min_ms(next, get_next_ms(service, PFL_CONTAINER_OF(it, struct pfl_session, node)));
    }
    return next;
}

static bool take(uint64_t *due_ms, uint64_t now_ms, uint64_t next_ms)
{
    if (*due_ms > now_ms)
        return false;
    *due_ms = next_ms;
    return true;
}

bool pfl_session_timers_take_snapshot(const struct pfl_service *service,
                                      struct pfl_session *session)
{
    uint64_t *due_ms = &session->timers.snapshot_ms;
    bool counts_suspend = session->plan->builtin.snapshot_counts_suspend;

    return *due_ms != PFL_SESSION_NEVER && take(due_ms, get_clock_ms(service, counts_suspend),
                                                get_next_snapshot_ms(service, session));
}

bool pfl_session_timers_take_clear(const struct pfl_service *service, struct pfl_session *session)
{
    uint64_t *due_ms = &session->timers.clear_ms;
    uint64_t now_ms = pfl_service_now_ms(service);

    return *due_ms != PFL_SESSION_NEVER &&
           take(due_ms, now_ms, next_multiple(now_ms, session->plan->clear_period_ms));
}

bool pfl_session_timers_take_slow(const struct pfl_service *service, struct pfl_session *session)
{
    return take(&session->timers.slow_ms, pfl_service_now_ms(service), PFL_SESSION_NEVER);
}

bool pfl_session_timers_take_flush(const struct pfl_service *service, struct pfl_session *session)
{
    uint64_t *due_ms = &session->timers.flush_ms;
    uint64_t now_ms = pfl_service_now_ms(service);

    return *due_ms != PFL_SESSION_NEVER &&
           take(due_ms, now_ms, next_multiple(now_ms, session->plan->flush_period_ms));
}

bool pfl_session_timers_take_stop(const struct pfl_service *service, struct pfl_session *session)
{
    return take(&session->timers.stop_ms, pfl_service_now_ms(service), PFL_SESSION_NEVER);
}

bool pfl_session_timers_take_duration(const struct pfl_service *service,
                                      struct pfl_session *session)
{
    uint64_t *due_ms = &session->timers.duration_ms;
    bool counts_suspend = session->plan->duration_counts_suspend;

    return *due_ms != PFL_SESSION_NEVER &&
           take(due_ms, get_clock_ms(service, counts_suspend), PFL_SESSION_NEVER);
}
