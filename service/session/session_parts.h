/* SPDX-License-Identifier: Apache-2.0 */
/* Making, taking out and freeing a session. */
#ifndef PFL_SERVICE_SESSION_PARTS_H
#define PFL_SERVICE_SESSION_PARTS_H

#include "service/core/service.h"

/* Makes the object with its buffers and, if the plan needs one, its pipeline; not yet in a list.
 * Takes `plan` on success. PFL_ENOMEM. */
PFL_MUST_USE int pfl_session_make_parts(struct pfl_service *service, uint32_t who,
                                        struct pfl_session_plan *plan,
                                        struct pfl_session **ret_session);
struct pfl_trace_uuid pfl_session_make_uuid(struct pfl_service *service);

/* May the user have one more, of `all` and `of_who` that count? The last PFL_SERVICE_SPARE_SESSIONS
 * (at most a fifth) are for users who have none, the very last for root and the service's user, so
 * that a few users together do not take all. Not if --max-sessions allows each user all. */
bool pfl_session_may_have(const struct pfl_service *service, uint32_t who, unsigned of_who,
                          size_t all);

/* False if the files of ended sessions that are still being written reach the limit of all users,
 * or of this one. */
bool pfl_session_may_close_later(const struct pfl_service *service, uint32_t who);

/* Out of the service, with nothing left that refers to it from there but its buffers. */
void pfl_session_take_out(struct pfl_service *service, struct pfl_session *session);
/* Frees it with its file and gives back its share of the buffers' memory. */
void pfl_session_drop(struct pfl_service *service, struct pfl_session *session);
/* Removes it from the service and frees it; only on_session_gone is called. */
void pfl_session_remove(struct pfl_service *service, struct pfl_session *session);

#endif
