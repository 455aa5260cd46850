/* SPDX-License-Identifier: Apache-2.0 */
/* A token bucket: so much a second, and so much at once after a pause. Pure; time is an argument.
 */
#ifndef PFL_BASE_TOKEN_BUCKET_H
#define PFL_BASE_TOKEN_BUCKET_H

#include <stdint.h>

struct pfl_token_bucket {
    uint64_t per_s; /* 0: no limit */
    uint64_t burst;
    uint64_t level;
    uint64_t debt; /* taken beyond the level; paid first */
    uint64_t rest; /* of the refill, in 1/1000 */
    uint64_t at_ms;
};

/* Full. Legal again and again: a new rate keeps the level as far as it fits. */
void pfl_token_bucket_set(struct pfl_token_bucket *self, uint64_t per_s, uint64_t burst,
                          uint64_t now_ms);
/* How much may be taken now: UINT64_MAX without a limit. */
uint64_t pfl_token_bucket_get(struct pfl_token_bucket *self, uint64_t now_ms);
/* May be more than get said: then get says 0 until that is paid. */
void pfl_token_bucket_take(struct pfl_token_bucket *self, uint64_t amount);
/* Gives back what was taken; no more than the burst stays. */
void pfl_token_bucket_give(struct pfl_token_bucket *self, uint64_t amount);

#endif
