/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's part of a turn: see fair_turn.h. Happy path: while no user uses up its part, nobody
 * waits. When a part is used up, the user's other ready connections queue, and so do all that get
 * ready before the queue is empty and its last ones are served. A turn costs in proportion to the
 * connections that it serves, not to those that wait. What exceeds a part counts in the next turns,
 * until it is paid, also while the user does nothing. So on average nobody has more than a part,
 * however long one request takes. While a user owes more than a part, the end of a turn releases
 * one, which waits again: that keeps the loop turning. No failures.
 */
#include "base/fair_turn.h"

#include <stddef.h>

static struct pfl_fair_turn_conn *conn_of(struct pfl_list *node)
{
    return PFL_CONTAINER_OF(node, struct pfl_fair_turn_conn, node);
}

static uint64_t get_part_ns(const struct pfl_fair_turn *self)
{
    return self->part_ns != 0 ? self->part_ns : PFL_FAIR_TURN_NS;
}

/* What the user owes in that turn, a later one than its last: each turn pays a part. */
static uint64_t get_owed_ns(const struct pfl_fair_turn *self, const struct pfl_fair_turn_user *u,
                            uint64_t turn)
{
    uint64_t taken_ns = u->taken_ns < PFL_FAIR_TURN_OWED_NS ? u->taken_ns : PFL_FAIR_TURN_OWED_NS;
    uint64_t parts = taken_ns / get_part_ns(self);

    return turn - u->turn <= parts ? taken_ns - (turn - u->turn) * get_part_ns(self) : 0;
}

static bool can_forget(const struct pfl_fair_turn *self, const struct pfl_fair_turn_user *u)
{
    return !u->is_used || (u->turn != self->turn && pfl_list_is_empty(&u->waiting) &&
                           get_owed_ns(self, u, self->turn) == 0);
}

static struct pfl_fair_turn_user *find_user(struct pfl_fair_turn *self, uint64_t who)
{
    struct pfl_fair_turn_user *oldest = NULL;

    for (size_t i = 0; i < PFL_FAIR_TURN_USERS; i++) {
        struct pfl_fair_turn_user *u = &self->users[i];

        if (u->is_used && u->who == who)
            return u;
        if (can_forget(self, u) &&
            (oldest == NULL || (oldest->is_used && (!u->is_used || u->turn < oldest->turn))))
            oldest = u;
    }
    if (oldest == NULL)
        return &self->users[who % PFL_FAIR_TURN_USERS];
    *oldest = (struct pfl_fair_turn_user){.who = who, .turn = self->turn, .is_used = true};
    pfl_list_init(&oldest->waiting);
    return oldest;
}

/* Its figures are those of this turn. */
static struct pfl_fair_turn_user *find_user_now(struct pfl_fair_turn *self, uint64_t who)
{
    struct pfl_fair_turn_user *u = find_user(self, who);

    if (u->turn == self->turn)
        return u;
    u->taken_ns = get_owed_ns(self, u, self->turn);
    u->served_ns = 0;
    u->served = 0;
    u->turn = self->turn;
    return u;
}

bool pfl_fair_turn_has_time(struct pfl_fair_turn *self, uint64_t who)
{
    return find_user_now(self, who)->taken_ns < get_part_ns(self);
}

static bool wait_behind(struct pfl_list *node, struct pfl_fair_turn_conn *conn)
{
    conn->state = PFL_FAIR_TURN_WAITING;
    pfl_list_append(node, &conn->node);
    return false;
}

bool pfl_fair_turn_may(struct pfl_fair_turn *self, uint64_t who, struct pfl_fair_turn_conn *conn)
{
    struct pfl_fair_turn_user *u;
    bool is_released = conn->state == PFL_FAIR_TURN_RELEASED;

    if (conn->state == PFL_FAIR_TURN_WAITING || conn->served == self->turn + 1)
        return false;
    u = find_user_now(self, who);
    if (u->taken_ns >= get_part_ns(self))
        return wait_behind(is_released ? u->waiting.next : &u->waiting, conn);
    if (!is_released && (u->released != 0 || !pfl_list_is_empty(&u->waiting)))
        return wait_behind(&u->waiting, conn);
    if (is_released && u->released != 0)
        u->released--;
    conn->state = PFL_FAIR_TURN_IDLE;
    conn->served = self->turn + 1;
    u->served++;
    return true;
}

void pfl_fair_turn_wait(struct pfl_fair_turn *self, uint64_t who, struct pfl_fair_turn_conn *conn)
{
    if (conn->state == PFL_FAIR_TURN_IDLE)
        (void)wait_behind(&find_user_now(self, who)->waiting, conn);
}

void pfl_fair_turn_take(struct pfl_fair_turn *self, uint64_t who, uint64_t cost_ns)
{
    struct pfl_fair_turn_user *u = find_user_now(self, who);

    u->taken_ns += cost_ns;
    u->served_ns += cost_ns;
}

void pfl_fair_turn_charge(struct pfl_fair_turn *self, uint64_t who, uint64_t cost_ns)
{
    find_user_now(self, who)->taken_ns += cost_ns;
}

/* As many as a part has time for, if they cost as much as those that were served last. */
static void release(struct pfl_fair_turn *self, struct pfl_fair_turn_user *u,
                    void (*on_released)(struct pfl_fair_turn_conn *conn))
{
    uint64_t owed_ns = get_owed_ns(self, u, self->turn + 1);
    uint64_t left_ns = owed_ns < get_part_ns(self) ? get_part_ns(self) - owed_ns : 0;

    if (u->served != 0)
        u->cost_ns = u->served_ns / u->served;
    u->released = 0;
    while (u->released < PFL_FAIR_TURN_RELEASE && !pfl_list_is_empty(&u->waiting)) {
        struct pfl_fair_turn_conn *conn = conn_of(u->waiting.next);

        u->released++;
        pfl_list_remove(&conn->node);
        conn->state = PFL_FAIR_TURN_RELEASED;
        if (on_released != NULL)
            on_released(conn);
        if (left_ns <= u->cost_ns)
            return;
        left_ns -= u->cost_ns;
    }
}

void pfl_fair_turn_end(struct pfl_fair_turn *self,
                       void (*on_released)(struct pfl_fair_turn_conn *conn))
{
    for (size_t i = 0; i < PFL_FAIR_TURN_USERS; i++)
        if (self->users[i].is_used)
            release(self, &self->users[i], on_released);
    self->turn++;
}

void pfl_fair_turn_leave(struct pfl_fair_turn_conn *conn)
{
    if (conn->state == PFL_FAIR_TURN_WAITING)
        pfl_list_remove(&conn->node);
    conn->state = PFL_FAIR_TURN_IDLE;
}
