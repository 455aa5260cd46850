/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of pending flushes.
 *
 * A flush is made with room for its producers, filled by the caller, then added. Producers ack ids;
 * an ack covers every older flush of that producer in all sessions. Each producer has a list of
 * what waits for it, so an ack costs as much as it completes. After the last ack, or at the
 * deadline, the flush is answered. It then waits for a scrape that begins later, because that must
 * include what was written before the ack. A scrape ends all flushes that were answered when it
 * began. The end of the session ends all. Callbacks may add and end flushes: what is to end moves
 * to the front of its list first, so that each function takes the front until it is another's.
 *
 * A producer that disconnects is no longer waited for, but its flush fails once the others have
 * acked: uncommitted data of that producer is missing. The flush does not wait for its deadline.
 * Limits: flushes per session; of each user, producers waited for, and memory.
 */
#include "service/core/flush.h"

#include <assert.h>

#include "base/mem.h"

void pfl_flush_book_init(struct pfl_flush_book *self, struct pfl_shares *memory)
{
    *self = (struct pfl_flush_book){.look_ms = UINT64_MAX, .memory = memory};
    self->waits.max = PFL_FLUSH_MAX_WAITING;
    pfl_list_init(&self->pending);
    pfl_list_init(&self->answered);
}

static size_t get_bytes(size_t producers_max)
{
    return sizeof(struct pfl_flush) + producers_max * sizeof(struct pfl_flush_wait);
}

static bool charge(struct pfl_flush_book *book, uint64_t who, size_t producers_max)
{
    if (!pfl_shares_take(&book->waits, who, producers_max))
        return false;
    if (book->memory == NULL || pfl_shares_take(book->memory, who, get_bytes(producers_max)))
        return true;
    pfl_shares_give(&book->waits, who, producers_max);
    return false;
}

static void give_memory(struct pfl_flush_book *book, uint64_t who, size_t producers_max)
{
    if (book->memory != NULL)
        pfl_shares_give(book->memory, who, get_bytes(producers_max));
}

/* Its producers' acks no longer find it. */
static void stop_waiting(struct pfl_flush_book *book, struct pfl_flush *flush)
{
    for (size_t i = 0; i < flush->waits_len; i++)
        pfl_list_remove(&flush->waits[i].of_producer);
    pfl_shares_give(&book->waits, flush->who, flush->charged_waits);
    flush->charged_waits = 0;
}

void pfl_flush_book_free(struct pfl_flush_book *self, struct pfl_flush *flush)
{
    stop_waiting(self, flush);
    give_memory(self, flush->who, flush->waits_max);
    pfl_mem_free(flush);
}

