/* SPDX-License-Identifier: Apache-2.0 */
/* What the Record pages keep between requests: recordings, and who watches them. */
#ifndef PFL_CONSUMER_WEB_RECORD_RECORD_PART_H
#define PFL_CONSUMER_WEB_RECORD_RECORD_PART_H

#include "consumer/web/frame/web_visit.h"
#include "consumer/web/record/recordings_port.h"

#define PFL_RECORD_PART_MAX_WATCHES 16u
#define PFL_RECORD_PART_WATCH_MS    500u /* so often the progress is sent */
#define PFL_RECORD_PART_MANY_HOSTS  100u /* with more, half as often */

/* The recordings of these pages, made when they are first asked for; NULL without memory. */
struct pfl_recordings *pfl_record_part_get(struct pfl_web *web);
/* Answers with the recording's progress as server-sent events, until it is over. */
void pfl_record_part_watch(struct pfl_web *web, struct pfl_http_exchange *exchange,
                           const struct pfl_web_request *request, uint32_t id);

#endif
