/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scraping in turns of the loop: what producers have written and not committed is copied into
 * sessions' buffers at the end of a flush, at a stop, and when a producer is gone. A session's pass
 * goes over all producers that may write to its buffers; that of a producer which left, over its
 * own memory, for all sessions.
 */
#ifndef PFL_SERVICE_SCRAPE_TURNS_H
#define PFL_SERVICE_SCRAPE_TURNS_H

#include "service/core/service.h"

/*
 * A pass of the session begins; one that runs begins again, for what it waited for too.
 * pfl_session_on_scraped when it is whole, maybe before this returns.
 */
void pfl_scrape_turns_begin(struct pfl_service *service, struct pfl_session *session);
/* It is in no list of producers any more, but in that of the permitted. True: nothing is left in
 * its memory. Else the service keeps it, and frees it when that is so. */
bool pfl_scrape_turns_take_producer(struct pfl_service *service, struct pfl_producer *producer);
/* The next turn: pfl_session_timers_run. */
void pfl_scrape_turns_run(struct pfl_service *service);
/* There are no more turns: what is begun is done now, and what begins at once, as far as the limit
 * of loop_budget.h goes. */
void pfl_scrape_turns_stop(struct pfl_service *service);

#endif
