/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of agents (docs/protocol-tunnel.md, "Events"): requests that they judged, and triggers. A
 * core.
 */
#ifndef PFL_RELAY_HUB_AGENT_EVENTS_H
#define PFL_RELAY_HUB_AGENT_EVENTS_H

#include "relay/hub/trigger_passing.h"

struct pfl_agent_events_conf {
    struct pfl_trigger_passing *triggers; /* borrowed while the agent's connection is there */
    void (*on_clock_wanted)(void *user);  /* the agent asks for a clock exchange */
    void *user;
};

/* An agent that has said its hello is asked for its events, unless it is being, and gets the
 * triggers that it has not got yet. Nothing happens with any other. Again and again. */
void pfl_agent_events_start(struct pfl_hub_peer *agent, const struct pfl_agent_events_conf *conf);
/* It is not its host's connection any more. */
void pfl_agent_events_stop(struct pfl_hub_peer *agent);

#endif
