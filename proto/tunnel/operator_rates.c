/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of operators: see operator_rates.h. Happy path: the operator's bucket has tokens. Failures:
 * none. Owns nothing. Limits: those of the header; an operator that is forgotten begins with a full
 * bucket, as one has who asked for nothing while it filled.
 */
#include "proto/tunnel/operator_rates.h"

#include <stdio.h>
#include <string.h>

static size_t find(const struct pfl_operator_rates *r, const char *name)
{
    size_t i = 0;

    while (i < r->len && strcmp(r->operators[i].name, name) != 0)
        i++;
    return i;
}

static size_t find_oldest(const struct pfl_operator_rates *r)
{
    size_t oldest = 0;

    for (size_t i = 1; i < r->len; i++) {
        if (r->operators[i].bucket.at_ms < r->operators[oldest].bucket.at_ms)
            oldest = i;
    }
    return oldest;
}

bool pfl_operator_rates_take(struct pfl_operator_rates *self, const char *operator_name,
                             uint64_t amount, uint64_t now_ms)
{
    size_t i = find(self, operator_name);

    if (i == self->len) {
        i = i < PFL_OPERATOR_RATES_MAX ? self->len++ : find_oldest(self);
        memset(&self->operators[i], 0, sizeof(self->operators[i]));
        (void)snprintf(self->operators[i].name, sizeof(self->operators[i].name), "%s",
                       operator_name);
        pfl_token_bucket_set(&self->operators[i].bucket, self->per_s, self->burst, now_ms);
    }
    if (pfl_token_bucket_get(&self->operators[i].bucket, now_ms) < amount)
        return false;
    pfl_token_bucket_take(&self->operators[i].bucket, amount);
    return true;
}
