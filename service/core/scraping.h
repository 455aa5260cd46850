/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scraping may take when the service stops, and its loop has no more turns to spread it over,
 * and what producers' programs (session_vms.h) may take of the loop: so much in a while. The
 * sessions' users share it, so that nobody's sessions use up what other users' need; and of each,
 * the users whose producers these are: what fills their memory, and what the programs do, they
 * choose. Of root and the owner none is counted.
 */
#ifndef PFL_SERVICE_SCRAPING_H
#define PFL_SERVICE_SCRAPING_H

#include "base/shares.h"

#define PFL_SCRAPING_UNITS     100000u /* of service/buffer/smb_scrape.h: some 0.1 s */
#define PFL_SCRAPING_WINDOW_MS 1000u

/* Zeroed memory, but for the owner and the units, is a fresh one. */
struct pfl_scraping {
    uint64_t owner; /* as in base/shares.h */
    uint64_t units; /* in a window */
    uint64_t since_ms;
    struct pfl_shares sessions;  /* by whose session it is */
    struct pfl_shares producers; /* and by whose producer, both together */
};

/* The credit for what a session of `session` scrapes of a producer of `producer`. */
uint64_t pfl_scraping_begin(struct pfl_scraping *self, uint64_t session, uint64_t producer,
                            uint64_t now_ms);
/* So much of that was used. */
void pfl_scraping_end(struct pfl_scraping *self, uint64_t session, uint64_t producer,
                      uint64_t units);

#endif
