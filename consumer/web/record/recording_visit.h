/* SPDX-License-Identifier: Apache-2.0 */
/* One recording's page, and what can be done with it; each request has its number, `id`. */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORDING_VISIT_H
#define PFL_CONSUMER_WEB_RECORD_RECORDING_VISIT_H

#include "consumer/web/frame/web_visit.h"

/* GET: its page. */
void pfl_recording_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                              const struct pfl_web_request *request);
/* GET: its progress, as server-sent events. */
void pfl_recording_visit_watch(struct pfl_web *web, struct pfl_http_exchange *exchange,
                               const struct pfl_web_request *request);
/* GET: the trace. */
void pfl_recording_visit_download(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                  const struct pfl_web_request *request);
/* POST. */
void pfl_recording_visit_stop(struct pfl_web *web, struct pfl_http_exchange *exchange,
                              const struct pfl_web_request *request);
void pfl_recording_visit_hand_over(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request);
void pfl_recording_visit_remove(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                const struct pfl_web_request *request);

#endif
