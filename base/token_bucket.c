/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A token bucket: see token_bucket.h. It is refilled at each call, in thousandths, so that the rate
 * holds at any frequency of calls. A clock that goes backwards refills nothing. Cannot fail.
 */
#include "base/token_bucket.h"

void pfl_token_bucket_set(struct pfl_token_bucket *self, uint64_t per_s, uint64_t burst,
                          uint64_t now_ms)
{
    uint64_t had = self->per_s != 0 ? pfl_token_bucket_get(self, now_ms) : burst;

    self->per_s = per_s;
    self->burst = burst;
    self->level = had < burst ? had : burst;
    self->at_ms = now_ms;
}

uint64_t pfl_token_bucket_get(struct pfl_token_bucket *self, uint64_t now_ms)
{
    uint64_t passed_ms = now_ms > self->at_ms ? now_ms - self->at_ms : 0;
    uint64_t fill;

    if (self->per_s == 0)
        return UINT64_MAX;
    self->at_ms = now_ms;
    /* Longer than it takes to fill up is as good as that; and nothing overflows. */
    if (passed_ms / 1000 > (self->burst + self->debt) / self->per_s) {
        self->debt = 0;
        self->level = self->burst;
        return self->level;
    }
    fill = passed_ms * self->per_s + self->rest;
    self->rest = fill % 1000;
    fill /= 1000;
    if (fill < self->debt) {
        self->debt -= fill;
        return 0;
    }
    self->level += fill - self->debt;
    self->debt = 0;
    if (self->level > self->burst)
        self->level = self->burst;
    return self->level;
}

void pfl_token_bucket_take(struct pfl_token_bucket *self, uint64_t amount)
{
    uint64_t paid = amount < self->level ? amount : self->level;

    if (self->per_s == 0)
        return;
    self->level -= paid;
    self->debt += amount - paid;
}

void pfl_token_bucket_give(struct pfl_token_bucket *self, uint64_t amount)
{
    uint64_t paid = amount < self->debt ? amount : self->debt;
    uint64_t room = self->burst - self->level;

    self->debt -= paid;
    amount -= paid;
    self->level += amount < room ? amount : room;
}
