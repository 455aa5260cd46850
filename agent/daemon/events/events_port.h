/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event log as relays read it (GET /v1/events): an answer that does not end, a line for each
 * thing that happened. Each relay that listens gets every line; a line is kept until all of them
 * have credited it, and while nobody listens. One that holds up the others is cut off: it asks
 * again when it can.
 */
#ifndef PFL_AGENT_EVENTS_PORT_H
#define PFL_AGENT_EVENTS_PORT_H

#include "agent/daemon/events/event_log.h"
#include "base/list.h"
#include "proto/h2/h2.h"

#define PFL_EVENTS_MAX_LISTENERS      32u
#define PFL_EVENTS_LISTENERS_OF_RELAY 4u /* so that each of the others can listen, too */

struct pfl_events {
    struct pfl_event_log log;
    struct pfl_list listeners; /* freed when their leg closes: before the agent is */
    unsigned listeners_len;
};

void pfl_events_init(struct pfl_events *self);
void pfl_events_fini(struct pfl_events *self);
/* Answers `leg` with what there is and will be, and what time it is. `relay` tells relays apart.
 * PFL_ELIMIT (too many listen, of all or of this one),
 * PFL_ENOMEM, errors of pfl_h2_stream_respond: it is untouched. */
PFL_MUST_USE int pfl_events_listen(struct pfl_events *self, const void *relay,
                                   struct pfl_h2_stream *leg, uint64_t now_ms);

/* An operator's request on a stream was judged; `why` NULL: it passed. */
void pfl_events_tell_request(struct pfl_events *self, const char *operator_name, const char *stream,
                             const char *method, const char *why);
/* A trigger that an alarm waits for was raised here. */
void pfl_events_tell_trigger(struct pfl_events *self, const char *operator_name,
                             const char *session, const char *trigger, uint64_t now_ms);

#endif
