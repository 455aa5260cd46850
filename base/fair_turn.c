/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's part of a turn: see fair_turn.h. Happy path: while no user uses up its part, each turn
 * is a round for everybody. When a part is used up, the connections that were served wait until a
 * turn skips nobody; the next turn begins another round. Round numbers are unique, so that a user
 * that was forgotten meanwhile gets a new one. No failures.
 */
#include "base/fair_turn.h"

#include <stddef.h>

static struct pfl_fair_turn_user *find_user(struct pfl_fair_turn *self, uint64_t who)
{
    struct pfl_fair_turn_user *oldest = &self->users[who % PFL_FAIR_TURN_USERS];

    for (size_t i = 0; i < PFL_FAIR_TURN_USERS; i++) {
        struct pfl_fair_turn_user *u = &self->users[i];

        if (u->round != 0 && u->who == who)
            return u;
        if (u->turn < oldest->turn || (u->round == 0 && oldest->round != 0))
            oldest = u;
    }
    if (oldest->round != 0 && oldest->turn == self->turn)
        return oldest; /* all are in use at this turn */
    *oldest = (struct pfl_fair_turn_user){.who = who, .turn = self->turn, .round = ++self->rounds};
    return oldest;
}

bool pfl_fair_turn_may(struct pfl_fair_turn *self, uint64_t who, uint64_t *round)
{
    struct pfl_fair_turn_user *u = find_user(self, who);

    if (u->turn != self->turn) {
        if (!u->was_left_out)
            u->round = ++self->rounds;
        u->turn = self->turn;
        u->taken_ns = 0;
        u->was_left_out = false;
    }
    if (*round == u->round)
        return false;
    if (u->taken_ns >= (self->part_ns != 0 ? self->part_ns : PFL_FAIR_TURN_NS)) {
        u->was_left_out = true;
        return false;
    }
    *round = u->round;
    return true;
}

void pfl_fair_turn_take(struct pfl_fair_turn *self, uint64_t who, uint64_t cost_ns)
{
    find_user(self, who)->taken_ns += cost_ns;
}

void pfl_fair_turn_end(struct pfl_fair_turn *self)
{
    self->turn++;
}
