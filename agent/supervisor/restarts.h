/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a program that ended is started again, and when. Pure: time and chance are arguments. */
#ifndef PFL_AGENT_KEEP_RESTARTS_H
#define PFL_AGENT_KEEP_RESTARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tunnel/backoff.h"

/* Wrong usage or configuration does not become right by itself. */
#define PFL_RESTARTS_WRONG_USAGE 2

struct pfl_restarts {
    struct pfl_backoff backoff;
    unsigned short_lives; /* one after the other, each below PFL_BACKOFF_PROVED_MS */
};

/* What a program's process was: of one that never came to be all is 0. */
struct pfl_life {
    uint64_t up_ms;
    bool was_ready; /* it said READY=1 */
};

/* It is started again; else the keeper ends as it did. `wait_status` is waitpid's; `is_stopping`:
 * a signal to stop was passed on before. */
bool pfl_restarts_is_due(int wait_status, bool is_stopping);
/* The exit status that says the same: 128 and the number of the signal for one that ended it. */
int pfl_restarts_exit_status(int wait_status);
/* How long to wait: not at all after a long life or the first short one, then ever longer with
 * jitter; a program that was ready is waited for 2 s at most. `random` is any 64 bits. */
uint64_t pfl_restarts_wait_ms(struct pfl_restarts *self, const struct pfl_life *life,
                              uint64_t random);

#endif
