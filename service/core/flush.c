/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of pending flushes.
 *
 * A flush is made with room for its producers, filled by the caller, then added. Producers ack ids;
 * an ack covers every older flush of that producer in all sessions. After the last ack, or at the
 * deadline, the flush is answered. It then waits for a scrape that begins later, because that must
 * include what was written before the ack. A scrape ends all flushes that were answered when it
 * began. The end of the session ends all. Callbacks may add and end flushes: after each callback
 * every function starts again from the front of the list.
 *
 * A producer that disconnects is no longer waited for, but its flush fails once the others have
 * acked: uncommitted data of that producer is missing. The flush does not wait for its deadline.
 * Limits: flushes per session, producers waited for in all.
 */
#include "service/core/flush.h"

#include "base/mem.h"

void pfl_flush_book_init(struct pfl_flush_book *self)
{
    *self = (struct pfl_flush_book){0};
    pfl_list_init(&self->pending);
    pfl_list_init(&self->answered);
}

static void remove_flush(struct pfl_flush_book *book, struct pfl_flush *flush)
{
    pfl_list_remove(&flush->node);
    book->waiting_total -= flush->waiting_len;
}

static void free_all(struct pfl_flush_book *book, struct pfl_list *flushes)
{
    while (!pfl_list_is_empty(flushes)) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(flushes->next, struct pfl_flush, node);

        remove_flush(book, flush);
        pfl_flush_free(flush);
    }
}

void pfl_flush_book_fini(struct pfl_flush_book *self)
{
    if (self->pending.next == NULL)
        return;
    free_all(self, &self->pending);
    free_all(self, &self->answered);
}

static size_t count(const struct pfl_list *flushes, uint64_t session_id)
{
    struct pfl_list *it;
    size_t of_session = 0;

    PFL_LIST_EACH (it, flushes)
        of_session += PFL_CONTAINER_OF(it, struct pfl_flush, node)->session_id == session_id;
    return of_session;
}

int pfl_flush_book_new_flush(struct pfl_flush_book *self, uint64_t session_id, size_t producers_max,
                             struct pfl_flush **ret_flush)
{
    struct pfl_flush *flush;
    size_t of_session = count(&self->pending, session_id) + count(&self->answered, session_id);

    if (of_session > PFL_FLUSH_MAX_PER_SESSION ||
        producers_max > PFL_FLUSH_MAX_WAITING - self->waiting_total)
        return PFL_ELIMIT;
    flush = pfl_mem_zalloc(sizeof(*flush) + producers_max * sizeof(flush->waiting[0]));
    if (flush == NULL)
        return PFL_ENOMEM;
    flush->id = ++self->last_id;
    flush->session_id = session_id;
    *ret_flush = flush;
    return 0;
}

void pfl_flush_free(struct pfl_flush *flush)
{
    pfl_mem_free(flush);
}

void pfl_flush_book_add(struct pfl_flush_book *self, struct pfl_flush *flush)
{
    flush->is_ok = true;
    pfl_list_append(flush->waiting_len != 0 ? &self->pending : &self->answered, &flush->node);
    self->waiting_total += flush->waiting_len;
}

static void answer(struct pfl_flush_book *book, struct pfl_flush *flush, bool is_ok,
                   pfl_flush_answered_cb answered, void *user)
{
    flush->is_ok = is_ok;
    pfl_list_remove(&flush->node);
    pfl_list_append(&book->answered, &flush->node);
    answered(user, flush);
}

static bool drop_producer(struct pfl_flush_book *book, struct pfl_flush *flush, uint16_t producer)
{
    for (size_t i = 0; i < flush->waiting_len; i++) {
        if (flush->waiting[i] != producer)
            continue;
        flush->waiting[i] = flush->waiting[--flush->waiting_len];
        book->waiting_total--;
        return true;
    }
    return false;
}

static void answer_complete(struct pfl_flush_book *self, pfl_flush_answered_cb answered, void *user)
{
    struct pfl_list *it;

    for (it = self->pending.next; it != &self->pending;) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        it = it->next;
        if (flush->waiting_len != 0)
            continue;
        answer(self, flush, !flush->has_lost, answered, user);
        it = self->pending.next;
    }
}

void pfl_flush_book_ack(struct pfl_flush_book *self, uint16_t producer_id, uint64_t id_untrusted,
                        pfl_flush_answered_cb answered, void *user)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->pending) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (flush->id > id_untrusted)
            break;
        (void)drop_producer(self, flush, producer_id);
    }
    answer_complete(self, answered, user);
}

void pfl_flush_book_lose(struct pfl_flush_book *self, uint16_t producer_id,
                         pfl_flush_answered_cb answered, void *user)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->pending) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (drop_producer(self, flush, producer_id))
            flush->has_lost = true;
    }
    answer_complete(self, answered, user);
}

void pfl_flush_book_expire(struct pfl_flush_book *self, uint64_t now_ms,
                           pfl_flush_answered_cb answered, void *user)
{
    struct pfl_list *it;

    for (it = self->pending.next; it != &self->pending;) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        it = it->next;
        if (flush->deadline_ms > now_ms)
            continue;
        answer(self, flush, false, answered, user);
        it = self->pending.next;
    }
}

void pfl_flush_book_join(struct pfl_flush_book *self, uint64_t session_id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->answered) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        flush->is_joined = flush->is_joined || flush->session_id == session_id;
    }
}

bool pfl_flush_book_has_answered(const struct pfl_flush_book *self, uint64_t session_id)
{
    return count(&self->answered, session_id) != 0;
}

struct pfl_flush *pfl_flush_book_take_joined(struct pfl_flush_book *self, uint64_t session_id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->answered) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (flush->session_id != session_id || !flush->is_joined)
            continue;
        remove_flush(self, flush);
        return flush;
    }
    return NULL;
}

static void cancel(struct pfl_flush_book *self, struct pfl_list *flushes, uint64_t session_id,
                   pfl_flush_done_cb done, void *user)
{
    struct pfl_list *it;

    for (it = flushes->next; it != flushes;) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        it = it->next;
        if (flush->session_id != session_id)
            continue;
        remove_flush(self, flush);
        done(user, flush, false);
        pfl_flush_free(flush);
        it = flushes->next;
    }
}

void pfl_flush_book_cancel(struct pfl_flush_book *self, uint64_t session_id, pfl_flush_done_cb done,
                           void *user)
{
    cancel(self, &self->answered, session_id, done, user);
    cancel(self, &self->pending, session_id, done, user);
}

uint64_t pfl_flush_book_next_deadline_ms(const struct pfl_flush_book *self)
{
    uint64_t next = UINT64_MAX;
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->pending) {
        const struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (flush->deadline_ms < next)
            next = flush->deadline_ms;
    }
    return next;
}
