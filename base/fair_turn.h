/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of one turn of the loop the connections of one user take: part_ns. Who has taken it is
 * asked again at the next turn, after other users were served; and then those of his connections
 * come first that were left out. Nothing is lost by it while nobody else wants the loop. Pure;
 * times are arguments.
 */
#ifndef PFL_BASE_FAIR_TURN_H
#define PFL_BASE_FAIR_TURN_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_FAIR_TURN_NS    1000000u
#define PFL_FAIR_TURN_USERS 64u /* counted by themselves in one turn; more share */

struct pfl_fair_turn_user {
    uint64_t who;      /* as in base/shares.h */
    uint64_t turn;     /* the last one in which he was served */
    uint64_t round;    /* in a round each of his connections is served once */
    uint64_t taken_ns; /* in that turn */
    bool was_left_out; /* one of his connections, in that turn */
};

/* Zeroed memory is one in which nobody took anything. */
struct pfl_fair_turn {
    uint64_t part_ns; /* of a user; 0: PFL_FAIR_TURN_NS */
    uint64_t turn;
    uint64_t rounds; /* that were given out */
    struct pfl_fair_turn_user users[PFL_FAIR_TURN_USERS];
};

/* May this connection of his be served now? `*round`, the connection's, 0 at first, notes that it
 * was. */
bool pfl_fair_turn_may(struct pfl_fair_turn *self, uint64_t who, uint64_t *round);
/* One that was served took so much. */
void pfl_fair_turn_take(struct pfl_fair_turn *self, uint64_t who, uint64_t cost_ns);
/* All that were ready have been asked. */
void pfl_fair_turn_end(struct pfl_fair_turn *self);

#endif
