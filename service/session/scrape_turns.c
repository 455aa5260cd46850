/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scraping in turns: see scrape_turns.h.
 *
 * begin: a first turn at once, with what is left of this loop turn's units; most passes are over
 * then. The rest continues in later turns. In each turn of the loop one user has a turn, however
 * many passes it waits for. A pass ends at the end of its memory: it cannot fail, and delays nobody
 * else. Memory that a copier has is copied part by part; while a pass waits for that it has no
 * turns. A session waits for COPY_WAIT_MS for an answer of a copier, and then leaves out what that
 * one's producers have.
 *
 * A producer that left is kept, with its memory, its id and its user's charge, until its own pass
 * is over. Sessions' passes include it like any other meanwhile. What a copier has taken out for
 * its last commit is nowhere else any more: its pass begins with that.
 *
 * When the service stops, its loop has no turns: passes are done at once, and what exceeds the
 * limit of loop_budget.h is left out, and logged. Owns producers that left. No failures.
 */
#include "service/session/scrape_turns.h"

#include "base/log.h"
#include "service/buffer/smb_scrape.h"

#define STEP_NS        500000u   /* of a turn: a page may have to be brought back */
#define LAST_STEP_NS   100000000 /* when the service stops */
#define COPY_WAIT_MS   100u      /* of a session's pass, for one answer of a copier */
#define COPY_WAIT_LESS 5u        /* after COPY_WAIT_SUM for that copier, or PASS_WAIT_SUM for all */
#define COPY_WAIT_SUM  300u      /* in COPY_WAIT_IN */
#define COPY_WAIT_IN   10000u
#define PASS_WAIT_SUM  2000u

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

static void note_cut(const struct pfl_producer *producer, const char *why)
{
    pfl_log_warn("scrape-cut", "producer=%s uid=%u reason=\"%s\"",
                 pfl_log_quote_str(producer->name), producer->uid, why);
}

/* A copier takes chunks out, or has, for a commit that has not moved them all into buffers. */
static bool is_committing(const struct pfl_copy_job *job)
{
    return job->kind == PFL_COPY_COMMIT &&
           (job->state == PFL_COPY_JOB_ASKED || job->state == PFL_COPY_JOB_DONE);
}

static bool is_wanted(const struct scope *scope, const struct pfl_copy_job *job)
{
    const struct pfl_producer *producer = scope->producer;

    return (producer->wants_scraping || is_committing(job)) && producer->writers_len != 0 &&
           pfl_smb_map_is_open(&producer->smb) && may_have_chunks(scope->session, producer);
}

static struct pfl_smb_scrape_conf make_conf(struct scope *scope, uint32_t page, uint64_t credit)
{
    struct pfl_producer *producer = scope->producer;

    return (struct pfl_smb_scrape_conf){
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
        .page = page,
        .credit = credit,
    };
}

/* Always a later one. */
static uint32_t get_next_page(const struct pfl_copy_job *job, uint32_t page, uint32_t pages)
{
    uint32_t next = job->copier->area->next_page;

    return next > page && next < pages ? next : pages;
}

/* What the copier found, or took out. True: all of that. */
static bool use_copies(struct scope *scope, struct pfl_copy_job *job, uint64_t *credit)
{
    const struct pfl_smb_scrape_conf conf = make_conf(scope, 0, 0);
    const uint8_t *data = job->copier->area->data;
    bool has_time = true;

    while (has_time && *credit != 0 && pfl_copy_job_has_more(job)) {
        const struct pfl_copy_entry *copy = pfl_copy_job_next(job);
        uint64_t units = pfl_smb_scrape_copy(&conf, copy, data + copy->at) + 1;

        *credit -= units < *credit ? units : *credit;
        has_time = may_continue(scope);
    }
    return !pfl_copy_job_has_more(job);
}

static void ask_for(struct scope *scope, struct pfl_copy_job *job, uint32_t page)
{
    pfl_service_attach_smb(scope->producer);
    if (scope->producer->copier == NULL)
        return;
    pfl_copy_job_ask(job, PFL_COPY_SCRAPE, scope->producer->id, page);
    pfl_service_look_at(scope->service, pfl_service_now_ms(scope->service) + PFL_COPIES_LIMIT_MS);
}

/* The same as scrape_some, of memory that a copier has. The job waits meanwhile, or the credit is
 * used up. */
