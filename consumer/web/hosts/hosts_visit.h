/* SPDX-License-Identifier: Apache-2.0 */
/* GET /hosts: the list of hosts, or with `part` what the script puts in place of the old one. */
#ifndef PFL_CONSUMER_WEB_HOSTS_HOSTS_VISIT_H
#define PFL_CONSUMER_WEB_HOSTS_HOSTS_VISIT_H

#include "consumer/web/frame/web_visit.h"

void pfl_hosts_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                          const struct pfl_web_request *request);

#endif
