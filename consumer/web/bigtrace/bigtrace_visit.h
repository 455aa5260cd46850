/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of Perfetto's BigTrace page below /bigtrace (docs/adr/0060). */
#ifndef PFL_CONSUMER_WEB_BIGTRACE_VISIT_H
#define PFL_CONSUMER_WEB_BIGTRACE_VISIT_H

#include "consumer/web/frame/web_visit.h"

#define PFL_BIGTRACE_PATH "/bigtrace/"

/* Access is judged here, by pfl_web_access_judge_data. Answers, now or later. */
void pfl_bigtrace_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                             const struct pfl_http_request *request);

#endif
