/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of changes: see change_rates.h. Happy path: the operator's bucket has a token. Failures:
 * none. Owns nothing. Limits: those of the header; an operator that is forgotten begins with a full
 * bucket, as one that made no change for 10 s has.
 */
#include "collector/serve/change_rates.h"

#include <stdio.h>
#include <string.h>

static size_t find(const struct pfl_change_rates *r, const char *name)
{
    size_t i = 0;

    while (i < r->len && strcmp(r->operators[i].name, name) != 0)
        i++;
    return i;
}

static size_t find_oldest(const struct pfl_change_rates *r)
{
    size_t oldest = 0;

    for (size_t i = 1; i < r->len; i++) {
        if (r->operators[i].bucket.at_ms < r->operators[oldest].bucket.at_ms)
            oldest = i;
    }
    return oldest;
}

bool pfl_change_rates_take(struct pfl_change_rates *self, const char *operator_name,
                           uint64_t now_ms)
{
    size_t i = find(self, operator_name);

    if (i == self->len) {
        i = i < PFL_CHANGE_RATES_OPERATORS ? self->len++ : find_oldest(self);
        memset(&self->operators[i], 0, sizeof(self->operators[i]));
        (void)snprintf(self->operators[i].name, sizeof(self->operators[i].name), "%s",
                       operator_name);
        pfl_token_bucket_set(&self->operators[i].bucket, PFL_CHANGE_RATES_PER_S,
                             PFL_CHANGE_RATES_BURST, now_ms);
    }
    if (pfl_token_bucket_get(&self->operators[i].bucket, now_ms) == 0)
        return false;
    pfl_token_bucket_take(&self->operators[i].bucket, 1);
    return true;
}
