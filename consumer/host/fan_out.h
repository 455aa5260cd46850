/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends requests to many hosts in parallel, with one deadline each; the owner makes the requests,
 * and each host ends with a result as text. Used by all commands except recordings.
 */
#ifndef PFL_CONSUMER_FAN_OUT_H
#define PFL_CONSUMER_FAN_OUT_H

#include "base/buf.h"
#include "consumer/host/host_conn.h"

#define PFL_FAN_OUT_ANSWER_MAX_BYTES (16u << 20)
/* Of the answers of all hosts, as they are in memory. */
#define PFL_FAN_OUT_MAX_BYTES (256u << 20)

struct pfl_fan_out;

struct pfl_fan_out_host {
    struct pfl_fan_out *owner;
    const struct pfl_host_spec *spec;
    struct pfl_host_conn *conn; /* owned; NULL: closed */
    uv_timer_t timer;
    uint64_t ends_by_ms;                             /* of the loop */
    void (*next)(struct pfl_fan_out_host *host);     /* when the timer fires; NULL: the deadline */
    struct pfl_buf answer;                           /* filled by pfl_fan_out_add */
    size_t counted_bytes;                            /* of the sum, for the answer */
    void (*on_state)(struct pfl_fan_out_host *host); /* of host_state.h */
    const char *session;                             /* of detached_session.h; borrowed */
    size_t index;                                    /* in the conf's specs */
    char name[PFL_HOST_NAME_MAX];
    char why[768]; /* "" if it succeeded */
    bool is_done;
    bool is_kept; /* its connection waits for the next fan-out */
};

struct pfl_fan_out_conf {
    struct pfl_host_conn_conf conn;    /* fan_out sets spec, on_ready, on_closed and user */
    const struct pfl_host_spec *specs; /* borrowed until free */
    size_t specs_len;
    uint64_t timeout_ms; /* of the whole conversation with one host */
    size_t max_bytes;    /* of all answers; 0: PFL_FAN_OUT_MAX_BYTES */
    bool keeps;          /* connections of hosts that succeeded stay open, for the next fan-out */
    /* One that is over and kept connections: its hosts that are here, too, are asked over them, the
     * others' are closed. NULL: none. */
    struct pfl_fan_out *former;
    /* Requests may be made: called from the loop. */
    void (*on_ready)(void *user, struct pfl_fan_out_host *host);
    /* Called from the loop, once, when the last host has ended; the fan-out may be freed. Not used
     * by pfl_fan_out_run. */
    void (*on_over)(void *user);
    void *user;
};

/* Connects, and runs the loop until the last host has ended. PFL_ENOMEM. */
PFL_MUST_USE int pfl_fan_out_run(const struct pfl_fan_out_conf *conf,
                                 struct pfl_fan_out **ret_fan_out);
/* Connects; on_over follows. PFL_ENOMEM. */
PFL_MUST_USE int pfl_fan_out_open(const struct pfl_fan_out_conf *conf,
                                  struct pfl_fan_out **ret_fan_out);
/* All hosts that have not ended fail. */
void pfl_fan_out_abort(struct pfl_fan_out *self, const char *why);
/* Closes the connections that it kept and nobody took over. NULL is legal. */
void pfl_fan_out_close_kept(struct pfl_fan_out *self);
/* No connection is open. True for NULL. */
bool pfl_fan_out_is_closed(const struct pfl_fan_out *self);
/* After the last host has ended, and when it is closed; NULL is legal. */
void pfl_fan_out_free(struct pfl_fan_out *self);
size_t pfl_fan_out_get_len(const struct pfl_fan_out *self);
/* Borrowed until free. */
const struct pfl_fan_out_host *pfl_fan_out_get_host(const struct pfl_fan_out *self, size_t host);
/* How many failed. */
size_t pfl_fan_out_count_failed(const struct pfl_fan_out *self);

/* The conf's user. */
void *pfl_fan_out_get_user(const struct pfl_fan_out_host *host);
/* One request; a failure to make it ends the host. `cb` gets the host as its user. */
void pfl_fan_out_request(struct pfl_fan_out_host *host, const char *method, struct pfl_span args,
                         pfl_rpc_reply_cb cb);
/* Requests between the two are sent in one write; a failure ends the host. */
void pfl_fan_out_cork(struct pfl_fan_out_host *host);
void pfl_fan_out_uncork(struct pfl_fan_out_host *host);
/* Calls `next` from the loop, once, unless the deadline comes first. */
void pfl_fan_out_later(struct pfl_fan_out_host *host, uint64_t ms,
                       void (*next)(struct pfl_fan_out_host *host));
/* Adds to the host's answer what `take` makes of `body`. Beyond the maximum of all hosts the one
 * with the longest answer fails, if that has ended or not, and its answer is freed: nobody fails
 * whose answer is within its share, the maximum divided by the hosts. False: this host has failed;
 * its callback returns 0. */
bool pfl_fan_out_add(struct pfl_fan_out_host *host, struct pfl_span body,
                     int (*take)(struct pfl_span body, struct pfl_buf *out));
/* The owner has read the answer: its memory is freed. */
void pfl_fan_out_drop_answer(struct pfl_fan_out_host *host);
/* The host succeeded, or failed. Its connection closes, unless it is kept. */
void pfl_fan_out_done(struct pfl_fan_out_host *host);
void pfl_fan_out_fail(struct pfl_fan_out_host *host, const char *why);

#endif
