/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of loop time that one kind of work may take in a window: scraping while the service
 * stops (its loop has no more turns then), producers' programs (session_vms.h), or the filters of
 * all sessions (judging.h). Each use is
 * bounded twice: by the share of the session's user, and within it by the share of the producer's
 * user, because producers choose what fills their memory and what programs do. Root and the owner
 * are not counted.
 */
#ifndef PFL_SERVICE_LOOP_BUDGET_H
#define PFL_SERVICE_LOOP_BUDGET_H

#include "base/shares.h"

#define PFL_SCRAPING_UNITS        100000u /* of service/buffer/smb_scrape.h: some 0.1 s */
#define PFL_LOOP_BUDGET_WINDOW_MS 1000u

/* Zero-initialized, except the owner, the units and the window. */
struct pfl_loop_budget {
    uint64_t owner;     /* as in base/shares.h */
    uint64_t units;     /* in a window */
    uint64_t window_ms; /* 0: PFL_LOOP_BUDGET_WINDOW_MS */
    bool leaves_half;   /* a producer's user takes half of what a session's user has, at most */
    uint64_t since_ms;
    struct pfl_shares sessions;  /* by the session's user */
    struct pfl_shares producers; /* by the session's and the producer's user together */
};

/* The units that work for a session of the user `session`, on a producer of the user `producer`,
 * may take now. */
uint64_t pfl_loop_budget_begin(struct pfl_loop_budget *self, uint64_t session, uint64_t producer,
                               uint64_t now_ms);
/* `units` of that were used. */
void pfl_loop_budget_end(struct pfl_loop_budget *self, uint64_t session, uint64_t producer,
                         uint64_t units);

#endif
