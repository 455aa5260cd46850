/* SPDX-License-Identifier: Apache-2.0 */
/* QueryServiceState and QueryCapabilities (docs/abi/service.md sections 2 and 12). */
#ifndef PFL_SERVICE_QUERY_H
#define PFL_SERVICE_QUERY_H

#include "service/control/service.h"

#define PFL_QUERY_SPLIT_BYTES 130944u /* of a TracingServiceState in one reply */

/* One part of the answer: a QueryServiceStateResponse, borrowed until return. */
typedef int (*pfl_query_part_cb)(void *user, struct pfl_span part, bool has_more);

struct pfl_query {
    const struct pfl_service *service;
    uint32_t uid; /* who asks: sees own sessions, root sees all */
    bool sessions_only;
    bool has_figures; /* wanted */
};

/* Calls `part` for each part; the parts merge by concatenation. PFL_ENOMEM, PFL_ELIMIT (a single
 * entry that does not fit), or what `part` returned. */
PFL_MUST_USE int pfl_query_state(const struct pfl_query *query, pfl_query_part_cb part, void *user);
/* Appends the fields of QueryCapabilitiesResponse. */
void pfl_query_capabilities(struct pfl_message *m);

#endif
