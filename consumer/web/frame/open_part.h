/* SPDX-License-Identifier: Apache-2.0 */
/* Hands traces of the pages to the Perfetto UI, as `perfleet open` does (consumer/open). */
#ifndef PFL_CONSUMER_WEB_FRAME_OPEN_PART_H
#define PFL_CONSUMER_WEB_FRAME_OPEN_PART_H

#include "consumer/web/frame/web_visit.h"

#define PFL_OPEN_PART_WAIT_MS 600000u /* for the UI to fetch it */

/*
 * Answers with a page that leads to the UI, which fetches the trace from this machine, once. Takes
 * `fd`, an open file of its own offset. One trace at a time: an earlier one is not served any more.
 * `title` is the file's name.
 */
void pfl_open_part_hand_over(struct pfl_web *web, struct pfl_http_exchange *exchange, int fd,
                             const char *title);

#endif
