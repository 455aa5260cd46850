/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /running/order: the order `name` of `orderer`, and its hosts.
 * POST /running/order: pauses, resumes or removes (`do`) the operator's own order `order`; without
 * `sure` it asks first.
 */
#ifndef PFL_CONSUMER_WEB_RUNNING_ORDER_VISIT_H
#define PFL_CONSUMER_WEB_RUNNING_ORDER_VISIT_H

#include "consumer/web/frame/web_visit.h"

void pfl_order_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                          const struct pfl_web_request *request);
void pfl_order_visit_change(struct pfl_web *web, struct pfl_http_exchange *exchange,
                            const struct pfl_web_request *request);

#endif
