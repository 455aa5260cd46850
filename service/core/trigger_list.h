/* SPDX-License-Identifier: Apache-2.0 */
/* The triggers that a session received, and when which trigger was activated in the last day. */
#ifndef PFL_SERVICE_TRIGGER_LIST_H
#define PFL_SERVICE_TRIGGER_LIST_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/shares.h"

#define PFL_TRIGGERS_MAX        1024u /* of a session, shared by users; later ones leave no packet */
#define PFL_TRIGGER_HISTORY_MAX 65536u /* shared by users */
#define PFL_TRIGGER_RATES       256u   /* users whose numbers are equal modulo this share */
#define PFL_TRIGGER_AT_ONCE     1024u  /* of one user */
#define PFL_TRIGGER_PER_S       100u   /* after that */
#define PFL_TRIGGER_HISTORY_NS  (24ull * 3600 * 1000000000)

struct pfl_trigger {
    uint64_t boottime_ns;
    struct pfl_span name;          /* in the plan's config */
    struct pfl_span producer_name; /* owned */
    uint32_t producer_uid;
    uint64_t who; /* raised it, as in base/shares.h */
    uint32_t stop_delay_ms;
    uint64_t due_ms; /* what it does is due, CLOCK_MONOTONIC; UINT64_MAX: done, or nothing to do */
};

struct pfl_trigger_list {
    struct pfl_trigger *received; /* owned; in the order of their arrival */
    size_t received_len;
    size_t received_cap;
    size_t told_len;     /* have their packets in the trace */
    size_t cloned_len;   /* the first so many are in a clone; they wait here for their time only */
    uint64_t timeout_ms; /* a session that waits for its start gives up; UINT64_MAX: it does not */
};

/* Takes a copy of producer_name. PFL_ENOMEM, PFL_ELIMIT: of all, or of who raised it. */
PFL_MUST_USE int pfl_trigger_list_add(struct pfl_trigger_list *self,
                                      const struct pfl_trigger *trigger);
/* What a clone gets: those that no earlier clone has; for it there is nothing left to do. `self` is
 * zeroed. PFL_ENOMEM: then it is as before. */
PFL_MUST_USE int pfl_trigger_list_copy(struct pfl_trigger_list *self,
                                       const struct pfl_trigger_list *from);
/* All are in a clone: forgets those with nothing left to do. */
void pfl_trigger_list_set_cloned(struct pfl_trigger_list *self);
void pfl_trigger_list_fini(struct pfl_trigger_list *self); /* legal on zeroed memory */

struct pfl_trigger_event {
    uint64_t boottime_ns;
    uint64_t name_hash; /* with a key (base/hash.h): names that meet are not to be found */
    uint64_t who;       /* raised it, as in base/shares.h */
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
    uint64_t due_ns[PFL_TRIGGER_RATES]; /* by user: when the bucket is full again */
};

/* Takes one of what the user may raise now. False: not now. Root is not asked. */
bool pfl_trigger_history_may_raise(struct pfl_trigger_history *self, uint64_t boottime_ns,
                                   uint64_t who);
void pfl_trigger_history_init(struct pfl_trigger_history *self);
/* Forgets what is older than a day; how often the name was activated since. */
size_t pfl_trigger_history_count(struct pfl_trigger_history *self, uint64_t boottime_ns,
                                 uint64_t name_hash);
/* False: the event is not counted, because of its user's share or for lack of memory. */
bool pfl_trigger_history_add(struct pfl_trigger_history *self,
                             const struct pfl_trigger_event *event);
/* The event that was added last does not count. */
void pfl_trigger_history_take_back(struct pfl_trigger_history *self);
void pfl_trigger_history_fini(struct pfl_trigger_history *self); /* legal on zeroed memory */

#endif
