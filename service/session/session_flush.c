/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flushing and scraping.
 *
 * A flush is announced in the trace, sent to every producer with an instance that takes part, and
 * ends when all have acknowledged, at its deadline, or at once when nobody takes part. At the end:
 * scrape, count, record, then reply to the consumer or disable the session. A flush that a
 * consumer asked for and that cannot begin fails at once.
 */
#include "service/session/session_flush.h"

#include "base/log.h"
#include "service/buffer/smb_scrape.h"
#include "service/control/command.h"
#include "service/session/clone.h"
#include "service/session/session_file.h"
#include "service/session/session_run.h"
#include "service/session/session_timers.h"

struct scrape_scope {
    const struct pfl_session *session;
    const struct pfl_producer *producer;
};

static struct pfl_trace_buffer *get_writer_buffer(void *user, uint16_t writer_id)
{
    const struct scrape_scope *scope = user;
    uint16_t buffer_id = pfl_producer_get_writer(scope->producer, writer_id);

    if (buffer_id == 0 || !pfl_producer_is_allowed(scope->producer, buffer_id))
        return NULL;
    return pfl_session_get_buffer(scope->session, buffer_id);
}

/* A producer without any costs the session nothing, whatever memory it has. */
static bool may_have_chunks(const struct pfl_session *session, const struct pfl_producer *producer)
{
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        if (pfl_producer_is_allowed(producer, session->buffers[i].id))
            return true;
    }
    return false;
}

bool pfl_session_scrape_producer(struct pfl_service *service, struct pfl_session *session,
                                 const struct pfl_producer *producer)
{
    struct scrape_scope scope = {.session = session, .producer = producer};
    struct pfl_smb_scrape_conf conf = {
        .identity = {.producer_id = producer->id,
                     .uid = producer->uid,
                     .pid = producer->pid,
                     .machine_id = producer->machine_id},
        .map = &producer->smb,
        .get_writer_buffer = get_writer_buffer,
        .user = &scope,
    };
    struct pfl_smb_scrape_result result;

    if (!producer->wants_scraping || producer->writers_len == 0 ||
        !pfl_smb_map_is_open(&producer->smb) || !may_have_chunks(session, producer))
        return true;
    conf.credit = pfl_scraping_begin(&service->scraping, session->who, producer->who,
                                     pfl_service_now_ms(service));
    result = pfl_smb_scrape(&conf);
    pfl_scraping_end(&service->scraping, session->who, producer->who, result.units);
    if (result.is_cut)
        pfl_log_warn("scrape-cut",
                     "session=%llu producer=%s uid=%u reason=\"what this user's producers have not "
                     "committed is more than may be looked at now\"",
                     (unsigned long long)session->id, pfl_log_quote_str(producer->name),
                     producer->uid);
    return !result.is_cut;
}

bool pfl_session_scrape(struct pfl_service *service, struct pfl_session *session)
{
    bool is_whole = true;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->permitted) {
        const struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, permitted);

        is_whole = pfl_session_scrape_producer(service, session, producer) && is_whole;
    }
    return is_whole;
}

static bool is_waiting(const struct pfl_flush *flush, const struct pfl_producer *producer)
{
    for (size_t i = 0; producer != NULL && i < flush->waiting_len; i++) {
        if (flush->waiting[i] == producer->id)
            return true;
    }
    return false;
}

static void record_slow(struct pfl_service *service, struct pfl_session *session,
                        const struct pfl_flush *flush)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_list *it;
    unsigned named = 0;

    pfl_buf_init(&buf, 65536);
    PFL_LIST_EACH (it, &session->instances) {
        const struct pfl_instance *instance = PFL_CONTAINER_OF(it, struct pfl_instance, of_session);

        if ((instance->flags & PFL_DATA_SOURCE_NO_FLUSH) == 0 &&
            is_waiting(flush, instance->producer) && named++ < PFL_SESSION_SLOW_MAX)
            pfl_session_encode_slow(&m, session, instance);
    }
    if (m.rc == 0)
        pfl_session_record(service, session, PFL_EVENT_SLOW_FLUSH, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
}

/* What was recorded is only worth keeping for a consumer. */
static void stop(struct pfl_service *service, struct pfl_session *session)
{
    if (pfl_session_is_detached(session))
        pfl_session_end(service, session);
    else
        pfl_session_disable(service, session);
}

