/* SPDX-License-Identifier: Apache-2.0 */
/* TraceStats of a session (docs/abi/tracebuffer.md sections 8 and 9). */
#ifndef PFL_SERVICE_STATS_H
#define PFL_SERVICE_STATS_H

#include "service/core/service.h"

/* Appends the fields of TraceStats. Writers' histograms only while they fit in `room_bytes`. */
void pfl_stats_encode(struct pfl_message *m, const struct pfl_service *service,
                      struct pfl_session *session, size_t room_bytes);

/* What the session lost so far: parts of the shared memory that were overwritten or discarded
 * unread, patches that came too late, packets that their writers had no room for, and invalid
 * packets. Late flushes do not count: their data is in a later segment. */
uint64_t pfl_stats_count_losses(const struct pfl_session *session);

#endif
