/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a relay over the last hour, for charts. Pure; its memory is part of it. */
#ifndef PFL_CONSUMER_WEB_FLEET_FLEET_HISTORY_H
#define PFL_CONSUMER_WEB_FLEET_FLEET_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "consumer/web/fleet/relay_facts.h"

#define PFL_FLEET_HISTORY_LEN 360u /* samples; a new one replaces the oldest */

struct pfl_fleet_sample {
    uint64_t at_ms; /* of the caller's clock, ascending */
    bool is_known;  /* the relay answered */
    uint64_t up_ms; /* the rest as in pfl_relay_facts */
    uint64_t cpu_ms;
    uint64_t bytes_to_host;
    uint64_t bytes_to_operator;
    uint64_t streams;
    uint64_t hosts_connected;
};

struct pfl_fleet_history {
    struct pfl_fleet_sample samples[PFL_FLEET_HISTORY_LEN];
    size_t first; /* the oldest */
    size_t len;
};

enum pfl_fleet_series {
    PFL_FLEET_TO_OPERATOR, /* bytes a second, since the sample before */
    PFL_FLEET_TO_HOST,
    PFL_FLEET_CPU, /* of a processor, likewise: 1 is one */
    PFL_FLEET_STREAMS,
    PFL_FLEET_HOSTS,
};

/* All zero is an empty history. `facts` NULL: the relay did not answer. */
void pfl_fleet_history_add(struct pfl_fleet_history *self, uint64_t at_ms,
                           const struct pfl_relay_facts *facts);
/* Oldest first; NAN is not known, also when the relay was started again since the sample before.
 * Returns how many. */
size_t pfl_fleet_history_get(const struct pfl_fleet_history *self, enum pfl_fleet_series series,
                             double ret_values[PFL_FLEET_HISTORY_LEN]);
/* From the oldest sample to the newest. */
uint64_t pfl_fleet_history_get_span_ms(const struct pfl_fleet_history *self);

#endif
