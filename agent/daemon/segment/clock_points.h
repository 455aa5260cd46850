/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This host's boot clock beside those of relays: the newest points, of which each
 * segment gets those around its time. Of this boot alone. Pure.
 */
#ifndef PFL_AGENT_CLOCK_POINTS_H
#define PFL_AGENT_CLOCK_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "perfleet/segment.pb-c.h"

#define PFL_CLOCK_POINTS_MAX       512u
#define PFL_CLOCK_POINTS_OF_ONE    32u                    /* segment */
#define PFL_CLOCK_POINTS_AROUND_NS UINT64_C(130000000000) /* two minutes, and what was late */
#define PFL_CLOCK_POINTS_APART_NS  UINT64_C(30000000000)  /* of one relay, but for its newest */

struct pfl_clock_points {
    Perfleet__ClockPoint *points; /* owned, with their texts; a ring */
    size_t at;                    /* the oldest, once it is full */
    size_t len;
    uint64_t newest_ns; /* of the host's boot clock; 0: there is none */
};

void pfl_clock_points_fini(struct pfl_clock_points *self); /* legal on zeroed memory */
/* Copied; without memory it is left out. It takes the place of the relay's last one if the one
 * before that is close. */
void pfl_clock_points_add(struct pfl_clock_points *self, const Perfleet__ClockPoint *point);
/* Points around a time of the host's boot clock, spread over it; borrowed until the next is added.
 * Returns their number. */
size_t pfl_clock_points_choose(const struct pfl_clock_points *self, uint64_t begin_ns,
                               uint64_t end_ns, Perfleet__ClockPoint *dst[PFL_CLOCK_POINTS_OF_ONE]);
#endif