static bool scrape_copied(struct scope *scope, struct pfl_copy_job *job, uint32_t *page,
                          uint64_t *credit)
{
    struct pfl_producer *producer = scope->producer;

    scope->begin_ns = pfl_service_now_ns(scope->service);
    while (*credit != 0 && producer->copier != NULL) {
        if (job->state == PFL_COPY_JOB_IDLE)
            pfl_copy_job_begin(job, producer->copier);
        if (job->state == PFL_COPY_JOB_OWNS)
            ask_for(scope, job, *page);
        if (job->state == PFL_COPY_JOB_LOST)
            note_cut(producer, "its user's copier cannot read its memory");
        if (job->state != PFL_COPY_JOB_DONE)
            return job->state == PFL_COPY_JOB_LOST;
        if (!use_copies(scope, job, credit))
            return false;
        if (job->kind == PFL_COPY_SCRAPE)
            *page = get_next_page(job, *page, producer->smb.smb.pages);
        pfl_copy_job_end(job);
        if (*page == producer->smb.smb.pages || !producer->wants_scraping)
            return true;
        if (!may_continue(scope))
            return false;
    }
    return producer->copier == NULL;
}

/* Scrapes a part of its memory, for one session or all. True: it is finished. */
static bool scrape_some(struct scope *scope, struct pfl_copy_job *job, uint32_t *page,
                        uint64_t *credit)
{
    struct pfl_producer *producer = scope->producer;
    struct pfl_smb_scrape_conf conf = make_conf(scope, *page, *credit);
    struct pfl_smb_scrape_result result;

    if (!is_wanted(scope, job))
        return true;
    if (producer->smb.has_faulted) {
        note_cut(producer, "its memory cannot be read");
        return true;
    }
    if (producer->copier != NULL)
        return scrape_copied(scope, job, page, credit);
    scope->begin_ns = pfl_service_now_ns(scope->service);
    result = pfl_smb_scrape(&conf);
    pfl_service_check_memory(scope->service, producer);
    *credit -= result.units < *credit ? result.units : *credit;
    *page = result.next_page;
    return result.next_page == producer->smb.smb.pages;
}

/* Many answers, and many users' copiers, do not hold a flush up together, either. */
static uint64_t get_limit_ms(const struct pfl_scrape_pass *pass)
{
    const struct pfl_copier *copier = pass->copy.copier;
    bool was_slow = copier != NULL && copier->waited_ms >= COPY_WAIT_SUM;

    return was_slow || pass->waited_ms >= PASS_WAIT_SUM ? COPY_WAIT_LESS : COPY_WAIT_MS;
}

static bool is_waiting(const struct pfl_copy_job *job)
{
    return job->state == PFL_COPY_JOB_WAITS || job->state == PFL_COPY_JOB_ASKED;
}

/* It was waited for before. */
static bool is_late(const struct pfl_service *service, const struct pfl_copier *copier)
{
    return copier->is_asked && pfl_service_now_ms(service) - copier->asked_ms >= COPY_WAIT_MS;
}

/* Scrapes all of it now, within the limit: there are no turns. False: a part was left out. */
static bool scrape_at_once(struct pfl_service *service, struct scope *scope,
                           struct pfl_copy_job *job, uint32_t page)
{
    const struct pfl_producer *producer = scope->producer;
    uint64_t who = scope->session != NULL ? scope->session->who : producer->who;
    uint64_t credit = pfl_loop_budget_begin(&service->scrape_budget, who, producer->who,
                                            pfl_service_now_ms(service));
    uint64_t left = credit;
    bool is_whole = scrape_some(scope, job, &page, &left);

    while (!is_whole && left != 0 && is_waiting(job) && !is_late(service, job->copier)) {
        pfl_copy_job_wait(job, COPY_WAIT_MS);
        if (is_waiting(job))
            break;
        is_whole = scrape_some(scope, job, &page, &left);
    }
    pfl_copy_job_end(job);
    pfl_loop_budget_end(&service->scrape_budget, who, producer->who, credit - left);
    if (!is_whole)
        note_cut(producer, "the service stops, and what this user's producers have not committed "
                           "takes too long");
    return is_whole;
}

/* What it waited is on the copier's account, and on its own. */
static void end_wait(struct pfl_scrape_pass *pass, uint64_t now_ms)
{
    struct pfl_copier *copier = pass->copy.copier;

    if (pass->waits_since_ms == 0 || copier == NULL)
        return;
    if (now_ms - copier->waits_from_ms >= COPY_WAIT_IN) {
        copier->waits_from_ms = now_ms;
        copier->waited_ms = 0;
    }
    copier->waited_ms += now_ms - pass->waits_since_ms;
    pass->waited_ms += now_ms - pass->waits_since_ms;
    pass->waits_since_ms = 0;
}

