/* SPDX-License-Identifier: Apache-2.0 */
/* The Running page: GET shows the hosts' sessions, POST copies those of the name `session` now. */
#ifndef PFL_CONSUMER_WEB_RECORD_RUNNING_VISIT_H
#define PFL_CONSUMER_WEB_RECORD_RUNNING_VISIT_H

#include "consumer/web/frame/web_visit.h"

#define PFL_RUNNING_VISIT_MAX_HOSTS 256u

void pfl_running_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request);
void pfl_running_visit_copy(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request);

#endif
