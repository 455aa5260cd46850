/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one consumer observes: a mask, and the events of this loop turn in one message
 * (docs/abi/service.md section 11). A core.
 */
#ifndef PFL_SERVICE_OBSERVE_H
#define PFL_SERVICE_OBSERVE_H

#include "base/message.h"
#include "service/core/data_source.h"

enum pfl_observe_mask {
    PFL_OBSERVE_INSTANCES = 1,
    PFL_OBSERVE_ALL_STARTED = 2,
    PFL_OBSERVE_CLONE_TRIGGER = 4,
};

/* Of one message; if more happens in a turn, the consumer misses some. */
#define PFL_OBSERVE_MAX_BYTES 65536u

struct pfl_observe {
    unsigned mask;
    struct pfl_buf events; /* owned: ObservableEvents so far */
    bool is_all_started;
};

void pfl_observe_init(struct pfl_observe *self);
void pfl_observe_fini(struct pfl_observe *self);
/* Adds an instance's state; states that are not reported are ignored. If the message is full, the
 * event is left out. */
void pfl_observe_instance(struct pfl_observe *self, const struct pfl_instance *instance,
                          struct pfl_span source_name);
void pfl_observe_all_started(struct pfl_observe *self);
struct pfl_observe_clone_hit {
    uint64_t session_id;
    struct pfl_span trigger_name;
    struct pfl_span producer_name;
    uint32_t producer_uid;
    uint64_t boottime_ns;
    uint32_t delay_ms;
};
/* Adds the event that asks the consumer to clone the session. */
void pfl_observe_clone_hit(struct pfl_observe *self, const struct pfl_observe_clone_hit *hit);
bool pfl_observe_has_events(const struct pfl_observe *self);
/* The ObservableEvents so far; borrowed until the next call. Call clear afterwards. */
struct pfl_span pfl_observe_get(struct pfl_observe *self);
void pfl_observe_clear(struct pfl_observe *self);

#endif
