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

struct pfl_consumer;

#define PFL_FLUSH_MAX_PER_SESSION 1000u
#define PFL_FLUSH_MAX_WAITING     (1u << 20) /* producers waited for, over all flushes */

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

struct pfl_flush {
    struct pfl_list node;
    uint64_t id;
    uint64_t session_id;
    uint64_t deadline_ms;
    enum pfl_flush_then then;
    uint64_t request_id; /* PFL_FLUSH_THEN_REPLY, _CLONE */
    bool drop_reply;
    struct pfl_consumer *consumer; /* _REPLY: the requester; borrowed until its connection ends */
    bool has_lost;                 /* a producer that it waited for disconnected */
    uint64_t flags;
    bool is_ok;     /* its result; known once it is answered */
    bool is_joined; /* it ends with the current scrape */
    size_t waiting_len;
    uint16_t waiting[]; /* producer ids */
};

struct pfl_flush_book {
    struct pfl_list pending;  /* owned pfl_flush, ascending id: waiting for producers */
    struct pfl_list answered; /* owned, in the order of their answers: waiting for a scrape */
    uint64_t last_id;
    size_t waiting_total;
};

/* The flush was removed from the table and is freed after the call. */
typedef void (*pfl_flush_done_cb)(void *user, const struct pfl_flush *flush, bool is_ok);
/* The flush no longer waits for producers: it is in `answered`. The callback may free it. */
typedef void (*pfl_flush_answered_cb)(void *user, struct pfl_flush *flush);

void pfl_flush_book_init(struct pfl_flush_book *self);
void pfl_flush_book_fini(struct pfl_flush_book *self);
/* Makes a flush for up to `producers_max` producers. Until pfl_flush_book_add it is not in the
 * table, and the caller's to free with pfl_flush_free. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_flush_book_new_flush(struct pfl_flush_book *self, uint64_t session_id,
                                          size_t producers_max, struct pfl_flush **ret_flush);
void pfl_flush_free(struct pfl_flush *flush);
/* Transfers `flush`. If it waits for no producer, it is answered. */
void pfl_flush_book_add(struct pfl_flush_book *self, struct pfl_flush *flush);
/* Producer `producer_id` completed all flushes up to `id_untrusted`. `answered` is called for those
 * that wait for no other producer. */
void pfl_flush_book_ack(struct pfl_flush_book *self, uint16_t producer_id, uint64_t id_untrusted,
                        pfl_flush_answered_cb answered, void *user);
/* Producer `producer_id` disconnected. Its flushes no longer wait for it, and fail once they wait
 * for no other producer. */
void pfl_flush_book_lose(struct pfl_flush_book *self, uint16_t producer_id,
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
/* UINT64_MAX when nothing is pending. */
uint64_t pfl_flush_book_next_deadline_ms(const struct pfl_flush_book *self);

#endif
