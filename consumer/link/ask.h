/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks many hosts something at once: a connection and a deadline for each, requests one after the
 * other as the owner makes them, and for each host an end in words. What every command does that
 * is no recording.
 */
#ifndef PFL_CONSUMER_ASK_H
#define PFL_CONSUMER_ASK_H

#include "base/buf.h"
#include "consumer/link/host_conn.h"

#define PFL_ASK_ANSWER_MAX_BYTES (16u << 20)

struct pfl_ask;

struct pfl_asked_host {
    struct pfl_ask *owner;
    const struct pfl_host_spec *spec;
    struct pfl_host_conn *conn; /* owned; NULL: closed */
    uv_timer_t timer;
    uint64_t ends_by_ms;                           /* of the loop */
    void (*next)(struct pfl_asked_host *host);     /* when the timer fires; NULL: that is the end */
    struct pfl_buf answer;                         /* for the owner to fill */
    void (*on_state)(struct pfl_asked_host *host); /* of host_state.h */
    size_t index;                                  /* in the conf's specs */
    char name[PFL_HOST_NAME_MAX];
    char why[768]; /* "" when it ended well */
    bool is_done;
};

struct pfl_ask_conf {
    struct pfl_host_conn_conf conn;    /* spec, on_ready, on_closed and user are ours */
    const struct pfl_host_spec *specs; /* borrowed until free */
    size_t specs_len;
    uint64_t timeout_ms; /* of the whole conversation with one host */
    /* The host can be asked: from the loop. */
    void (*on_ready)(void *user, struct pfl_asked_host *host);
    /* The last host has ended: from the loop, once; the ask may be freed. Not by pfl_ask_run. */
    void (*on_over)(void *user);
    void *user;
};

/* Connects, and runs the loop until the last host has ended. PFL_ENOMEM. */
PFL_MUST_USE int pfl_ask_run(const struct pfl_ask_conf *conf, struct pfl_ask **ret_ask);
/* Connects; on_over follows. PFL_ENOMEM. */
PFL_MUST_USE int pfl_ask_open(const struct pfl_ask_conf *conf, struct pfl_ask **ret_ask);
/* All hosts that have not ended fail. */
void pfl_ask_abort(struct pfl_ask *self, const char *why);
/* After the last host has ended; NULL is legal. */
void pfl_ask_free(struct pfl_ask *self);
size_t pfl_ask_get_len(const struct pfl_ask *self);
/* Borrowed until free. */
const struct pfl_asked_host *pfl_ask_get_host(const struct pfl_ask *self, size_t host);
/* How many ended badly. */
size_t pfl_ask_count_failed(const struct pfl_ask *self);

/* The conf's user. */
void *pfl_ask_get_user(const struct pfl_asked_host *host);
/* One request; a failure to make it ends the host. `cb` gets the host as its user. */
void pfl_ask_request(struct pfl_asked_host *host, const char *method, struct pfl_span args,
                     pfl_rpc_reply_cb cb);
/* Requests made between the two go in one write; a failure ends the host. */
void pfl_ask_cork(struct pfl_asked_host *host);
void pfl_ask_uncork(struct pfl_asked_host *host);
/* `next` follows from the loop, once, unless the deadline comes first. */
void pfl_ask_later(struct pfl_asked_host *host, uint64_t ms,
                   void (*next)(struct pfl_asked_host *host));
/* The host ended well, or badly. Its connection closes. */
void pfl_ask_done(struct pfl_asked_host *host);
void pfl_ask_fail(struct pfl_asked_host *host, const char *why);

#endif
