/* SPDX-License-Identifier: Apache-2.0 */
/* How much of something each operator may have: a rate and a burst, by name, over all of the
 * operator's streams and connections. Pure. */
#ifndef PFL_PROTO_TUNNEL_OPERATOR_RATES_H
#define PFL_PROTO_TUNNEL_OPERATOR_RATES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/token_bucket.h"
#include "proto/tunnel/identity.h"

#define PFL_OPERATOR_RATES_MAX 256u /* above, the operator whose request is oldest is forgotten */

/* Zero-initialized, except for the first two. */
struct pfl_operator_rates {
    uint32_t per_s;
    uint32_t burst;
    struct {
        struct pfl_token_bucket bucket;
        char name[PFL_IDENTITY_NAME_BYTES];
    } operators[PFL_OPERATOR_RATES_MAX];
    size_t len;
};

/* False: nothing is taken, and this operator has to wait. */
bool pfl_operator_rates_take(struct pfl_operator_rates *self, const char *operator_name,
                             uint64_t amount, uint64_t now_ms);

#endif
