/* SPDX-License-Identifier: Apache-2.0 */
/* The deadlines of sessions, and the work that is due. */
#ifndef PFL_SERVICE_SESSION_TIMERS_H
#define PFL_SERVICE_SESSION_TIMERS_H

#include "service/core/service.h"

/* What is left of its duration; PFL_SESSION_NEVER: it has none, or has not started. */
uint64_t pfl_session_timers_get_left_ms(const struct pfl_service *service,
                                        const struct pfl_session *session);
/* Called as the session starts: arms all timers and takes the first periodic snapshot. */
void pfl_session_timers_start(struct pfl_service *service, struct pfl_session *session);
void pfl_session_timers_stop(struct pfl_session *session);

/* Asks the producers to clear their incremental state. */
void pfl_session_clear_state(struct pfl_service *service, struct pfl_session *session);

/* Call after setting a deadline of a session or a flush: lowers the time of the next run.
 * CLOCK_MONOTONIC. */
void pfl_session_timers_look_at(struct pfl_service *service, uint64_t due_ms);

/* When to call run next, CLOCK_MONOTONIC; UINT64_MAX: never. */
uint64_t pfl_session_timers_next_ms(const struct pfl_service *service);
/* The same, computed from every session and flush: never before next_ms. */
uint64_t pfl_session_timers_find_ms(const struct pfl_service *service);
/* Does everything that is due. */
void pfl_session_timers_run(struct pfl_service *service);

#endif
