/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushes a session.
 *
 * A flush is announced in the trace and sent to every producer with an instance that takes part. It
 * is answered when all have acknowledged, at its deadline, or at once if none takes part. Then
 * producers' memory is scraped in turns of the loop (scrape_turns.c). At the end of that the flush
 * ends: count, record, then reply to the consumer or disable the session. A flush that a consumer
 * requested and that cannot begin fails at once.
 */
#include "service/session/session_flush.h"

#include <string.h>

#include "service/core/command.h"
#include "service/session/scrape_turns.h"
#include "service/session/session_instances.h"
#include "service/session/session_record.h"

#define PRODUCER_ID_WORDS (PFL_SERVICE_PRODUCER_IDS / 64)

/* By id, those that have not acknowledged. */
static void note_waiting(const struct pfl_flush *flush, uint64_t ids[PRODUCER_ID_WORDS])
{
    memset(ids, 0, PRODUCER_ID_WORDS * sizeof(ids[0]));
    for (size_t i = 0; i < flush->waits_len; i++) {
        const struct pfl_flush_wait *wait = &flush->waits[i];

        if (wait->is_open)
            ids[wait->producer_id / 64] |= 1ull << (wait->producer_id % 64);
    }
}

static bool is_waiting(const uint64_t *ids, const struct pfl_producer *producer)
{
    return producer != NULL && (ids[producer->id / 64] >> (producer->id % 64) & 1) != 0;
}

