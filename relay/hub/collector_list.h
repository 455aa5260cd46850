/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about collectors: which are connected, and what the policy says about one operator, for
 * collectors to judge by. A core. */
#ifndef PFL_RELAY_HUB_COLLECTOR_LIST_H
#define PFL_RELAY_HUB_COLLECTOR_LIST_H

#include "relay/hub/forwarded_request.h"

/* GET /v1/collectors. */
void pfl_collector_list_send(struct pfl_forwarded_requests *answers,
                             const struct pfl_host_request *request);
/* GET /v1/scopes/OPERATOR, of a collector. */
void pfl_collector_list_send_scope(struct pfl_forwarded_requests *answers,
                                   const struct pfl_host_request *request);
/* Whether any rule is for this operator. Else the request is refused, and audited with `detail`. */
bool pfl_collector_list_admit(const struct pfl_host_request *request, const char *detail);
/* The same for a collector: a rule that lets it collect. */
bool pfl_collector_list_admit_collector(const struct pfl_host_request *request, const char *detail);

#endif
