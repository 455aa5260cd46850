/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a session, reference-counted: the instance and each of its writers hold one reference.
 * The last release calls the program. In pages of its own, because a release may happen inside a
 * signal handler.
 */
#include "producer/shared_memory/state.h"

#include "producer/platform/heap.h"

int pfl_state_new(const struct perfleet_source_conf *conf, struct pfl_state **ret_state)
{
    struct pfl_state *self;

    *ret_state = NULL;
    if (conf->session_state_bytes == 0 && conf->thread_state_bytes == 0)
        return 0;
    self = pfl_heap_map(sizeof(*self) + conf->session_state_bytes);
    if (self == NULL)
        return PFL_ENOMEM;
    atomic_init(&self->refs, 1);
    self->session_bytes = conf->session_state_bytes;
    self->thread_bytes = conf->thread_state_bytes;
    self->user = conf->user;
    self->on_session_end = conf->on_session_state_end;
    self->on_thread_end = conf->on_thread_state_end;
    *ret_state = self;
    return 0;
}

/* Relaxed: the caller has a reference. The last unref acquires what all others released. */
struct pfl_state *pfl_state_ref(struct pfl_state *self)
{
    if (self != NULL)
        atomic_fetch_add_explicit(&self->refs, 1, memory_order_relaxed);
    return self;
}

void pfl_state_unref(struct pfl_state *self)
{
    if (self == NULL || atomic_fetch_sub_explicit(&self->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (self->on_session_end != NULL && self->session_bytes != 0)
        self->on_session_end(self->user, self->session);
    pfl_heap_unmap(self, sizeof(*self) + self->session_bytes);
}
