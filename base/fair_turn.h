/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits each user's connections to part_ns of a loop turn. A user over the limit is served in the
 * next turn, after the others, starting with the connections that were skipped. If nobody else
 * wants the loop, this costs nothing. Pure; times are arguments.
 */
#ifndef PFL_BASE_FAIR_TURN_H
#define PFL_BASE_FAIR_TURN_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_FAIR_TURN_NS    1000000u
#define PFL_FAIR_TURN_USERS 64u /* counted separately in one turn; further users share an entry */

struct pfl_fair_turn_user {
    uint64_t who;      /* as in base/shares.h */
    uint64_t turn;     /* the last turn in which the user was served */
    uint64_t round;    /* in a round each of the user's connections is served once */
    uint64_t taken_ns; /* in that turn */
    bool was_left_out; /* one of its connections was skipped in that turn */
};

/* Zero-initialized. */
struct pfl_fair_turn {
    uint64_t part_ns; /* of a user; 0: PFL_FAIR_TURN_NS */
    uint64_t turn;
    uint64_t rounds; /* rounds given out so far */
    struct pfl_fair_turn_user users[PFL_FAIR_TURN_USERS];
};

/* May this connection of the user be served now? `*round` belongs to the connection, is 0 at first,
 * and records that it was served. */
bool pfl_fair_turn_may(struct pfl_fair_turn *self, uint64_t who, uint64_t *round);
/* A served connection took this much time. */
void pfl_fair_turn_take(struct pfl_fair_turn *self, uint64_t who, uint64_t cost_ns);
/* Call after all ready connections were checked. */
void pfl_fair_turn_end(struct pfl_fair_turn *self);

#endif
