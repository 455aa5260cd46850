/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to GET /v1/relay: a relay's own figures, without a host's name. A core. */
#ifndef PFL_RELAY_HUB_RELAY_STATE_H
#define PFL_RELAY_HUB_RELAY_STATE_H

#include "relay/hub/forwarded_request.h"

/* So long the same figures are given: they are sums over all connections. */
#define PFL_RELAY_STATE_FRESH_MS 1000u

struct pfl_relay_state {
    const char *relay; /* names are borrowed */
    const char *fleet;
    uint64_t begun_ms;
    uint64_t taken_ms; /* when the figures were taken; 0: not yet */
    struct pfl_relay_figures figures;
    unsigned connected; /* hosts */
};

/* Names are borrowed while there are requests. */
void pfl_relay_state_init(struct pfl_relay_state *self, const char *relay, const char *fleet,
                          uint64_t now_ms);
/* Answers an operator for whom there is a rule; others are refused, and that is audited. */
void pfl_relay_state_send(struct pfl_relay_state *self, struct pfl_forwarded_requests *answers,
                          const struct pfl_host_request *request);

#endif