/* True: the pass continues without this producer, whose copier does not answer, or has not answered
 * others. */
static bool waited_long(struct scope *scope, struct pfl_scrape_pass *pass)
{
    const struct pfl_copier *copier = scope->producer->copier;
    uint64_t now_ms = pfl_service_now_ms(scope->service);

    if (pass->waits_since_ms == 0)
        pass->waits_since_ms = now_ms;
    if (now_ms - pass->waits_since_ms < get_limit_ms(pass) && !is_late(scope->service, copier))
        return false;
    end_wait(pass, now_ms);
    note_cut(scope->producer, "its user's copier does not answer");
    return true;
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
            pass->is_cut =
                !scrape_at_once(service, &scope, &pass->copy, pass->page) || pass->is_cut;
            continue;
        }
        if (service->scrape_units_left == 0)
            return false;
        service->scrape_units_left--;
        if (pass->copy.state == PFL_COPY_JOB_DONE)
            end_wait(pass, pfl_service_now_ms(service));
        if (!scrape_some(&scope, &pass->copy, &pass->page, &service->scrape_units_left)) {
            if (!is_waiting(&pass->copy)) {
                pass->waits_since_ms = 0;
                return false;
            }
            if (!waited_long(&scope, pass))
                return false;
            pass->is_cut = true;
        }
        pass->waits_since_ms = 0;
        pfl_copy_job_end(&pass->copy);
    }
    pass->at = NULL;
    return true;
}

static bool run_producer(struct pfl_service *service, struct pfl_producer *producer)
{
    struct scope scope = {.service = service, .producer = producer};

    if (!service->is_stopping)
        return scrape_some(&scope, &producer->copy, &producer->scraped_page,
                           &service->scrape_units_left);
    (void)scrape_at_once(service, &scope, &producer->copy, producer->scraped_page);
    return true;
}

static void want_turn(struct pfl_service *service)
{
    service->is_scraping = true;
    pfl_service_look_at(service, 0);
}

static void look_at_wait(struct pfl_service *service, const struct pfl_session *session)
{
    pfl_service_look_at(service, session->scrape.waits_since_ms + get_limit_ms(&session->scrape));
}

/* The job of a session's pass has the area, or its copies. */
static void on_pass_change(struct pfl_copy_job *job)
{
    struct pfl_scrape_pass *pass = PFL_CONTAINER_OF(job, struct pfl_scrape_pass, copy);

    want_turn(pass->service);
}

void pfl_scrape_turns_begin(struct pfl_service *service, struct pfl_session *session)
{
    pfl_copy_job_end(&session->scrape.copy);
    session->scrape = (struct pfl_scrape_pass){.service = service,
                                               .at = service->permitted.next,
                                               .last = service->permitted_seen,
                                               .copy = {.on_change = on_pass_change}};
    pfl_flush_book_join(&service->flushes, session->id);
    if (run_session(service, session))
        session->ops->on_scraped(service, session);
    else if (!is_waiting(&session->scrape.copy))
        want_turn(service);
    else
        look_at_wait(service, session);
}

/* That of a producer that left. */
static void on_left_change(struct pfl_copy_job *job)
{
    struct pfl_producer *producer = PFL_CONTAINER_OF(job, struct pfl_producer, copy);

    pfl_list_remove(&producer->node);
    pfl_list_append(&producer->service->leaving, &producer->node);
    want_turn(producer->service);
}

/* Or for its copier. */
static void wait_for_turn(struct pfl_service *service, struct pfl_producer *producer)
{
    if (!is_waiting(&producer->copy)) {
        want_turn(service);
        return;
    }
    pfl_list_remove(&producer->node);
    pfl_list_append(&service->copying, &producer->node);
}

bool pfl_scrape_turns_take_producer(struct pfl_service *service, struct pfl_producer *producer)
{
    if (!is_committing(&producer->copy))
        pfl_copy_job_end(&producer->copy);
    producer->service = service;
    producer->copy.on_change = on_left_change;
    /* At once: its copier may be lost any time, which is noted in all in the lists. */
    pfl_list_append(&service->leaving, &producer->node);
    if (run_producer(service, producer))
        return true;
    service->leaving_len++;
    wait_for_turn(service, producer);
    return false;
}

/* The next pass: of a producer, of a session, or none. */
struct next {
    struct pfl_producer *producer;
    struct pfl_session *session;
    uint64_t distance; /* from the user of the last turn */
    uint64_t turn;     /* its last turn: of one user, the one that waited longest is first */
};

