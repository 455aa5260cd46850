/* SPDX-License-Identifier: Apache-2.0 */
/* Flushes of a session. */
#ifndef PFL_SERVICE_SESSION_FLUSH_H
#define PFL_SERVICE_SESSION_FLUSH_H

#include "service/core/command.h"
#include "service/core/service.h"

struct pfl_session_flush_conf {
    uint32_t timeout_ms; /* 0: that of the plan; at most PFL_FLUSH_TIMEOUT_MAX_MS counts */
    uint64_t flags;      /* passed to producers unchanged */
    enum pfl_flush_then then;
    uint64_t request_id; /* PFL_FLUSH_THEN_REPLY, _CLONE */
    enum pfl_command_scope scope;
    bool drop_reply;
};

/* The producer disconnected: flushes that waited for it fail. They may end sessions. */
void pfl_session_lose_flushes(struct pfl_service *service, struct pfl_producer *producer);
/* Asks every producer that takes part; `then` says what happens at the end, which is immediate if
 * there is none. Fails at once if the session does not run, has too many pending flushes, or its
 * user's share of them is used up. */
void pfl_session_flush(struct pfl_service *service, struct pfl_session *session,
                       const struct pfl_session_flush_conf *conf);
void pfl_session_ack_flush(struct pfl_service *service, struct pfl_producer *producer,
                           uint64_t flush_id_untrusted);
void pfl_session_expire_flushes(struct pfl_service *service);
void pfl_session_cancel_flushes(struct pfl_service *service, const struct pfl_session *session);
/* The consumer's connection ends: its flushes continue without an answer. */
void pfl_session_forget_flushes(struct pfl_service *service, const struct pfl_consumer *consumer);
/* A pass over its producers' memory is over: flushes that waited for it end. The session, or NULL
 * if that ended it. */
struct pfl_session *pfl_session_end_flushes(struct pfl_service *service,
                                            struct pfl_session *session);

#endif
