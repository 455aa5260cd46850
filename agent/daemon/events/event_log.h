/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of this host for relays, as numbered lines of JSON, kept until every listening relay has
 * used them up. Bounded: while it is full, events are counted, and the count becomes a line as soon
 * as there is room. A part of it is reserved for urgent lines, so that a flood of others does not
 * displace them. Pure.
 */
#ifndef PFL_AGENT_EVENT_LOG_H
#define PFL_AGENT_EVENT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_EVENT_LOG_LINES      256u
#define PFL_EVENT_LOG_URGENT     64u   /* of these, for urgent ones */
#define PFL_EVENT_LOG_LINE_BYTES 1024u /* without the newline; a longer one is counted as lost */

struct pfl_event_log {
    char *lines[PFL_EVENT_LOG_LINES]; /* owned; line n is at n % PFL_EVENT_LOG_LINES */
    uint64_t first;                   /* the oldest that is kept */
    uint64_t next;                    /* the number of the next one */
    uint64_t lost;                    /* since the last line with the count */
};

void pfl_event_log_init(struct pfl_event_log *self);
void pfl_event_log_fini(struct pfl_event_log *self);
/* Copies `json`. If it cannot be kept, it is counted. */
void pfl_event_log_add(struct pfl_event_log *self, const char *json, bool is_urgent);
/* True if the next one would not be kept. */
bool pfl_event_log_is_full(const struct pfl_event_log *self, bool is_urgent);
/* Adds events that were lost before they reached the log. */
void pfl_event_log_count_lost(struct pfl_event_log *self, uint64_t count);
/* The line with its newline; empty if there is no line with that number (released, or not added
 * yet). Borrowed until it is released. */
struct pfl_span pfl_event_log_get(const struct pfl_event_log *self, uint64_t number);
/* Everything before `number` is used up. May add a line with the number of lost events. */
void pfl_event_log_release(struct pfl_event_log *self, uint64_t number);

#endif
