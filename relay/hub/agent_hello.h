/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent is asked when it has come, and its clock again each minute. A core. */
#ifndef PFL_RELAY_HUB_AGENT_HELLO_H
#define PFL_RELAY_HUB_AGENT_HELLO_H

#include "relay/hub/agent_events.h"
#include "relay/hub/stream_table.h"

/* Of one agent's connection. */
struct pfl_agent_hello {
    struct pfl_hub_peer *agent;           /* borrowed: has the same life */
    struct pfl_stream_table *streams;     /* borrowed */
    struct pfl_trigger_passing *triggers; /* borrowed */
    int64_t asked_ns;                     /* the current clock exchange */
    unsigned rounds;                      /* of the burst of clock exchanges */
    unsigned rounds_max;
    struct pfl_clock_report report; /* of the best exchange of the burst so far */
    int64_t report_error_ns;        /* of that one; INT64_MAX: none */
    bool has_report;                /* that the agent has not got */
};

/* The agent has become its host's connection: it is asked for its hello and its clock. Its labels
 * are what the policy judges by; then it is asked for its events. */
void pfl_agent_hello_start(struct pfl_agent_hello *self);
/* A minute is over: its clock again, and its events if it reports none. */
void pfl_agent_hello_repeat(struct pfl_agent_hello *self);

#endif
