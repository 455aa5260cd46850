/* SPDX-License-Identifier: Apache-2.0 */
/* The Record page: its form, the count and check of it, the start. */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORD_VISIT_H
#define PFL_CONSUMER_WEB_RECORD_RECORD_VISIT_H

#include "consumer/web/frame/web_visit.h"

/* GET: the form; a query may have `select`. */
void pfl_record_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                           const struct pfl_web_request *request);
/* POST: `do` is check or start; with `part`, the check alone, for the script. */
void pfl_record_visit_post(struct pfl_web *web, struct pfl_http_exchange *exchange,
                           const struct pfl_web_request *request);

#endif
