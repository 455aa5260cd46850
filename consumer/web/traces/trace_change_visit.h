/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /traces/choose: what to do with chosen traces: a download, or the page that asks first.
 * POST /traces/change: pins, unpins or deletes them.
 */
#ifndef PFL_CONSUMER_WEB_TRACES_TRACE_CHANGE_VISIT_H
#define PFL_CONSUMER_WEB_TRACES_TRACE_CHANGE_VISIT_H

#include "consumer/web/frame/web_visit.h"

void pfl_trace_change_visit_choose(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request);
void pfl_trace_change_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                 const struct pfl_web_request *request);

#endif
