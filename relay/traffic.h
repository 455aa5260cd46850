/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay has carried since it began, of those streams, too, that are under way. */
#ifndef PFL_RELAY_TRAFFIC_H
#define PFL_RELAY_TRAFFIC_H

#include <stdint.h>

struct pfl_traffic {
    uint64_t begun; /* streams */
    uint64_t open;  /* of them, now */
    uint64_t bytes_to_host;
    uint64_t bytes_to_operator;
};

#endif
