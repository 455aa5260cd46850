/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers that were raised somewhere, for hosts that are to hear of them: those that are busy, and
 * those that come within ten minutes. Numbered, so that each host goes through them once. Pure;
 * time is an argument.
 */
#ifndef PFL_RELAY_HUB_RAISED_H
#define PFL_RELAY_HUB_RAISED_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/tunnel/identity.h"

#define PFL_RAISED_KEPT    32u /* the oldest gives way */
#define PFL_RAISED_OF_HOST 8u  /* of these, told by one host: then its own oldest gives way */
#define PFL_RAISED_KEPT_MS 600000u
#define PFL_RAISED_AGO_MAX UINT32_MAX /* ms; a host's claim that is older is as old as this */

struct pfl_raised {
    char operator_name[PFL_IDENTITY_NAME_BYTES];
    char session[PFL_IDENTITY_NAME_BYTES];
    char trigger[PFL_IDENTITY_NAME_BYTES];
    char host[PFL_IDENTITY_NAME_BYTES]; /* where */
    uint64_t taken_ms;                  /* when we heard of it */
    uint64_t ago_ms;                    /* it was raised so long before that */
    uint64_t number;                    /* 0: none; set by add */
};

/* Zeroed memory is an empty one. */
struct pfl_raised_log {
    struct pfl_raised kept[PFL_RAISED_KEPT];
    uint64_t last; /* number */
};

/* Copied. One that says what is known already (the same order, raised no later) is left out; one of
 * an order that is there takes its place, so that a trigger which all hosts raise at once is one.
 * False: left out. */
bool pfl_raised_add(struct pfl_raised_log *self, const struct pfl_raised *raised, uint64_t now_ms);
/* The one with the smallest number above `number` that is not too old. NULL: none. Borrowed until
 * the next add. */
const struct pfl_raised *pfl_raised_next(const struct pfl_raised_log *self, uint64_t number,
                                         uint64_t now_ms);
uint64_t pfl_raised_get_ago_ms(const struct pfl_raised *self, uint64_t now_ms);

#endif
