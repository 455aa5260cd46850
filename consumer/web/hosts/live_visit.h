/* SPDX-License-Identifier: Apache-2.0 */
/* The button of a host's page that shows the host live, as `perfleet open --live` does. */
#ifndef PFL_CONSUMER_WEB_HOSTS_LIVE_VISIT_H
#define PFL_CONSUMER_WEB_HOSTS_LIVE_VISIT_H

#include "consumer/web/frame/web_visit.h"

/* At once, of these pages; each copies a host's buffers. */
#define PFL_LIVE_VISIT_MAX 4u

/* POST /host/live: the fields `name` of the host and `session`. */
void pfl_live_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                         const struct pfl_web_request *request);

#endif
