/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a host may be waited for in a visit, or in its turn to get orders: some seconds, and
 * longer the more bytes and answers it gave. Only time in which the collector waits for the host
 * counts. Pure.
 */
#ifndef PFL_COLLECTOR_RELAY_HOST_TIMEOUT_H
#define PFL_COLLECTOR_RELAY_HOST_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_HOST_TIMEOUT_FREE_MS 10000u
/* A host that took so long, beside the time for its bytes, was slow. */
#define PFL_HOST_TIMEOUT_SLOW_MS 5000u
/* A slower host is asked again later, if others wait. */
#define PFL_HOST_TIMEOUT_BYTES_PER_S 8192u

/* For the way there and back of each request. */
#define PFL_HOST_TIMEOUT_ANSWER_MS 100u

struct pfl_host_timeout {
    uint64_t waited_ms;
    uint64_t bytes;
    uint64_t answers; /* whole ones; the caller counts them */
    uint64_t since_ms;
    bool is_waiting;
};

/* Something is asked for. */
void pfl_host_timeout_begin(struct pfl_host_timeout *self, uint64_t now_ms);
/* It came, with so many bytes, or is waited for no more. */
void pfl_host_timeout_end(struct pfl_host_timeout *self, uint64_t now_ms, uint64_t bytes);
/* What it gave until now makes it no longer. */
void pfl_host_timeout_restart(struct pfl_host_timeout *self, uint64_t now_ms);
/* How much longer it may take; 0: the host is too slow. */
uint64_t pfl_host_timeout_get_left_ms(const struct pfl_host_timeout *self, uint64_t now_ms);
bool pfl_host_timeout_was_slow(const struct pfl_host_timeout *self, uint64_t now_ms);

#endif