/* It waits for nothing, or has waited for long. */
static bool is_ready(const struct pfl_service *service, const struct pfl_session *session)
{
    const struct pfl_scrape_pass *pass = &session->scrape;

    return pass->at != NULL &&
           (!is_waiting(&pass->copy) || pass->waits_since_ms == 0 ||
            pfl_service_now_ms(service) - pass->waits_since_ms >= get_limit_ms(pass));
}

static void look_at_sessions(const struct pfl_service *service, const struct pfl_list *sessions,
                             struct next *next)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions) {
        struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);
        uint64_t distance = session->who - service->last_scraped_who - 1;

        bool has_one = next->producer != NULL || next->session != NULL;

        if (!is_ready(service, session) || (has_one && distance > next->distance) ||
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
        else
            wait_for_turn(service, next->producer);
    } else if (next->session != NULL) {
        service->last_scraped_who = next->session->who;
        next->session->scrape_turn = ++service->scrape_turns;
        if (run_session(service, next->session))
            next->session->ops->on_scraped(service, next->session);
        else if (is_waiting(&next->session->scrape.copy))
            look_at_wait(service, next->session);
    }
}

static bool has_more(const struct pfl_service *service)
{
    struct next next = find_next(service);

    return next.producer != NULL || next.session != NULL;
}

static uint64_t find_wait_ms(const struct pfl_list *sessions)
{
    uint64_t due_ms = UINT64_MAX;
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions) {
        const struct pfl_scrape_pass *pass =
            &PFL_CONTAINER_OF(it, struct pfl_session, node)->scrape;
        uint64_t its_ms = pass->waits_since_ms + get_limit_ms(pass);

        if (pass->at != NULL && pass->waits_since_ms != 0 && its_ms < due_ms)
            due_ms = its_ms;
    }
    return due_ms;
}

uint64_t pfl_scrape_turns_get_due_ms(const struct pfl_service *service)
{
    uint64_t of_sessions = find_wait_ms(&service->sessions);
    uint64_t of_closing = find_wait_ms(&service->closing);

    return of_sessions < of_closing ? of_sessions : of_closing;
}

static bool is_one_due(const struct pfl_service *service)
{
    uint64_t due_ms = pfl_scrape_turns_get_due_ms(service);

    return due_ms != UINT64_MAX && due_ms <= pfl_service_now_ms(service);
}

void pfl_scrape_turns_run(struct pfl_service *service)
{
    struct next next;

    service->scrape_units_left = PFL_SCRAPE_TURN_UNITS;
    if (!service->is_scraping && !is_one_due(service))
        return;
    next = find_next(service);
    take_turn(service, &next);
    service->is_scraping = has_more(service);
}

static void end_passes_jobs(struct pfl_list *sessions)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, sessions)
        pfl_copy_job_end(&PFL_CONTAINER_OF(it, struct pfl_session, node)->scrape.copy);
}

/* Before it ends, what was taken out for a commit goes into the buffers. */
static void end_job(struct pfl_service *service, struct pfl_producer *producer)
{
    struct scope scope = {.service = service, .producer = producer};
    struct pfl_copy_job *job = &producer->copy;
    uint64_t credit = UINT64_MAX;

    if (is_committing(job) && !is_late(service, job->copier))
        pfl_copy_job_wait(job, COPY_WAIT_MS);
    scope.begin_ns = pfl_service_now_ns(service);
    if (is_committing(job) && (is_waiting(job) || !use_copies(&scope, job, &credit)))
        note_cut(producer, "the service stops, and a copy of what it commits takes too long");
    pfl_copy_job_end(job);
}

/* What a pass waited for, it asks for again in its turn, so that no other has the area then. */
static void end_jobs(struct pfl_service *service)
{
    struct pfl_list *lists[] = {&service->producers, &service->leaving};
    struct pfl_list *it;

    while (!pfl_list_is_empty(&service->copying)) {
        struct pfl_list *node = service->copying.next;

        pfl_list_remove(node);
        pfl_list_append(&service->leaving, node);
    }
    PFL_LIST_EACH (it, &service->leaving)
        PFL_CONTAINER_OF(it, struct pfl_producer, node)->copy.on_change = NULL; /* no turns */
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        PFL_LIST_EACH (it, lists[i])
            end_job(service, PFL_CONTAINER_OF(it, struct pfl_producer, node));
    end_passes_jobs(&service->sessions);
    end_passes_jobs(&service->closing);
}

void pfl_scrape_turns_stop(struct pfl_service *service)
{
    service->is_stopping = true;
    end_jobs(service);
    while (has_more(service)) {
        struct next next = find_next(service);

        take_turn(service, &next);
    }
    service->is_scraping = false;
}
