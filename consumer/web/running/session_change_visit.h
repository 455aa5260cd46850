/* SPDX-License-Identifier: Apache-2.0 */
/* POST /running/session: copies, reads, stops or discards (`do`) the hosts' sessions of the name or
 * key `session`; what takes data away needs `sure`, and else asks first. */
#ifndef PFL_CONSUMER_WEB_RUNNING_SESSION_CHANGE_VISIT_H
#define PFL_CONSUMER_WEB_RUNNING_SESSION_CHANGE_VISIT_H

#include "consumer/web/frame/web_visit.h"

void pfl_session_change_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request);

#endif
