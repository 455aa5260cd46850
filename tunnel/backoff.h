/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time to wait before the next attempt: exponential with full jitter, so that a thousand agents
 * that lost one relay do not return at the same moment. Pure: randomness is an argument.
 */
#ifndef PFL_TUNNEL_BACKOFF_H
#define PFL_TUNNEL_BACKOFF_H

#include <stdint.h>

#define PFL_BACKOFF_FIRST_MS 500u   /* the first wait is at most this */
#define PFL_BACKOFF_MAX_MS   30000u /* and by default no wait is longer than this */
#define PFL_BACKOFF_MIN_MS   50u
/* A connection that was up at all counts as at most so many failures: the next wait is below 2
 * s. */
#define PFL_BACKOFF_LIVED_FAILURES 2u
/* A connection that lived this long resets the failures: the next wait is a first one. */
#define PFL_BACKOFF_PROVED_MS 10000u

struct pfl_backoff {
    unsigned failures;
    uint64_t max_ms; /* 0: PFL_BACKOFF_MAX_MS */
};

/* Milliseconds until the next attempt; `random` is any 64 bits. Counts one failure. */
uint64_t pfl_backoff_next(struct pfl_backoff *self, uint64_t random);
/* The connection ended after `up_ms`. */
void pfl_backoff_lived(struct pfl_backoff *self, uint64_t up_ms);

#endif
