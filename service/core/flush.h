/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pending flushes, which wait for producers (docs/abi/service.md section 4). A core: time is an
 * argument, sessions and producers are ids.
 */
#ifndef PFL_SERVICE_FLUSH_H
#define PFL_SERVICE_FLUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/shares.h"

struct pfl_consumer;

#define PFL_FLUSH_MAX_PER_SESSION 1000u
#define PFL_FLUSH_MAX_WAITING     (1u << 20) /* producers waited for, over all flushes */
#define PFL_FLUSH_TIMEOUT_MAX_MS  300000u    /* longer ones are shortened to this */

/* FlushFlags: initiator and reason, as producers see them. */
enum pfl_flush_reason {
    PFL_FLUSH_UNKNOWN = 0,
    PFL_FLUSH_PERIODIC = 1,
    PFL_FLUSH_TRACE_STOP = 2,
    PFL_FLUSH_TRACE_CLONE = 3,
};
#define PFL_FLUSH_INITIATOR_SERVICE (1u << 4)
#define PFL_FLUSH_FOR_BUGREPORT     (1u << 8)

enum pfl_flush_then {
    PFL_FLUSH_THEN_NOTHING, /* periodic */
    PFL_FLUSH_THEN_REPLY,   /* a consumer asked: answer `request_id` */
    PFL_FLUSH_THEN_DISABLE, /* the duration is over */
    PFL_FLUSH_THEN_WRITE,   /* into the session's file */
    PFL_FLUSH_THEN_CUT,     /* the session's file: the next segment begins */
    PFL_FLUSH_THEN_CLONE,   /* before a clone: `request_id` is clone.h's */
};

struct pfl_flush;

/* A producer that a flush waits for. */
struct pfl_flush_wait {
    struct pfl_list of_producer; /* in pfl_producer.flushes, ascending id of the flush */
    struct pfl_flush *flush;
    uint16_t producer_id;
    bool is_open; /* it has not acknowledged; remembered after the deadline */
};

struct pfl_flush {
    struct pfl_list node;
    uint64_t id;
    uint64_t session_id;
    uint64_t who; /* the session's user, who is charged */
    uint64_t deadline_ms;
    enum pfl_flush_then then;
    uint64_t request_id; /* PFL_FLUSH_THEN_REPLY, _CLONE */
    bool drop_reply;
    struct pfl_consumer *consumer; /* _REPLY: the requester; borrowed until its connection ends */
    bool has_lost;                 /* a producer that it waited for disconnected */
    uint64_t flags;
    bool is_ok;         /* its result; known once it is answered */
    bool is_joined;     /* it ends with the current scrape */
    size_t waiting_len; /* open waits */
    size_t waits_len;
    size_t waits_max;
    size_t charged_waits; /* in pfl_flush_book.waits, until it is answered */
    struct pfl_flush_wait waits[];
};

struct pfl_flush_conf {
    uint64_t session_id;
    uint64_t who;         /* the session's user: base/shares.h */
    size_t producers_max; /* that take part */
};

struct pfl_flush_book {
    struct pfl_list pending;  /* owned pfl_flush, ascending id: waiting for producers */
    struct pfl_list answered; /* owned, in the order of their answers: waiting for a scrape */
    uint64_t last_id;
    uint64_t look_ms;          /* no deadline is earlier */
    struct pfl_shares waits;   /* producers waited for, by the session's user */
    struct pfl_shares *memory; /* borrowed: what flushes cost; NULL: not charged */
};

/* The flush was removed from the table and is freed after the call. */
typedef void (*pfl_flush_done_cb)(void *user, const struct pfl_flush *flush, bool is_ok);
/* The flush no longer waits for producers: it is in `answered`. The callback may free it. */
typedef void (*pfl_flush_answered_cb)(void *user, struct pfl_flush *flush);

void pfl_flush_book_init(struct pfl_flush_book *self, struct pfl_shares *memory);
void pfl_flush_book_fini(struct pfl_flush_book *self);
/* Makes a flush. Until pfl_flush_book_add it is not in the table, and the caller's to free with
 * pfl_flush_book_free. PFL_ELIMIT: too many of the session, or its user's share is used up.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_flush_book_new_flush(struct pfl_flush_book *self,
                                          const struct pfl_flush_conf *conf,
                                          struct pfl_flush **ret_flush);
/* It waits for this producer too, whose list of waits (pfl_flush_wait.of_producer) is given. Before
 * pfl_flush_book_add, and before the next flush is made. */
void pfl_flush_wait_for(struct pfl_flush *flush, struct pfl_list *waits, uint16_t producer_id);
void pfl_flush_book_free(struct pfl_flush_book *self, struct pfl_flush *flush);
/* Transfers `flush`. If it waits for no producer, it is answered. */
void pfl_flush_book_add(struct pfl_flush_book *self, struct pfl_flush *flush);
/* The producer with these waits completed all flushes up to `id_untrusted`. `answered` is called
 * for those that wait for no other producer. */
void pfl_flush_book_ack(struct pfl_flush_book *self, struct pfl_list *waits, uint64_t id_untrusted,
                        pfl_flush_answered_cb answered, void *user);
/* The producer with these waits disconnected. Its flushes no longer wait for it, and fail once they
 * wait for no other producer. */
void pfl_flush_book_lose(struct pfl_flush_book *self, struct pfl_list *waits,
                         pfl_flush_answered_cb answered, void *user);
/* Flushes past their deadline fail, and no longer wait for producers. */
void pfl_flush_book_expire(struct pfl_flush_book *self, uint64_t now_ms,
                           pfl_flush_answered_cb answered, void *user);
/* A scrape of the session begins: it will end what is answered now. */
void pfl_flush_book_join(struct pfl_flush_book *self, uint64_t session_id);
/* True if an answered flush waits for a scrape. */
bool pfl_flush_book_has_answered(const struct pfl_flush_book *self, uint64_t session_id);
/* After that scrape: removes and returns the next flush that ends with it, the caller's to free;
 * NULL: none. */
struct pfl_flush *pfl_flush_book_take_joined(struct pfl_flush_book *self, uint64_t session_id);
/* Ends all flushes of a session, as failed. */
void pfl_flush_book_cancel(struct pfl_flush_book *self, uint64_t session_id, pfl_flush_done_cb done,
                           void *user);
/* Not later than the next deadline; UINT64_MAX when nothing is pending. */
uint64_t pfl_flush_book_next_deadline_ms(const struct pfl_flush_book *self);

#endif
