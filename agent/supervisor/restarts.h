/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether and when a program that ended is restarted. Pure: time and randomness are
 * arguments. */
#ifndef PFL_AGENT_KEEP_RESTARTS_H
#define PFL_AGENT_KEEP_RESTARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tunnel/backoff.h"

/* Wrong usage or configuration does not change by itself. */
#define PFL_RESTARTS_WRONG_USAGE 2

struct pfl_restarts {
    struct pfl_backoff backoff;
    unsigned short_lives; /* consecutive, each below PFL_BACKOFF_PROVED_MS */
};

/* The life of a program's process; all 0 if it never started. */
struct pfl_life {
    uint64_t up_ms;
    bool was_ready; /* it sent READY=1 */
};

/* True: restart it; else the keeper exits with its status. `wait_status` is waitpid's;
 * `is_stopping`: a signal to stop was passed on before. */
bool pfl_restarts_is_due(int wait_status, bool is_stopping);
/* The equivalent exit status: 128 + the number of the signal that ended it. */
int pfl_restarts_exit_status(int wait_status);
/* How long to wait: 0 after a long life or the first short one, then increasing with jitter; at
 * most 2 s if the program was ready. `random` is any 64 bits. */
uint64_t pfl_restarts_wait_ms(struct pfl_restarts *self, const struct pfl_life *life,
                              uint64_t random);

#endif
