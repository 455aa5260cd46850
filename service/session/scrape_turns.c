/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scraping in turns: see scrape_turns.h.
 *
 * begin: a first turn at once, with what is left of this loop turn's units; most passes are over
 * then. The rest continues in later turns. In each turn of the loop one user has a turn, however
 * many passes it waits for. A pass ends at the end of its memory: it cannot fail, and delays nobody
 * else.
 *
 * A producer that left is kept, with its memory, its id and its user's charge, until its memory is
 * sealed and its own pass is over. Sessions' passes include it like any other meanwhile.
 *
 * When the service stops, its loop has no turns: passes are done at once, and what exceeds the
 * limit of loop_budget.h is left out, and logged. Owns producers that left. No failures.
 */
#include "service/session/scrape_turns.h"

#include "base/log.h"
#include "service/buffer/smb_scrape.h"

#define STEP_NS      500000u   /* of a turn: a page may have to be brought back */
#define LAST_STEP_NS 100000000 /* when the service stops */
#define SEAL_WAIT_MS 100u      /* of a session's pass */

struct scope {
    struct pfl_service *service;
    const struct pfl_session *session; /* NULL: of all */
    struct pfl_producer *producer;
    uint64_t begin_ns;
};

static struct pfl_trace_buffer *get_writer_buffer(void *user, uint16_t writer_id)
{
    const struct scope *scope = user;
    uint16_t buffer_id = pfl_producer_get_writer(scope->producer, writer_id);
    const struct pfl_service_buffer *buffer = &scope->service->buffers[buffer_id];

    if (buffer_id == 0 || !pfl_producer_is_allowed(scope->producer, buffer_id))
        return NULL;
    return scope->session == NULL || buffer->session == scope->session ? buffer->ring : NULL;
}

/* A producer without any costs the session nothing, whatever memory it has. */
static bool may_have_chunks(const struct pfl_session *session, const struct pfl_producer *producer)
{
    if (session == NULL)
        return producer->allowed != NULL;
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        if (pfl_producer_is_allowed(producer, session->buffers[i].id))
            return true;
    }
    return false;
}

static bool may_continue(void *user)
{
    const struct scope *scope = user;

    return pfl_service_now_ns(scope->service) - scope->begin_ns <
           (scope->service->is_stopping ? LAST_STEP_NS : STEP_NS);
}

/* Memory of its user could not be read a moment ago, or is not sealed. */
static bool is_left_out(const struct scope *scope)
{
    const struct pfl_producer *producer = scope->producer;

    if (!producer->smb.has_faulted && producer->smb.state == PFL_SMB_OURS &&
        pfl_service_get_fault_wait_ms(scope->service, producer->who) == 0)
        return false;
    pfl_log_warn("scrape-cut", "producer=%s uid=%u reason=\"memory of this user cannot be read\"",
                 pfl_log_quote_str(producer->name), producer->uid);
    return true;
}

static bool is_wanted(const struct scope *scope)
{
    const struct pfl_producer *producer = scope->producer;

    return producer->wants_scraping && producer->writers_len != 0 &&
           pfl_smb_map_is_open(&producer->smb) && may_have_chunks(scope->session, producer);
}

/* Scrapes a part of its memory, for one session or all. True: it is finished. */
static bool scrape_some(struct scope *scope, uint32_t *page, uint64_t *credit)
{
    struct pfl_producer *producer = scope->producer;
    const struct pfl_smb_scrape_conf conf = {
        .identity = {.producer_id = producer->id,
                     .producer_serial = (uint32_t)producer->serial,
                     .uid = producer->uid,
                     .pid = producer->pid,
                     .machine_id = producer->machine_id,
                     .who = producer->who,
                     .credit = &producer->credit},
        .map = &producer->smb,
        .get_writer_buffer = get_writer_buffer,
        .may_continue = may_continue,
        .user = scope,
        .page = *page,
        .credit = *credit,
    };
    struct pfl_smb_scrape_result result;

    if (!is_wanted(scope) || is_left_out(scope))
        return true;
    scope->begin_ns = pfl_service_now_ns(scope->service);
    result = pfl_smb_scrape(&conf);
    pfl_service_check_memory(scope->service, producer);
    *credit -= result.units < *credit ? result.units : *credit;
    *page = result.next_page;
    return result.next_page == producer->smb.smb.pages;
}

