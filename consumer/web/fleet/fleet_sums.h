/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over the hosts that this operator may see: losses by cause, certificates that end. Pure. */
#ifndef PFL_CONSUMER_WEB_FLEET_FLEET_SUMS_H
#define PFL_CONSUMER_WEB_FLEET_FLEET_SUMS_H

#include "consumer/web/frame/host_rows.h"

#define PFL_FLEET_SUMS_ENDING 50u          /* certificates that are named */
#define PFL_FLEET_SUMS_END_S  (30 * 86400) /* that end within this time */

struct pfl_fleet_loss {
    uint64_t count;
    size_t hosts;   /* with any */
    uint64_t most;  /* of one host */
    size_t most_at; /* its row */
};

struct pfl_fleet_ending {
    size_t row;
    int64_t end_s; /* UNIX time */
};

struct pfl_fleet_sums {
    size_t hosts;
    size_t up;      /* connected, or they answer */
    size_t asked;   /* whose service sent its figures since the pages began */
    size_t endings; /* certificates that end soon, or have ended */
    size_t undated; /* whose certificate's end is not known */
    struct pfl_fleet_loss losses[PFL_HOST_LOSSES];
    struct pfl_fleet_ending ending[PFL_FLEET_SUMS_ENDING]; /* of these the first, by their end */
    size_t ending_len;
};

void pfl_fleet_sums_take(const struct pfl_host_rows *rows, int64_t now_s,
                         struct pfl_fleet_sums *ret_sums);

#endif