static void record_slow(struct pfl_service *service, struct pfl_session *session,
                        const struct pfl_flush *flush)
{
    uint64_t ids[PRODUCER_ID_WORDS];
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_list *it;
    unsigned named = 0;

    pfl_buf_init(&buf, 65536);
    note_waiting(flush, ids);
    PFL_LIST_EACH (it, &session->instances) {
        const struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);

        if ((instance->flags & PFL_DATA_SOURCE_NO_FLUSH) == 0 &&
            is_waiting(ids, instance->producer) && named++ < PFL_SESSION_SLOW_MAX)
            pfl_session_encode_slow(&m, session, instance);
    }
    if (m.rc == 0)
        pfl_session_record(service, session, PFL_EVENT_SLOW_FLUSH, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

/* The end of a flush of a session that is still there. It may be gone afterwards. */
static void end_flush(struct pfl_service *service, struct pfl_session *session,
                      const struct pfl_flush *flush, bool is_ok)
{
    struct pfl_session_counters *counters = &session->counters;

    pfl_session_snapshot_clocks(service, session);
    if (!is_ok && ((flush->flags & 0xf) == PFL_FLUSH_TRACE_STOP ||
                   (flush->flags & 0xf) == PFL_FLUSH_TRACE_CLONE))
        record_slow(service, session, flush);
    pfl_session_record(service, session, PFL_EVENT_ALL_FLUSHED, (struct pfl_span){0});
    counters->flushes_succeeded += is_ok;
    counters->flushes_failed += !is_ok;
    if (flush->then == PFL_FLUSH_THEN_REPLY) {
        flush->consumer->ops->on_flush_done(flush->consumer->port, flush, is_ok);
    } else if (flush->then != PFL_FLUSH_THEN_NOTHING) {
        if (flush->then == PFL_FLUSH_THEN_DISABLE)
            counters->final_flush_outcome = is_ok ? 1 : 2;
        session->ops->on_flushed(service, session, flush, is_ok);
    }
}

/* What a pass has gone over may have been written since: the flush ends with the next one. */
static void on_answered(void *user, struct pfl_flush *flush)
{
    struct pfl_service *service = user;
    struct pfl_session *session = pfl_service_find_session(service, flush->session_id);

    if (session != NULL && session->scrape.at == NULL)
        pfl_scrape_turns_begin(service, session);
}

struct pfl_session *pfl_session_end_flushes(struct pfl_service *service,
                                            struct pfl_session *session)
{
    const uint64_t id = session->id;
    const bool is_whole = !session->scrape.is_cut;
    struct pfl_flush *flush;

    while (session != NULL && session->scrape.at == NULL &&
           (flush = pfl_flush_book_take_joined(&service->flushes, id)) != NULL) {
        end_flush(service, session, flush, flush->is_ok && is_whole);
        pfl_flush_book_free(&service->flushes, flush);
        session = pfl_service_find_session(service, id);
    }
    return session;
}

/* The session ends: no scrape, no event; the consumer is answered. */
static void on_flush_cancelled(void *user, const struct pfl_flush *flush, bool is_ok)
{
    (void)user;
    (void)is_ok;
    if (flush->then == PFL_FLUSH_THEN_REPLY)
        flush->consumer->ops->on_flush_done(flush->consumer->port, flush, false);
}

/* A flush that never begins. */
static void fail_flush(struct pfl_service *service, struct pfl_session *session,
                       const struct pfl_session_flush_conf *conf)
{
    const struct pfl_flush flush = {
        .then = conf->then, .request_id = conf->request_id, .drop_reply = conf->drop_reply};

    if (conf->then == PFL_FLUSH_THEN_REPLY)
        session->consumer->ops->on_flush_done(session->consumer->port, &flush, false);
    else if (conf->then != PFL_FLUSH_THEN_NOTHING)
        session->ops->on_flushed(service, session, &flush, false);
}

static void ask_producers(struct pfl_service *service, const struct pfl_session *session,
                          struct pfl_flush *flush, enum pfl_command_scope scope)
{
    const struct pfl_command_flush command = {
        .scope = scope, .request_id = flush->id, .flags = flush->flags};
    struct pfl_session_producers walk = pfl_session_begin_producers(service, session);
    struct pfl_producer *producer;

    while ((producer = pfl_session_next_producer(&walk)) != NULL) {
        if (pfl_command_flush(producer, session, &command))
            pfl_flush_wait_for(flush, &producer->flushes, producer->id);
    }
}

static int new_flush(struct pfl_service *service, const struct pfl_session *session,
                     struct pfl_flush **ret_flush)
{
    struct pfl_session_producers walk = pfl_session_begin_producers(service, session);
    struct pfl_flush_conf conf = {.session_id = session->id, .who = session->who};

    if (session->state != PFL_SESSION_STARTED)
        return PFL_ESTATE;
    while (pfl_session_next_producer(&walk) != NULL)
        conf.producers_max++;
    return pfl_flush_book_new_flush(&service->flushes, &conf, ret_flush);
}

static uint64_t get_deadline_ms(const struct pfl_service *service,
                                const struct pfl_session *session, uint32_t timeout_ms)
{
    if (timeout_ms == 0)
        timeout_ms = session->plan->flush_timeout_ms;
    if (timeout_ms > PFL_FLUSH_TIMEOUT_MAX_MS)
        timeout_ms = PFL_FLUSH_TIMEOUT_MAX_MS;
    return pfl_service_now_ms(service) + timeout_ms;
}

void pfl_session_flush(struct pfl_service *service, struct pfl_session *session,
                       const struct pfl_session_flush_conf *conf)
{
    struct pfl_flush *flush;

    if (new_flush(service, session, &flush) != 0) {
        fail_flush(service, session, conf);
        return;
    }
    session->counters.flushes_requested++;
    flush->deadline_ms = get_deadline_ms(service, session, conf->timeout_ms);
    flush->then = conf->then;
    flush->flags = conf->flags;
    flush->request_id = conf->request_id;
    flush->drop_reply = conf->drop_reply;
    flush->consumer = session->consumer;
    if (conf->then != PFL_FLUSH_THEN_CLONE) /* recorded once for its two flushes */
        pfl_session_record(service, session, PFL_EVENT_FLUSH_STARTED, (struct pfl_span){0});
    ask_producers(service, session, flush, conf->scope);
    pfl_flush_book_add(&service->flushes, flush);
    if (flush->waiting_len != 0)
        pfl_service_look_at(service, flush->deadline_ms);
    else
        on_answered(service, flush);
}

void pfl_session_ack_flush(struct pfl_service *service, struct pfl_producer *producer,
                           uint64_t flush_id_untrusted)
{
    pfl_flush_book_ack(&service->flushes, &producer->flushes, flush_id_untrusted, on_answered,
                       service);
}

void pfl_session_lose_flushes(struct pfl_service *service, struct pfl_producer *producer)
{
    pfl_flush_book_lose(&service->flushes, &producer->flushes, on_answered, service);
}

void pfl_session_expire_flushes(struct pfl_service *service)
{
    pfl_flush_book_expire(&service->flushes, pfl_service_now_ms(service), on_answered, service);
}

void pfl_session_cancel_flushes(struct pfl_service *service, const struct pfl_session *session)
{
    pfl_flush_book_cancel(&service->flushes, session->id, on_flush_cancelled, NULL);
}

static void forget(struct pfl_list *flushes, const struct pfl_consumer *consumer)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, flushes) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (flush->then == PFL_FLUSH_THEN_REPLY && flush->consumer == consumer)
            flush->then = PFL_FLUSH_THEN_NOTHING;
    }
}

void pfl_session_forget_flushes(struct pfl_service *service, const struct pfl_consumer *consumer)
{
    forget(&service->flushes.pending, consumer);
    forget(&service->flushes.answered, consumer);
}
