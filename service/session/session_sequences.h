/* SPDX-License-Identifier: Apache-2.0 */
/* The packet sequence ids of a session, without those of writers that are gone. */
#ifndef PFL_SERVICE_SESSION_SEQUENCES_H
#define PFL_SERVICE_SESSION_SEQUENCES_H

#include "service/core/service.h"

/* As pfl_sequence_ids_get; forgets writers of the session that are gone when that is due. */
PFL_MUST_USE int pfl_session_sequences_get(const struct pfl_service *service,
                                           struct pfl_session *session,
                                           const struct pfl_trace_buffer_source *source,
                                           uint32_t *ret_id);

#endif
