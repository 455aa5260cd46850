/* SPDX-License-Identifier: Apache-2.0 */
/* GET /running: the hosts' sessions, the collector's orders, the agents' alarms. */
#ifndef PFL_CONSUMER_WEB_RUNNING_RUNNING_VISIT_H
#define PFL_CONSUMER_WEB_RUNNING_RUNNING_VISIT_H

#include "consumer/web/frame/web_visit.h"

#define PFL_RUNNING_VISIT_MAX_HOSTS 256u

void pfl_running_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request);

#endif
