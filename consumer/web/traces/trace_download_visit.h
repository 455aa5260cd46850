/* SPDX-License-Identifier: Apache-2.0 */
/* Traces as one file for the browser, or for the Perfetto UI (`act` is open), made by a process of
 * `perfleet traces get` (docs/page.md). */
#ifndef PFL_CONSUMER_WEB_TRACES_TRACE_DOWNLOAD_VISIT_H
#define PFL_CONSUMER_WEB_TRACES_TRACE_DOWNLOAD_VISIT_H

#include "consumer/web/frame/web_visit.h"

#define PFL_TRACE_DOWNLOAD_MAX 4u /* processes at once */
/* Of what is opened. The UI takes less. */
#define PFL_TRACE_DOWNLOAD_OPEN_MAX_BYTES ((uint64_t)2 << 30)

void pfl_trace_download_visit_open(struct pfl_web *web, struct pfl_http_exchange *exchange,
                                   const struct pfl_web_request *request);

#endif
