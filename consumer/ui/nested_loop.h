/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libuv loop inside another, for a library that needs one of its own (docs/adr/0019): the outer
 * loop waits on the inner one's descriptor, and runs it before it sleeps.
 */
#ifndef PFL_CONSUMER_NESTED_LOOP_H
#define PFL_CONSUMER_NESTED_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"

struct pfl_nested_loop {
    uv_loop_t inner;
    uv_poll_t poll; /* on inner's descriptor */
    uv_prepare_t prepare;
    uv_timer_t timer;
    unsigned handles; /* of the three above, those that are open */
    uint64_t turns;   /* of the inner loop */
    bool is_closing;
    /* After each turn; true: the next one is at once. */
    bool (*on_turn)(void *user);
    void (*on_closed)(void *user); /* nothing of it is open any more */
    void *user;
};

/* With the callbacks and the user set, all else zero; then the caller must close it. PFL_EIO: it
 * needs no close. */
PFL_MUST_USE int pfl_nested_loop_open(struct pfl_nested_loop *self, uv_loop_t *outer);
/* The inner loop has no handles any more. on_closed follows. */
void pfl_nested_loop_close(struct pfl_nested_loop *self);

#endif
