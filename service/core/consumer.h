/* SPDX-License-Identifier: Apache-2.0 */
/* A connected consumer: its identity, its session, what it observes. */
#ifndef PFL_SERVICE_CONSUMER_H
#define PFL_SERVICE_CONSUMER_H

#include "service/core/observe.h"

struct pfl_clone_result;
struct pfl_flush;

struct pfl_consumer_ops {
    /* The session is DISABLED now: answer EnableTracing. `why` NULL: without an error. */
    void (*on_disabled)(void *port, const char *why);
    /* A flush that this consumer requested is over. */
    void (*on_flush_done)(void *port, const struct pfl_flush *flush, bool is_ok);
    /* The session's buffers are about to be freed: stop reading from them. */
    void (*on_session_gone)(void *port);
    /* A read that had nothing to send (PFL_EAGAIN) may continue. */
    void (*on_read_ready)(void *port);
    /* The clone that this consumer requested is made, or failed. */
    void (*on_cloned)(void *port, const struct pfl_clone_result *result);
    /* `observe` has something; called at the first event of a turn. Send it before the next. */
    void (*on_observed)(void *port);
};

/* Embedded in its port; no callback ends it. */
struct pfl_consumer {
    struct pfl_list node; /* in the service */
    uint32_t uid;
    uint32_t who;                /* the user whose share it uses (base/shares.h); 0: `uid` */
    uint64_t subject;            /* in whose name it connected (base/io/subject.h); 0: its own */
    bool is_privileged;          /* of the group that may act on other users' sessions */
    struct pfl_session *session; /* owned through the service; NULL when there is none */
    struct pfl_observe observe;
    const struct pfl_consumer_ops *ops; /* borrowed; static */
    void *port;
};

#endif
