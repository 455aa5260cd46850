/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State that the library keeps for the program: a block per session, shared by its writers, and the
 * sizes of each writer's own block.
 */
#ifndef PFL_PRODUCER_STATE_H
#define PFL_PRODUCER_STATE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "producer/perfleet.h"

struct pfl_state {
    _Atomic(uint32_t) refs;
    size_t session_bytes;
    size_t thread_bytes;
    void *user;
    void (*on_session_end)(void *user, void *state);
    void (*on_thread_end)(void *user, void *state);
    _Alignas(16) uint8_t session[];
};

/* As requested in the data source's conf. *ret_state is NULL if nothing was requested.
 * PFL_ENOMEM. */
PFL_MUST_USE int pfl_state_new(const struct perfleet_source_conf *conf,
                               struct pfl_state **ret_state);
/* NULL is legal. */
struct pfl_state *pfl_state_ref(struct pfl_state *self);
void pfl_state_unref(struct pfl_state *self);

#endif
