/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers that were raised somewhere, for hosts that are to hear of them: those that are busy, and
 * those that come within ten minutes. Numbered, so that each host goes through them once. Pure;
 * time is an argument.
 */
#ifndef PFL_RELAY_HUB_TRIGGER_LOG_H
#define PFL_RELAY_HUB_TRIGGER_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/tunnel/identity.h"

#define PFL_TRIGGER_LOG_KEPT    32u /* the oldest gives way */
#define PFL_TRIGGER_LOG_OF_HOST 8u  /* of these, told by one host: then its own oldest gives way */
#define PFL_TRIGGER_LOG_KEPT_MS 600000u
/* In ms: an older claim of a host counts as this old. */
#define PFL_TRIGGER_LOG_AGO_MAX UINT32_MAX

struct pfl_trigger_log_entry {
    char operator_name[PFL_IDENTITY_NAME_BYTES];
    char session[PFL_IDENTITY_NAME_BYTES];
    char trigger[PFL_IDENTITY_NAME_BYTES];
    char host[PFL_IDENTITY_NAME_BYTES]; /* where */
    uint64_t taken_ms;                  /* when we heard of it */
    uint64_t ago_ms;                    /* it was raised so long before that */
    uint64_t number;                    /* 0: none; set by add */
};

/* Zeroed memory is an empty one. */
struct pfl_trigger_log {
    struct pfl_trigger_log_entry kept[PFL_TRIGGER_LOG_KEPT];
    uint64_t last; /* number */
};

/* Copied. One that says what is known already (the same order, raised no later) is left out; one of
 * an order that is there takes its place, so that a trigger which all hosts raise at once is one.
 * False: left out. */
bool pfl_trigger_log_add(struct pfl_trigger_log *self, const struct pfl_trigger_log_entry *raised,
                         uint64_t now_ms);
/* The one with the smallest number above `number` that is not too old. NULL: none. Borrowed until
 * the next add. */
const struct pfl_trigger_log_entry *pfl_trigger_log_next(const struct pfl_trigger_log *self,
                                                         uint64_t number, uint64_t now_ms);
uint64_t pfl_trigger_log_get_ago_ms(const struct pfl_trigger_log_entry *self, uint64_t now_ms);

#endif
