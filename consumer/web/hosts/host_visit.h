/* SPDX-License-Identifier: Apache-2.0 */
/* GET /host?name=NAME: one host's page. */
#ifndef PFL_CONSUMER_WEB_HOSTS_HOST_VISIT_H
#define PFL_CONSUMER_WEB_HOSTS_HOST_VISIT_H

#include "consumer/web/frame/web_visit.h"

void pfl_host_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                         const struct pfl_web_request *request);

#endif
