/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The book of pending flushes.
 *
 * A flush is made with room for its producers, filled by the caller, then added. Producers ack ids;
 * an ack covers every older flush of that producer in all sessions. The last ack, the deadline or
 * the end of the session takes the flush out of the book, calls `done` and frees it; `done` may add
 * flushes and end others: every call starts over from the front of the list after each `done`.
 *
 * A producer that disconnects is waited for no longer, but its flush fails once the others have
 * acked: what it had not committed is missing, and nobody stands still for it until the deadline.
 * Limits: flushes per session, producers waited for in all.
 */
#include "service/session/flush.h"

#include <assert.h>

#include "base/mem.h"

void pfl_flush_book_init(struct pfl_flush_book *self)
{
    *self = (struct pfl_flush_book){0};
    pfl_list_init(&self->pending);
}

static void remove_flush(struct pfl_flush_book *book, struct pfl_flush *flush)
{
    pfl_list_remove(&flush->node);
    book->waiting_total -= flush->waiting_len;
}

void pfl_flush_book_fini(struct pfl_flush_book *self)
{
    struct pfl_list *it;
    struct pfl_list *tmp;

    if (self->pending.next == NULL)
        return;
    PFL_LIST_EACH_SAFE (it, tmp, &self->pending) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        remove_flush(self, flush);
        pfl_flush_free(flush);
    }
}

int pfl_flush_book_new_flush(struct pfl_flush_book *self, uint64_t session_id, size_t producers_max,
                             struct pfl_flush **ret_flush)
{
    struct pfl_flush *flush;
    struct pfl_list *it;
    unsigned of_session = 0;

    PFL_LIST_EACH (it, &self->pending) {
        of_session += PFL_CONTAINER_OF(it, struct pfl_flush, node)->session_id == session_id;
    }
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
    assert(flush->waiting_len > 0);
    pfl_list_append(&self->pending, &flush->node);
    self->waiting_total += flush->waiting_len;
}

static void end_flush(struct pfl_flush_book *book, struct pfl_flush *flush, bool is_ok,
                      pfl_flush_done_cb done, void *user)
{
    remove_flush(book, flush);
    done(user, flush, is_ok);
    pfl_flush_free(flush);
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

static void end_complete(struct pfl_flush_book *self, pfl_flush_done_cb done, void *user)
{
    struct pfl_list *it;

    for (it = self->pending.next; it != &self->pending;) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        it = it->next;
        if (flush->waiting_len != 0)
            continue;
        end_flush(self, flush, !flush->has_lost, done, user);
        it = self->pending.next;
    }
}

void pfl_flush_book_ack(struct pfl_flush_book *self, uint16_t producer_id, uint64_t id_untrusted,
                        pfl_flush_done_cb done, void *user)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->pending) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (flush->id > id_untrusted)
            break;
        (void)drop_producer(self, flush, producer_id);
    }
    end_complete(self, done, user);
}

void pfl_flush_book_lose(struct pfl_flush_book *self, uint16_t producer_id, pfl_flush_done_cb done,
                         void *user)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->pending) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (drop_producer(self, flush, producer_id))
            flush->has_lost = true;
    }
    end_complete(self, done, user);
}

void pfl_flush_book_expire(struct pfl_flush_book *self, uint64_t now_ms, pfl_flush_done_cb done,
                           void *user)
{
    struct pfl_list *it;

    for (it = self->pending.next; it != &self->pending;) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        it = it->next;
        if (flush->deadline_ms > now_ms)
            continue;
        end_flush(self, flush, false, done, user);
        it = self->pending.next;
    }
}

void pfl_flush_book_cancel(struct pfl_flush_book *self, uint64_t session_id, pfl_flush_done_cb done,
                           void *user)
{
    struct pfl_list *it;

    for (it = self->pending.next; it != &self->pending;) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        it = it->next;
        if (flush->session_id != session_id)
            continue;
        end_flush(self, flush, false, done, user);
        it = self->pending.next;
    }
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
