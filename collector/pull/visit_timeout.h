/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a host may be waited for in a visit: a minute, and longer the more bytes it gave. Only
 * time in which the collector waits for the host counts. Pure.
 */
#ifndef PFL_COLLECTOR_PULL_VISIT_TIMEOUT_H
#define PFL_COLLECTOR_PULL_VISIT_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_VISIT_TIMEOUT_FREE_MS 60000u
/* A slower host is asked again later, if others wait. */
#define PFL_VISIT_TIMEOUT_BYTES_PER_S 8192u

struct pfl_visit_timeout {
    uint64_t waited_ms;
    uint64_t bytes;
    uint64_t since_ms;
    bool is_waiting;
};

/* Something is asked for. */
void pfl_visit_timeout_begin(struct pfl_visit_timeout *self, uint64_t now_ms);
/* It came, with so many bytes, or is waited for no more. */
void pfl_visit_timeout_end(struct pfl_visit_timeout *self, uint64_t now_ms, uint64_t bytes);
/* How much longer it may take; 0: the host is too slow. */
uint64_t pfl_visit_timeout_get_left_ms(const struct pfl_visit_timeout *self, uint64_t now_ms);

#endif
