/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all connections of one peer (fair_turn.h) may take of a turn of the loop for their input,
 * and for what is sent to them: PFL_INPUT_TURN_NS, plus the piece that exceeds it, which counts in
 * the next turns. For all ports of a process: what a connection is for makes no difference.
 */
#ifndef PFL_BASE_IO_INPUT_TURNS_H
#define PFL_BASE_IO_INPUT_TURNS_H

#include <uv.h>

#include "base/err.h"
#include "base/fair_turn.h"

#define PFL_INPUT_TURN_NS 2000000u
/* Of a connection at once: as records without much in them some 3 ms. */
#define PFL_INPUT_TURN_BYTES (64u << 10)

struct pfl_input_turns;

/* Part of a connection. Zero-initialized: it has no turns, and may always read. */
struct pfl_input_turn {
    struct pfl_input_turns *turns; /* a counted reference */
    struct pfl_fair_turn_conn conn;
    uint64_t who; /* whose connection it is: base/shares.h */
    uint64_t since_ns;
};

/* Keeps no loop alive. PFL_ENOMEM. */
PFL_MUST_USE int pfl_input_turns_open(uv_loop_t *loop, struct pfl_input_turns **ret_turns);
/* Asynchronous: freed with the last connection; until then nobody waits any more. */
void pfl_input_turns_close(struct pfl_input_turns *self);

/* `turns` NULL: it stays without. */
void pfl_input_turn_join(struct pfl_input_turn *self, struct pfl_input_turns *turns, uint64_t who);
/* May its input be read in this turn of the loop? */
bool pfl_input_turn_begin(struct pfl_input_turn *self);
/* The same, also if it was let before in this turn: then until the part is used up. */
bool pfl_input_turn_go_on(struct pfl_input_turn *self);
/* All that was done since it was asked, or since the call before, was for its input. */
void pfl_input_turn_end(struct pfl_input_turn *self);
/* Idempotent. */
void pfl_input_turn_leave(struct pfl_input_turn *self);

#endif
