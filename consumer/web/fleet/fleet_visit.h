/* SPDX-License-Identifier: Apache-2.0 */
/* GET /fleet: the whole fleet, or with `part` what the script puts in place of the old contents. */
#ifndef PFL_CONSUMER_WEB_FLEET_FLEET_VISIT_H
#define PFL_CONSUMER_WEB_FLEET_FLEET_VISIT_H

#include "consumer/web/frame/web_visit.h"

#define PFL_FLEET_VISIT_HOSTS 16u /* that a visit asks, in turn */

/* Begins to ask the relay for its figures, until the pages end; without memory, a visit does. */
void pfl_fleet_visit_begin(struct pfl_web *web);
void pfl_fleet_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                          const struct pfl_web_request *request);

#endif