/* Scrapes all of it now, within the limit: there are no turns. False: a part was left out. */
static bool scrape_at_once(struct pfl_service *service, struct scope *scope, uint32_t page)
{
    const struct pfl_producer *producer = scope->producer;
    uint64_t who = scope->session != NULL ? scope->session->who : producer->who;
    uint64_t credit = pfl_loop_budget_begin(&service->scrape_budget, who, producer->who,
                                            pfl_service_now_ms(service));
    uint64_t left = credit;
    bool is_whole = scrape_some(scope, &page, &left);

    pfl_loop_budget_end(&service->scrape_budget, who, producer->who, credit - left);
    if (!is_whole)
        pfl_log_warn("scrape-cut",
                     "producer=%s uid=%u reason=\"the service stops, and what this user's "
                     "producers have not committed takes too long\"",
                     pfl_log_quote_str(producer->name), producer->uid);
    return is_whole;
}

/* Until the memory is sealed, but no longer than SEAL_WAIT_MS. */
static bool waits_for_seal(const struct scope *scope, struct pfl_scrape_pass *pass)
{
    uint64_t now_ms;

    if (!is_wanted(scope) || pfl_service_get_seal_wait_ms(scope->service, scope->producer) == 0)
        return false;
    now_ms = pfl_service_now_ms(scope->service);
    if (pass->waits_since_ms == 0)
        pass->waits_since_ms = now_ms;
    return now_ms - pass->waits_since_ms < SEAL_WAIT_MS;
}

/* What this turn has left. True: the pass is over. */
static bool run_session(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_scrape_pass *pass = &session->scrape;

    for (; pass->at != &service->permitted; pass->at = pass->at->next, pass->page = 0) {
        struct scope scope = {.service = service,
                              .session = session,
                              .producer =
                                  PFL_CONTAINER_OF(pass->at, struct pfl_producer, permitted)};

        if (scope.producer->permitted_serial > pass->last)
            break;
        if (service->is_stopping) {
            pass->is_cut = !scrape_at_once(service, &scope, pass->page) || pass->is_cut;
            continue;
        }
        if (service->scrape_units_left == 0 || waits_for_seal(&scope, pass))
            return false;
        service->scrape_units_left--;
        if (!scrape_some(&scope, &pass->page, &service->scrape_units_left))
            return false;
    }
    pass->at = NULL;
    return true;
}

static bool run_producer(struct pfl_service *service, struct pfl_producer *producer)
{
    struct scope scope = {.service = service, .producer = producer};

    if (!service->is_stopping)
        return scrape_some(&scope, &producer->scraped_page, &service->scrape_units_left);
    (void)scrape_at_once(service, &scope, producer->scraped_page);
    return true;
}

static void want_turn(struct pfl_service *service)
{
    service->is_scraping = true;
    pfl_service_look_at(service, 0);
}

void pfl_scrape_turns_begin(struct pfl_service *service, struct pfl_session *session)
{
    session->scrape =
        (struct pfl_scrape_pass){.at = service->permitted.next, .last = service->permitted_seen};
    pfl_flush_book_join(&service->flushes, session->id);
    if (run_session(service, session))
        session->ops->on_scraped(service, session);
    else
        want_turn(service);
}

static void look_at_seal_in(struct pfl_service *service, uint64_t wait_ms)
{
    uint64_t due_ms = pfl_service_now_ms(service) + wait_ms;

    if (service->sealing_due_ms > due_ms)
        service->sealing_due_ms = due_ms;
    pfl_service_look_at(service, due_ms);
}

