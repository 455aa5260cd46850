/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns of connections' input: see input_turns.h.
 *
 * Happy path: a connection with input asks; what it takes until it is done counts for its peer; the
 * check handle ends the turn when all connections were asked. One that may not read stays polled,
 * and asks again. Failures: none. Ownership: the handle; connections have counted references.
 * Limits: fair_turn.h's.
 */
#include "base/io/input_turns.h"

#include "base/clock.h"
#include "base/mem.h"

struct pfl_input_turns {
    struct pfl_fair_turn fair;
    uv_check_t turn_ends;
    unsigned members;
    bool is_closing;
    bool is_closed; /* the handle */
};

static void on_turn_end(uv_check_t *handle)
{
    struct pfl_input_turns *self = handle->data;

    pfl_fair_turn_end(&self->fair, NULL);
}

static void free_if_gone(struct pfl_input_turns *self)
{
    if (self->is_closed && self->members == 0)
        pfl_mem_free(self);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct pfl_input_turns *self = handle->data;

    self->is_closed = true;
    free_if_gone(self);
}

int pfl_input_turns_open(uv_loop_t *loop, struct pfl_input_turns **ret_turns)
{
    struct pfl_input_turns *self = pfl_mem_zalloc(sizeof(*self));

    if (self == NULL)
        return PFL_ENOMEM;
    self->fair.part_ns = PFL_INPUT_TURN_NS;
    (void)uv_check_init(loop, &self->turn_ends);
    self->turn_ends.data = self;
    (void)uv_check_start(&self->turn_ends, on_turn_end);
    uv_unref((uv_handle_t *)&self->turn_ends);
    *ret_turns = self;
    return 0;
}

void pfl_input_turns_close(struct pfl_input_turns *self)
{
    self->is_closing = true;
    uv_close((uv_handle_t *)&self->turn_ends, on_handle_closed);
}

void pfl_input_turn_join(struct pfl_input_turn *self, struct pfl_input_turns *turns, uint64_t who)
{
    self->who = who;
    self->since_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    self->turns = turns;
    if (turns != NULL)
        turns->members++;
}

bool pfl_input_turn_begin(struct pfl_input_turn *self)
{
    if (self->turns == NULL)
        return true;
    self->since_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    return self->turns->is_closing || pfl_fair_turn_may(&self->turns->fair, self->who, &self->conn);
}

bool pfl_input_turn_go_on(struct pfl_input_turn *self)
{
    struct pfl_input_turns *turns = self->turns;

    if (turns == NULL || turns->is_closing || self->conn.served != turns->fair.turn + 1)
        return pfl_input_turn_begin(self);
    return pfl_fair_turn_has_time(&turns->fair, self->who);
}

void pfl_input_turn_end(struct pfl_input_turn *self)
{
    uint64_t now_ns;

    if (self->turns == NULL)
        return;
    now_ns = pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
    pfl_fair_turn_take(&self->turns->fair, self->who, now_ns - self->since_ns);
    self->since_ns = now_ns;
}

void pfl_input_turn_leave(struct pfl_input_turn *self)
{
    struct pfl_input_turns *turns = self->turns;

    if (turns == NULL)
        return;
    self->turns = NULL;
    pfl_fair_turn_leave(&self->conn);
    turns->members--;
    free_if_gone(turns);
}
