/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket: a rate per second, and a burst. Pure; time is an argument. */
#ifndef PFL_BASE_TOKEN_BUCKET_H
#define PFL_BASE_TOKEN_BUCKET_H

#include <stdint.h>

struct pfl_token_bucket {
    uint64_t per_s; /* 0: no limit */
    uint64_t burst;
    uint64_t level;
    uint64_t debt; /* taken beyond the level; repaid first */
    uint64_t rest; /* fraction of the refill, in 1/1000 */
    uint64_t at_ms;
};

/* Fills it. Repeatable: a new rate keeps the level, limited to the new burst. */
void pfl_token_bucket_set(struct pfl_token_bucket *self, uint64_t per_s, uint64_t burst,
                          uint64_t now_ms);
/* How much may be taken now: UINT64_MAX without a limit. */
uint64_t pfl_token_bucket_get(struct pfl_token_bucket *self, uint64_t now_ms);
/* May exceed the result of get: then get returns 0 until that is repaid. */
void pfl_token_bucket_take(struct pfl_token_bucket *self, uint64_t amount);
/* Returns what was taken, up to the burst. */
void pfl_token_bucket_give(struct pfl_token_bucket *self, uint64_t amount);

#endif