bool pfl_scrape_turns_take_producer(struct pfl_service *service, struct pfl_producer *producer)
{
    uint64_t wait_ms = pfl_service_get_seal_wait_ms(service, producer);

    if (wait_ms == 0 && run_producer(service, producer))
        return true;
    pfl_list_append(wait_ms != 0 ? &service->sealing : &service->leaving, &producer->node);
    service->leaving_len++;
    if (wait_ms != 0)
        look_at_seal_in(service, wait_ms);
    else
        want_turn(service);
    return false;
}

/* Those whose memory may be read and unmapped now. */
static void take_sealed(struct pfl_service *service)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (pfl_list_is_empty(&service->sealing))
        return;
    service->sealing_due_ms = UINT64_MAX;
    PFL_LIST_EACH_SAFE (it, tmp, &service->sealing) {
        struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);
        uint64_t wait_ms = pfl_service_get_seal_wait_ms(service, producer);

        if (wait_ms != 0) {
            look_at_seal_in(service, wait_ms);
            continue;
        }
        pfl_list_remove(&producer->node);
        pfl_list_append(&service->leaving, &producer->node);
        want_turn(service);
    }
}

/* The next pass: of a producer, of a session, or none. */
struct next {
    struct pfl_producer *producer;
    struct pfl_session *session;
    uint64_t distance; /* from the user of the last turn */
    uint64_t turn;     /* its last turn: of one user, the one that waited longest is first */
};

static void look_at_sessions(const struct pfl_service *service, const struct pfl_list *sessions,
                             struct next *next)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);
        uint64_t distance = session->who - service->last_scraped_who - 1;

        bool has_one = next->producer != NULL || next->session != NULL;

        if (session->scrape.at == NULL || (has_one && distance > next->distance) ||
            (has_one && distance == next->distance && session->scrape_turn >= next->turn))
            continue;
        *next =
            (struct next){.session = session, .distance = distance, .turn = session->scrape_turn};
    }
}

/* Of the producers that left, the first alone: a session that waits for another comes to it. */
static struct next find_next(const struct pfl_service *service)
{
    struct next next = {0};

    if (!pfl_list_is_empty(&service->leaving)) {
        next.producer = PFL_CONTAINER_OF(service->leaving.next, struct pfl_producer, node);
        next.distance = next.producer->who - service->last_scraped_who - 1;
        next.turn = service->left_turn;
    }
    look_at_sessions(service, &service->sessions, &next);
    look_at_sessions(service, &service->closing, &next);
    return next;
}

static void take_turn(struct pfl_service *service, const struct next *next)
{
    if (next->producer != NULL) {
        service->last_scraped_who = next->producer->who;
        service->left_turn = ++service->scrape_turns;
        if (run_producer(service, next->producer))
            pfl_service_free_left(service, next->producer);
    } else if (next->session != NULL) {
        service->last_scraped_who = next->session->who;
        next->session->scrape_turn = ++service->scrape_turns;
        if (run_session(service, next->session))
            next->session->ops->on_scraped(service, next->session);
    }
}

static bool has_more(const struct pfl_service *service)
{
    struct next next = find_next(service);

    return next.producer != NULL || next.session != NULL;
}

void pfl_scrape_turns_run(struct pfl_service *service)
{
    struct next next;

    service->scrape_units_left = PFL_SCRAPE_TURN_UNITS;
    take_sealed(service);
    if (!service->is_scraping)
        return;
    next = find_next(service);
    take_turn(service, &next);
    service->is_scraping = has_more(service);
}

void pfl_scrape_turns_stop(struct pfl_service *service)
{
    service->is_stopping = true;
    while (has_more(service)) {
        struct next next = find_next(service);

        take_turn(service, &next);
    }
    service->is_scraping = false;
}
