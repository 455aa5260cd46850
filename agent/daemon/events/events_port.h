/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event log for relays (GET /v1/events): an endless answer with a line per event. Each
 * listening relay gets every line; a line is kept until all of them have credited it, and while
 * none listens. A listener that lags behind the others is reset, and reconnects when it can.
 */
#ifndef PFL_AGENT_EVENTS_PORT_H
#define PFL_AGENT_EVENTS_PORT_H

#include "agent/daemon/events/event_log.h"
#include "base/list.h"
#include "proto/h2/h2.h"
#include "proto/tunnel/operator_rates.h"

#define PFL_EVENTS_MAX_LISTENERS      32u
#define PFL_EVENTS_LISTENERS_OF_RELAY 4u /* so that the others can listen, too */
/* Lines about the requests of one operator: a relay takes 50 a second of a host. */
#define PFL_EVENTS_REQUESTS_PER_S   16u
#define PFL_EVENTS_REQUESTS_AT_ONCE 128u
/* How often at most a line has the number of the others. */
#define PFL_EVENTS_TELL_LOST_MS 1000u

struct pfl_events {
    struct pfl_event_log log;
    struct pfl_list listeners; /* freed when their HTTP/2 streams close: before the agent is */
    unsigned listeners_len;
    struct pfl_operator_rates requests;
    uint64_t lost; /* above the rate, and not in the log's number yet */
    uint64_t told_lost_ms;
};

void pfl_events_init(struct pfl_events *self);
void pfl_events_fini(struct pfl_events *self);
/* Answers `h2_stream` with present and future lines, and with the current time. `relay` identifies
 * the relay. PFL_ELIMIT (too many listeners, in all or of this relay), PFL_ENOMEM, errors of
 * pfl_h2_stream_respond: `h2_stream` is unchanged. */
PFL_MUST_USE int pfl_events_listen(struct pfl_events *self, const void *relay,
                                   struct pfl_h2_stream *h2_stream, uint64_t now_ms);

struct pfl_request_event {
    const char *operator_name;
    const char *stream;
    const char *method;
    const char *why; /* NULL: permitted */
};
/* Reports that an operator's request on a stream was judged. Above the operator's rate it is only
 * counted. */
void pfl_events_tell_request(struct pfl_events *self, const struct pfl_request_event *request,
                             uint64_t now_ms);
struct pfl_spool_event {
    uint64_t segments; /* that wait for a collector, and gaps */
    uint64_t bytes;
    uint64_t oldest_ms;   /* age */
    char orders[17];      /* as proto/order/order_set.h writes it */
    bool is_clock_wanted; /* a clock exchange is asked for */
};
/* Reports what waits for a collector. */
void pfl_events_report_spool(struct pfl_events *self, const struct pfl_spool_event *spool);
/* Reports that a trigger of an alarm was raised here. */
void pfl_events_tell_trigger(struct pfl_events *self, const char *operator_name,
                             const char *session, const char *trigger, uint64_t now_ms);
struct pfl_order_event {
    const char *orderer;
    const char *order;
    const char *trigger;
    const char *id; /* the event's, a ULID */
    uint64_t at_ms;
};
/* The same, of an order. */
void pfl_events_tell_order_trigger(struct pfl_events *self, const struct pfl_order_event *event);

#endif