/* The end of a flush of a session that is still there. It may be gone afterwards. */
static void end_flush(struct pfl_service *service, struct pfl_session *session,
                      const struct pfl_flush *flush, bool is_ok)
{
    struct pfl_session_counters *counters = &session->counters;

    is_ok = pfl_session_scrape(service, session) && is_ok;
    pfl_session_snapshot_clocks(service, session);
    if (!is_ok && ((flush->flags & 0xf) == PFL_FLUSH_TRACE_STOP ||
                   (flush->flags & 0xf) == PFL_FLUSH_TRACE_CLONE))
        record_slow(service, session, flush);
    pfl_session_record(service, session, PFL_EVENT_ALL_FLUSHED, (struct pfl_span){0});
    counters->flushes_succeeded += is_ok;
    counters->flushes_failed += !is_ok;
    if (flush->then == PFL_FLUSH_THEN_REPLY) {
        flush->consumer->ops->on_flush_done(flush->consumer->port, flush, is_ok);
    } else if (flush->then == PFL_FLUSH_THEN_DISABLE) {
        counters->final_flush_outcome = is_ok ? 1 : 2;
        stop(service, session);
    } else if (flush->then == PFL_FLUSH_THEN_CLONE) {
        pfl_clone_on_flushed(service, session, flush->request_id, is_ok);
    } else if (flush->then == PFL_FLUSH_THEN_WRITE) {
        pfl_session_file_write(session->file);
    } else if (flush->then == PFL_FLUSH_THEN_CUT) {
        pfl_session_file_cut(session->file);
    }
}

static void on_flush_done(void *user, const struct pfl_flush *flush, bool is_ok)
{
    struct pfl_service *service = user;
    struct pfl_session *session = pfl_service_find_session(service, flush->session_id);

    if (session != NULL)
        end_flush(service, session, flush, is_ok);
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
    else if (conf->then == PFL_FLUSH_THEN_DISABLE)
        stop(service, session);
    else if (conf->then == PFL_FLUSH_THEN_CLONE)
        pfl_clone_on_flushed(service, session, conf->request_id, false);
    else if (conf->then == PFL_FLUSH_THEN_WRITE)
        pfl_session_file_write(session->file);
    else if (conf->then == PFL_FLUSH_THEN_CUT)
        pfl_session_file_cut(session->file);
}

static void ask_producers(struct pfl_service *service, const struct pfl_session *session,
                          struct pfl_flush *flush, enum pfl_command_scope scope)
{
    const struct pfl_command_flush command = {
        .scope = scope, .request_id = flush->id, .flags = flush->flags};
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->producers) {
        struct pfl_producer *producer = PFL_CONTAINER_OF(it, struct pfl_producer, node);

        if (pfl_command_flush(producer, session, &command))
            flush->waiting[flush->waiting_len++] = producer->id;
    }
}

void pfl_session_flush(struct pfl_service *service, struct pfl_session *session,
                       const struct pfl_session_flush_conf *conf)
{
    uint32_t timeout_ms =
        conf->timeout_ms != 0 ? conf->timeout_ms : session->plan->flush_timeout_ms;
    struct pfl_flush *flush;

    if (session->state != PFL_SESSION_STARTED ||
        pfl_flush_book_new_flush(&service->flushes, session->id, service->producers_len, &flush) !=
            0) {
        fail_flush(service, session, conf);
        return;
    }
    session->counters.flushes_requested++;
    flush->deadline_ms = pfl_service_now_ms(service) + timeout_ms;
    flush->then = conf->then;
    flush->flags = conf->flags;
    flush->request_id = conf->request_id;
    flush->drop_reply = conf->drop_reply;
    flush->consumer = session->consumer;
    if (conf->then != PFL_FLUSH_THEN_CLONE) /* recorded once for its two flushes */
        pfl_session_record(service, session, PFL_EVENT_FLUSH_STARTED, (struct pfl_span){0});
    ask_producers(service, session, flush, conf->scope);
    if (flush->waiting_len != 0) {
        pfl_session_timers_look_at(service, flush->deadline_ms);
        pfl_flush_book_add(&service->flushes, flush);
        return;
    }
    end_flush(service, session, flush, true);
    pfl_flush_free(flush);
}

void pfl_session_ack_flush(struct pfl_service *service, const struct pfl_producer *producer,
                           uint64_t flush_id_untrusted)
{
    pfl_flush_book_ack(&service->flushes, producer->id, flush_id_untrusted, on_flush_done, service);
}

void pfl_session_lose_flushes(struct pfl_service *service, uint16_t producer_id)
{
    pfl_flush_book_lose(&service->flushes, producer_id, on_flush_done, service);
}

void pfl_session_expire_flushes(struct pfl_service *service)
{
    pfl_flush_book_expire(&service->flushes, pfl_service_now_ms(service), on_flush_done, service);
}

void pfl_session_cancel_flushes(struct pfl_service *service, const struct pfl_session *session)
{
    pfl_flush_book_cancel(&service->flushes, session->id, on_flush_cancelled, NULL);
}

void pfl_session_forget_flushes(struct pfl_service *service, const struct pfl_consumer *consumer)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &service->flushes.pending) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (flush->then == PFL_FLUSH_THEN_REPLY && flush->consumer == consumer)
            flush->then = PFL_FLUSH_THEN_NOTHING;
    }
}
