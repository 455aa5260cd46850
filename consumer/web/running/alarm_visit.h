/* SPDX-License-Identifier: Apache-2.0 */
/* POST /running/disarm: removes the operator's alarms for `session` on all hosts that have one;
 * without `sure` it asks first. */
#ifndef PFL_CONSUMER_WEB_RUNNING_ALARM_VISIT_H
#define PFL_CONSUMER_WEB_RUNNING_ALARM_VISIT_H

#include "consumer/web/frame/web_visit.h"

void pfl_alarm_visit_disarm(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request);

#endif
