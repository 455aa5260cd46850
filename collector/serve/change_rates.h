/* SPDX-License-Identifier: Apache-2.0 */
/* How many changes each operator may make: a rate and a burst, by name, over all of the operator's
 * streams. Each change is in the log, so what one operator can write there is bounded. Pure. */
#ifndef PFL_COLLECTOR_SERVE_CHANGE_RATES_H
#define PFL_COLLECTOR_SERVE_CHANGE_RATES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/token_bucket.h"
#include "proto/tunnel/identity.h"

#define PFL_CHANGE_RATES_PER_S     10u
#define PFL_CHANGE_RATES_BURST     100u
#define PFL_CHANGE_RATES_OPERATORS 256u /* above, the one whose change is oldest is forgotten */

/* Zero-initialized. */
struct pfl_change_rates {
    struct {
        struct pfl_token_bucket bucket;
        char name[PFL_IDENTITY_NAME_BYTES];
    } operators[PFL_CHANGE_RATES_OPERATORS];
    size_t len;
};

/* False: this operator has to wait. */
bool pfl_change_rates_take(struct pfl_change_rates *self, const char *operator_name,
                           uint64_t now_ms);

#endif
