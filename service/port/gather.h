/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to let others run before a producer's commit is read. A producer that commits tens of
 * thousands of times a second wakes the service each time, for a chunk or two; if its thread gets
 * the CPU once more first, there is more to read, and most of the wake-ups are saved. Pure; time
 * is an argument.
 */
#ifndef PFL_SERVICE_GATHER_H
#define PFL_SERVICE_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_GATHER_OFTEN_NS    1000000u  /* input that comes more often than this is gathered */
#define PFL_GATHER_SAME_NS     5000u     /* input that is nearer than this is of one turn */
#define PFL_GATHER_LONG_NS     300000u   /* who runs so long wants the CPU for himself */
#define PFL_GATHER_REST_NS     10000000u /* nobody is let in for so long after that */
#define PFL_GATHER_REST_MAX_NS 64000000000u

struct pfl_gather {
    uint64_t last_ns;  /* when there was input last */
    uint64_t until_ns; /* until then nobody is let in first */
    uint64_t rest_ns;  /* how long that was the last time */
};

/* There is input. Shall others run first? `self` zeroed at first. */
bool pfl_gather_begin(struct pfl_gather *self, uint64_t now_ns);
/* They have run, from begin's now_ns on. */
void pfl_gather_end(struct pfl_gather *self, uint64_t now_ns);

#endif
