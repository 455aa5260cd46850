/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits each user's connections to part_ns of a loop turn. Beyond it they wait in a queue of their
 * user; the end of each turn releases as many from its front as a part has time for. If nobody else
 * wants the loop, this costs little. Pure; times are arguments.
 */
#ifndef PFL_BASE_FAIR_TURN_H
#define PFL_BASE_FAIR_TURN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define PFL_FAIR_TURN_NS      100000u
#define PFL_FAIR_TURN_USERS   64u         /* counted separately; further users share an entry */
#define PFL_FAIR_TURN_RELEASE 64u         /* connections of a user at most, at the end of a turn */
#define PFL_FAIR_TURN_OWED_NS 1000000000u /* what exceeds it is forgotten */

enum pfl_fair_turn_state {
    PFL_FAIR_TURN_IDLE,
    PFL_FAIR_TURN_WAITING,  /* in the queue of its user */
    PFL_FAIR_TURN_RELEASED, /* goes before those that wait */
};

/* Part of a connection. Zero-initialized. */
struct pfl_fair_turn_conn {
    struct pfl_list node; /* while it waits */
    enum pfl_fair_turn_state state;
    uint64_t served; /* the turn after the last one in which it was served */
};

struct pfl_fair_turn_user {
    struct pfl_list waiting; /* pfl_fair_turn_conn; borrowed */
    uint64_t who;            /* as in base/shares.h */
    uint64_t turn;           /* the last turn in which one of its connections was ready */
    uint64_t taken_ns;       /* in that turn, with what was owed from those before */
    uint64_t served_ns;      /* the part of it that its connections took when they were served */
    unsigned served;         /* connections, in that turn */
    uint64_t cost_ns;        /* of one connection, in the last turn that served some */
    unsigned released;       /* for this turn, and not served yet */
    bool is_used;
};

/* Zero-initialized. */
struct pfl_fair_turn {
    uint64_t part_ns; /* of a user; 0: PFL_FAIR_TURN_NS */
    uint64_t turn;
    struct pfl_fair_turn_user users[PFL_FAIR_TURN_USERS];
};

/* Is this ready connection of the user served now? False: it was served in this turn already, or it
 * waits. While it waits the owner should not poll it; it is asked again once it is released. */
bool pfl_fair_turn_may(struct pfl_fair_turn *self, uint64_t who, struct pfl_fair_turn_conn *conn);
/* A served connection took this much time. */
void pfl_fair_turn_take(struct pfl_fair_turn *self, uint64_t who, uint64_t cost_ns);
/* Has the user time left in this turn? If not, a served connection that has more to do waits. */
bool pfl_fair_turn_has_time(struct pfl_fair_turn *self, uint64_t who);
void pfl_fair_turn_wait(struct pfl_fair_turn *self, uint64_t who, struct pfl_fair_turn_conn *conn);
/* Something else of this user took this much time, such as the accept of a connection. */
void pfl_fair_turn_charge(struct pfl_fair_turn *self, uint64_t who, uint64_t cost_ns);
/* Call after all ready connections were checked. `on_released` is called for each connection that
 * is to be polled again, and may be NULL; it must not call this object. */
void pfl_fair_turn_end(struct pfl_fair_turn *self,
                       void (*on_released)(struct pfl_fair_turn_conn *conn));
/* The connection ends. */
void pfl_fair_turn_leave(struct pfl_fair_turn_conn *conn);

#endif