static void free_all(struct pfl_flush_book *book, struct pfl_list *flushes)
{
    while (!pfl_list_is_empty(flushes)) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(flushes->next, struct pfl_flush, node);

        pfl_list_remove(&flush->node);
        pfl_flush_book_free(book, flush);
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

int pfl_flush_book_new_flush(struct pfl_flush_book *self, const struct pfl_flush_conf *conf,
                             struct pfl_flush **ret_flush)
{
    struct pfl_flush *flush;
    size_t of_session =
        count(&self->pending, conf->session_id) + count(&self->answered, conf->session_id);

    if (of_session > PFL_FLUSH_MAX_PER_SESSION || !charge(self, conf->who, conf->producers_max))
        return PFL_ELIMIT;
    flush = pfl_mem_zalloc(get_bytes(conf->producers_max));
    if (flush == NULL) {
        pfl_shares_give(&self->waits, conf->who, conf->producers_max);
        give_memory(self, conf->who, conf->producers_max);
        return PFL_ENOMEM;
    }
    flush->id = ++self->last_id;
    flush->session_id = conf->session_id;
    flush->who = conf->who;
    flush->waits_max = flush->charged_waits = conf->producers_max;
    *ret_flush = flush;
    return 0;
}

void pfl_flush_wait_for(struct pfl_flush *flush, struct pfl_list *waits, uint16_t producer_id)
{
    struct pfl_flush_wait *wait = &flush->waits[flush->waits_len];

    assert(flush->waits_len < flush->waits_max);
    *wait = (struct pfl_flush_wait){.flush = flush, .producer_id = producer_id, .is_open = true};
    pfl_list_append(waits, &wait->of_producer);
    flush->waits_len++;
    flush->waiting_len++;
}

void pfl_flush_book_add(struct pfl_flush_book *self, struct pfl_flush *flush)
{
    flush->is_ok = true;
    if (flush->waiting_len == 0) {
        stop_waiting(self, flush);
        pfl_list_append(&self->answered, &flush->node);
        return;
    }
    pfl_list_append(&self->pending, &flush->node);
    if (flush->deadline_ms < self->look_ms)
        self->look_ms = flush->deadline_ms;
}

static void answer(struct pfl_flush_book *book, struct pfl_flush *flush, bool is_ok,
                   pfl_flush_answered_cb answered, void *user)
{
    flush->is_ok = is_ok;
    stop_waiting(book, flush);
    pfl_list_remove(&flush->node);
    pfl_list_append(&book->answered, &flush->node);
    answered(user, flush);
}

static struct pfl_flush_wait *get_first(struct pfl_list *waits)
{
    return pfl_list_is_empty(waits)
               ? NULL
               : PFL_CONTAINER_OF(waits->next, struct pfl_flush_wait, of_producer);
}

/* One producer of a pending flush is done. */
static void end_wait(struct pfl_flush_book *book, struct pfl_flush_wait *wait,
                     pfl_flush_answered_cb answered, void *user)
{
    struct pfl_flush *flush = wait->flush;

    pfl_list_remove(&wait->of_producer);
    wait->is_open = false;
    if (--flush->waiting_len == 0)
        answer(book, flush, !flush->has_lost, answered, user);
}

void pfl_flush_book_ack(struct pfl_flush_book *self, struct pfl_list *waits, uint64_t id_untrusted,
                        pfl_flush_answered_cb answered, void *user)
{
    uint64_t id = id_untrusted < self->last_id ? id_untrusted : self->last_id;
    struct pfl_flush_wait *wait;

    while ((wait = get_first(waits)) != NULL && wait->flush->id <= id)
        end_wait(self, wait, answered, user);
}

void pfl_flush_book_lose(struct pfl_flush_book *self, struct pfl_list *waits,
                         pfl_flush_answered_cb answered, void *user)
{
    struct pfl_flush_wait *wait;

    while ((wait = get_first(waits)) != NULL) {
        wait->flush->has_lost = true;
        end_wait(self, wait, answered, user);
    }
}

static struct pfl_flush *get_front(struct pfl_list *flushes)
{
    return pfl_list_is_empty(flushes) ? NULL
                                      : PFL_CONTAINER_OF(flushes->next, struct pfl_flush, node);
}

/* Behind those that were moved there before. */
static void move_to_front(struct pfl_list **front, struct pfl_flush *flush)
{
    if (*front != &flush->node) {
        pfl_list_remove(&flush->node);
        pfl_list_append(*front, &flush->node);
    } else {
        *front = (*front)->next;
    }
}

/* Moves those that are due to the front; the others have the next deadline. */
static void sort_due(struct pfl_flush_book *book, uint64_t now_ms)
{
    struct pfl_list *front = book->pending.next;
    struct pfl_list *next;

    book->look_ms = UINT64_MAX;
    for (struct pfl_list *it = front; it != &book->pending; it = next) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        next = it->next;
        if (flush->deadline_ms <= now_ms)
            move_to_front(&front, flush);
        else if (flush->deadline_ms < book->look_ms)
            book->look_ms = flush->deadline_ms;
    }
}

void pfl_flush_book_expire(struct pfl_flush_book *self, uint64_t now_ms,
                           pfl_flush_answered_cb answered, void *user)
{
    struct pfl_flush *flush;

    if (self->look_ms > now_ms)
        return;
    sort_due(self, now_ms);
    while ((flush = get_front(&self->pending)) != NULL && flush->deadline_ms <= now_ms)
        answer(self, flush, false, answered, user);
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
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->answered) {
        if (PFL_CONTAINER_OF(it, struct pfl_flush, node)->session_id == session_id)
            return true;
    }
    return false;
}

struct pfl_flush *pfl_flush_book_take_joined(struct pfl_flush_book *self, uint64_t session_id)
{
    struct pfl_list *it;

    PFL_LIST_EACH (it, &self->answered) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        if (flush->session_id != session_id || !flush->is_joined)
            continue;
        pfl_list_remove(&flush->node);
        return flush;
    }
    return NULL;
}

static void sort_session(struct pfl_list *flushes, uint64_t session_id)
{
    struct pfl_list *front = flushes->next;
    struct pfl_list *next;

    for (struct pfl_list *it = front; it != flushes; it = next) {
        struct pfl_flush *flush = PFL_CONTAINER_OF(it, struct pfl_flush, node);

        next = it->next;
        if (flush->session_id == session_id)
            move_to_front(&front, flush);
    }
}

static void cancel(struct pfl_flush_book *self, struct pfl_list *flushes, uint64_t session_id,
                   pfl_flush_done_cb done, void *user)
{
    struct pfl_flush *flush;

    sort_session(flushes, session_id);
    while ((flush = get_front(flushes)) != NULL && flush->session_id == session_id) {
        pfl_list_remove(&flush->node);
        done(user, flush, false);
        pfl_flush_book_free(self, flush);
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
    return pfl_list_is_empty(&self->pending) ? UINT64_MAX : self->look_ms;
}
