/* SPDX-License-Identifier: Apache-2.0 */
/* What the service notes in a session's trace. */
#ifndef PFL_SERVICE_SESSION_RECORD_H
#define PFL_SERVICE_SESSION_RECORD_H

#include "service/core/service.h"

#define PFL_SESSION_SLOW_MAX 32u /* data sources named in a warning */

/* All clocks of a snapshot, now. */
struct pfl_clock_snapshot pfl_session_read_clocks(const struct pfl_service *service);
/* Adds a clock snapshot if a clock drifted. */
void pfl_session_snapshot_clocks(struct pfl_service *service, struct pfl_session *session);
/* The next read begins like the first: clocks, config, uuid, system info, statistics. */
void pfl_session_tell_again(struct pfl_service *service, struct pfl_session *session);
/* Records a service event, now. */
void pfl_session_record(struct pfl_service *service, struct pfl_session *session,
                        enum pfl_session_event_kind kind, struct pfl_span payload);
/* One DataSources entry. */
void pfl_session_encode_slow(struct pfl_message *m, const struct pfl_session *session,
                             const struct pfl_instance *instance);
/* The periodic snapshot: the next read has clocks, a sync marker and statistics. */
void pfl_session_record_snapshot(struct pfl_service *service, struct pfl_session *session);

#endif
