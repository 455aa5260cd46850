/* SPDX-License-Identifier: Apache-2.0 */
/* The deadlines of sessions. */
#ifndef PFL_SERVICE_SESSION_TIMERS_H
#define PFL_SERVICE_SESSION_TIMERS_H

#include "service/core/service.h"

/* What is left of its duration; PFL_SESSION_NEVER: it has none, or has not started. */
uint64_t pfl_session_timers_get_left_ms(const struct pfl_service *service,
                                        const struct pfl_session *session);
/* Called as the session starts: arms all timers and takes the first periodic snapshot. */
void pfl_session_timers_start(struct pfl_service *service, struct pfl_session *session);
void pfl_session_timers_stop(struct pfl_session *session);

/* When to call pfl_session_due_run next, CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t pfl_session_timers_next_ms(const struct pfl_service *service);
/* The same, computed from every session and flush: never before next_ms. */
uint64_t pfl_session_timers_find_ms(const struct pfl_service *service);

/* True if this deadline of the session has come; then it is set to the next one, or to none. */
bool pfl_session_timers_take_snapshot(const struct pfl_service *service,
                                      struct pfl_session *session);
bool pfl_session_timers_take_clear(const struct pfl_service *service, struct pfl_session *session);
bool pfl_session_timers_take_slow(const struct pfl_service *service, struct pfl_session *session);
bool pfl_session_timers_take_flush(const struct pfl_service *service, struct pfl_session *session);
bool pfl_session_timers_take_stop(const struct pfl_service *service, struct pfl_session *session);
bool pfl_session_timers_take_duration(const struct pfl_service *service,
                                      struct pfl_session *session);

#endif
