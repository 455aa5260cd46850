/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Triggers to forward to hosts that are busy now, or that connect within ten minutes. They are
 * numbered, so that each host receives each once. Pure; time is an argument.
 */
#ifndef PFL_RELAY_HUB_TRIGGER_LOG_H
#define PFL_RELAY_HUB_TRIGGER_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ulid.h"
#include "proto/tunnel/identity.h"

#define PFL_TRIGGER_LOG_KEPT 32u /* further ones replace the oldest of the host that has most */
/* of these, reported by one host: further ones replace its own oldest */
#define PFL_TRIGGER_LOG_OF_HOST 8u
#define PFL_TRIGGER_LOG_KEPT_MS 600000u
/* In ms: a host's older claim counts as this old. */
#define PFL_TRIGGER_LOG_AGO_MAX UINT32_MAX

/* A trigger of an order is taken once in this time, from all hosts together: none copies more often
 * (PFL_ORDER_MIN_INTERVAL_MS). */
#define PFL_TRIGGER_LOG_ORDER_MS 1000u

struct pfl_trigger_log_entry {
    char operator_name[PFL_IDENTITY_NAME_BYTES];
    char session[PFL_IDENTITY_NAME_BYTES]; /* "": of an order */
    char order[PFL_IDENTITY_NAME_BYTES];   /* "": of an alarm */
    char id[PFL_ULID_BYTES];               /* of an order's event */
    char trigger[PFL_IDENTITY_NAME_BYTES];
    char host[PFL_IDENTITY_NAME_BYTES]; /* where */
    uint64_t taken_ms;                  /* when the relay received it */
    uint64_t ago_ms;                    /* how long before that it was raised */
    uint64_t number;                    /* 0: none; set by add */
};

/* Zero-initialized. */
struct pfl_trigger_log {
    struct pfl_trigger_log_entry kept[PFL_TRIGGER_LOG_KEPT];
    uint64_t last; /* number */
};

/* Copies it. Drops it if its order or alarm already has an entry that was raised at the same time
 * or later; otherwise replaces that entry, so that a trigger which all hosts raise at once is one.
 * Drops that of an order within PFL_TRIGGER_LOG_ORDER_MS, too. False: dropped. */
bool pfl_trigger_log_add(struct pfl_trigger_log *self, const struct pfl_trigger_log_entry *raised,
                         uint64_t now_ms);
/* The entry with the smallest number above `number` that is not too old. NULL: none. Borrowed until
 * the next add. */
const struct pfl_trigger_log_entry *pfl_trigger_log_next(const struct pfl_trigger_log *self,
                                                         uint64_t number, uint64_t now_ms);
uint64_t pfl_trigger_log_get_ago_ms(const struct pfl_trigger_log_entry *self, uint64_t now_ms);

#endif
