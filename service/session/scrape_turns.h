/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scraping in turns of the loop: copies what producers have written and not committed into
 * sessions' buffers at the end of a flush, at a stop, and when a producer disconnects. A session's
 * pass covers all producers that may write to its buffers. The pass of a producer that left covers
 * its own memory, for all sessions.
 */
#ifndef PFL_SERVICE_SCRAPE_TURNS_H
#define PFL_SERVICE_SCRAPE_TURNS_H

#include "service/core/service.h"

/*
 * Begins a pass of the session. A pass in progress starts again, and serves both requests. Calls
 * the session's on_scraped at its end, maybe before this returns.
 */
void pfl_scrape_turns_begin(struct pfl_service *service, struct pfl_session *session);
/* The producer has left all lists of producers except that of the permitted. True: its memory is
 * scraped; free it before the next turn. Otherwise the service keeps it, and frees it when that is
 * done. */
bool pfl_scrape_turns_take_producer(struct pfl_service *service, struct pfl_producer *producer);
/* Runs the next turn: pfl_session_due_run. */
void pfl_scrape_turns_run(struct pfl_service *service);
/* When a pass has waited for a copier for long; UINT64_MAX: none waits. */
uint64_t pfl_scrape_turns_get_due_ms(const struct pfl_service *service);
/* There are no more turns: current and new passes are done at once, within the limit of
 * loop_budget.h. */
void pfl_scrape_turns_stop(struct pfl_service *service);

#endif
