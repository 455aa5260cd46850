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
    int64_t begun_ns;                     /* the current burst of them, or the last one */
    unsigned rounds;                      /* of the burst */
    unsigned rounds_max;
    bool is_asking; /* a burst is running */
    bool has_bounds;
    int64_t low_ns; /* of the offset, by all exchanges of the burst */
    int64_t high_ns;
    int64_t host_ns; /* the host's boot clock at the last of them */
};

/* The agent has become its host's connection: it is asked for its hello and its clock. Its labels
 * are what the policy judges by; then it is asked for its events. */
void pfl_agent_hello_start(struct pfl_agent_hello *self);
/* A minute is over: its clock again, and its events if it reports none. */
void pfl_agent_hello_repeat(struct pfl_agent_hello *self);

#endif
