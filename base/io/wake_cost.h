/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sockets of a user cost us. To send, to receive and to close wakes all that wait for the
 * other end, in our time: a peer that has its end in 100,000 epolls makes each call take 50 ms. Its
 * user's sockets wait PFL_WAKE_COST_TIMES as long then. Pure, but for the clocks of begin and end.
 */
#ifndef PFL_BASE_IO_WAKE_COST_H
#define PFL_BASE_IO_WAKE_COST_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_WAKE_COST_NS       2000000u /* of CPU time in one call, from which on it counts */
#define PFL_WAKE_COST_TIMES    100u
#define PFL_WAKE_COST_USERS    32u            /* of more the one who waits least is forgotten */
#define PFL_WAKE_COST_WATCH_NS 60000000000ull /* CPU time is measured so long after a slow call */

struct pfl_wake_cost_user {
    uint32_t uid;
    uint64_t due_ns; /* its sockets wait until then */
};

/* Zero-initialized. */
struct pfl_wake_cost {
    uint64_t watched_until_ns;
    uint64_t due_ns; /* nobody waits after that */
    struct pfl_wake_cost_user users[PFL_WAKE_COST_USERS];
};

struct pfl_wake_cost_call {
    uint64_t began_ns;
    uint64_t cpu_ns; /* 0: not measured */
};

/* Around a call of the kernel. */
struct pfl_wake_cost_call pfl_wake_cost_begin(const struct pfl_wake_cost *self);
/* True: it was the call's cost, which is charged. */
bool pfl_wake_cost_end(struct pfl_wake_cost *self, uint32_t uid, struct pfl_wake_cost_call call);

void pfl_wake_cost_charge(struct pfl_wake_cost *self, uint32_t uid, uint64_t cpu_ns,
                          uint64_t now_ns);
/* How long sockets of the user wait; 0: not at all. */
uint64_t pfl_wake_cost_get_wait_ms(const struct pfl_wake_cost *self, uint32_t uid, uint64_t now_ns);

#endif
