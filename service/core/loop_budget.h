/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many units of the loop's time one kind of work may take in a window: scraping when the
 * service stops and its loop has no more turns to spread it over, and producers' programs
 * (session_vms.h). The sessions' users share it, so that nobody's sessions use up what other users'
 * need; and of each share, the users whose producers these are: they choose what fills their memory
 * and what the programs do. Root and the owner are not counted.
 */
#ifndef PFL_SERVICE_LOOP_BUDGET_H
#define PFL_SERVICE_LOOP_BUDGET_H

#include "base/shares.h"

#define PFL_SCRAPING_UNITS        100000u /* of service/buffer/smb_scrape.h: some 0.1 s */
#define PFL_LOOP_BUDGET_WINDOW_MS 1000u

/* Zeroed memory, but for the owner and the units, is a fresh one. */
struct pfl_loop_budget {
    uint64_t owner; /* as in base/shares.h */
    uint64_t units; /* in a window */
    uint64_t since_ms;
    struct pfl_shares sessions;  /* by whose session it is */
    struct pfl_shares producers; /* and by whose producer, both together */
};

/* The units that work for a session of the user `session`, on a producer of the user `producer`,
 * may take now. */
uint64_t pfl_loop_budget_begin(struct pfl_loop_budget *self, uint64_t session, uint64_t producer,
                               uint64_t now_ms);
/* So much of that was used. */
void pfl_loop_budget_end(struct pfl_loop_budget *self, uint64_t session, uint64_t producer,
                         uint64_t units);

#endif
