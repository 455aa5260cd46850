/* SPDX-License-Identifier: Apache-2.0 */
/* The triggers that a session received, and the activations of all triggers in the last day. */
#ifndef PFL_SERVICE_TRIGGER_LIST_H
#define PFL_SERVICE_TRIGGER_LIST_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/shares.h"
#include "base/user_rates.h"

#define PFL_TRIGGERS_MAX        1024u /* of a session, shared by users; later ones leave no packet */
#define PFL_TRIGGER_HISTORY_MAX 65536u /* shared by users */
#define PFL_TRIGGER_AT_ONCE     1024u  /* burst of one user */
#define PFL_TRIGGER_PER_S       100u   /* rate after the burst */
#define PFL_TRIGGER_HISTORY_NS  (24ull * 3600 * 1000000000)

struct pfl_trigger {
    uint64_t boottime_ns;
    struct pfl_span name;          /* in the plan's config */
    struct pfl_span producer_name; /* owned */
    uint32_t producer_uid;
    uint64_t who; /* the user that raised it: base/shares.h */
    uint32_t stop_delay_ms;
    uint64_t due_ms; /* when its action is due, CLOCK_MONOTONIC; UINT64_MAX: done, or none */
};

struct pfl_trigger_list {
    struct pfl_trigger *received; /* owned; in the order of their arrival */
    size_t received_len;
    size_t received_cap;
    size_t sent_len;   /* packets of the first so many are in the trace */
    size_t cloned_len; /* the first so many are in a clone; they only wait for their action here */
    uint64_t timeout_ms; /* when a session that waits for its start gives up; UINT64_MAX: never */
};

/* Copies producer_name. PFL_ENOMEM, PFL_ELIMIT: in all, or of the user that raised it. */
PFL_MUST_USE int pfl_trigger_list_add(struct pfl_trigger_list *self,
                                      const struct pfl_trigger *trigger);
/* Copies for a clone the triggers that no earlier clone has; their actions are not pending there.
 * `self` is zeroed. PFL_ENOMEM: it stays zeroed. */
PFL_MUST_USE int pfl_trigger_list_copy(struct pfl_trigger_list *self,
                                       const struct pfl_trigger_list *from);
/* All are in a clone: forgets those whose action is done. */
void pfl_trigger_list_set_cloned(struct pfl_trigger_list *self);
void pfl_trigger_list_fini(struct pfl_trigger_list *self); /* legal on zeroed memory */

struct pfl_trigger_event {
    uint64_t boottime_ns;
    uint64_t name_hash; /* with a secret key (base/hash.h): nobody can find names that collide */
    uint64_t who;       /* the user that raised it: base/shares.h */
};

struct pfl_trigger_name {
    uint64_t name_hash;
    uint32_t count; /* 0: free */
};

struct pfl_trigger_history {
    struct pfl_trigger_event *events; /* owned; a ring of `cap` */
    struct pfl_trigger_name *names;   /* owned; open addressing, twice `cap` */
    size_t first;                     /* the oldest event */
    size_t len;
    size_t cap; /* 0, or a power of two */
    struct pfl_shares shares;
    struct pfl_user_rates rates;
};

/* Takes one activation from the user's rate. False: the rate is exceeded. Root is not limited. */
bool pfl_trigger_history_may_raise(struct pfl_trigger_history *self, uint64_t boottime_ns,
                                   uint64_t who);
void pfl_trigger_history_init(struct pfl_trigger_history *self);
/* Forgets what is older than a day. Returns how often the name was activated since. */
size_t pfl_trigger_history_count(struct pfl_trigger_history *self, uint64_t boottime_ns,
                                 uint64_t name_hash);
/* False: the event is not counted, because of its user's share or for lack of memory. */
bool pfl_trigger_history_add(struct pfl_trigger_history *self,
                             const struct pfl_trigger_event *event);
/* Removes the event that was added last. */
void pfl_trigger_history_take_back(struct pfl_trigger_history *self);
void pfl_trigger_history_fini(struct pfl_trigger_history *self); /* legal on zeroed memory */

#endif
