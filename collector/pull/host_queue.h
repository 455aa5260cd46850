/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which host is visited next. A visit reads finished segments of one host over one stream. Hosts
 * with segments take queue, at most `visits_max` at the same time, and a visit is bounded: so each
 * host's share is the same, whatever it has. Pure: time and randomness are arguments.
 *
 *     pfl_host_queue_set(queue, &(struct pfl_queued_host_state){...}, now_ms);   // a relay's list
 *     while ((host = pfl_host_queue_take(queue, now_ms)) != NULL)               // begin a visit
 *     pfl_host_queue_give(queue, host, PFL_VISIT_DRAINED, now_ms, random);      // its end
 *
 * After a failure the host waits, longer each time, for a random time (tunnel/backoff.h). A host
 * that was slow is visited after those that were not, and such hosts have half of the visits.
 */
#ifndef PFL_COLLECTOR_PULL_HOST_QUEUE_H
#define PFL_COLLECTOR_PULL_HOST_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

#define PFL_HOST_QUEUE_VISITS_MAX  8u
#define PFL_HOST_QUEUE_WAIT_MAX_MS 300000u
#define PFL_HOST_QUEUE_LEASED_MS   1000u   /* up to twice as long a leased host waits */
#define PFL_HOST_QUEUE_REVISIT_MS  600000u /* hosts that report no segments are asked so often */

/* How a visit ended. */
enum pfl_visit_end {
    PFL_VISIT_DRAINED = 0, /* the host has no more segments */
    PFL_VISIT_MORE,        /* its part is used up */
    PFL_VISIT_STUCK,       /* what is left cannot be taken now */
    PFL_VISIT_LOST,        /* the stream failed repeatedly, or was refused */
    PFL_VISIT_LEASED,      /* another collector visits the host now */
    PFL_VISIT_FULL,        /* the index takes no more of its gaps: a change ends no wait */
    PFL_VISIT_CORRUPT,     /* bytes were read for nothing: likewise */
    PFL_VISIT_ENDS,
};

struct pfl_host_queue;
struct pfl_queued_host; /* borrowed by whom took it, until it is given back */

struct pfl_queued_host_state {
    const char *name; /* copied */
    unsigned relay;   /* which relay says so: below PFL_HOST_MAP_RELAYS */
    bool is_connected;
    uint64_t segments; /* in its spool */
    uint64_t bytes;
};

PFL_MUST_USE int pfl_host_queue_new(unsigned visits_max, const struct pfl_hash_key *hash_key,
                                    struct pfl_host_queue **ret_queue);
void pfl_host_queue_free(struct pfl_host_queue *self); /* no host is taken; NULL is legal */

/* A relay's entry of a host. PFL_ENOMEM, PFL_ELIMIT: the host is not known then. */
PFL_MUST_USE int pfl_host_queue_set(struct pfl_host_queue *self,
                                    const struct pfl_queued_host_state *state, uint64_t now_ms);
/* The relay is lost: what it said no longer holds. */
void pfl_host_queue_forget_relay(struct pfl_host_queue *self, unsigned relay);

/* NULL: none now. */
struct pfl_queued_host *pfl_host_queue_take(struct pfl_host_queue *self, uint64_t now_ms);
void pfl_host_queue_give(struct pfl_host_queue *self, struct pfl_queued_host *host,
                         enum pfl_visit_end end, uint64_t now_ms, uint64_t random);
/* What its visit shows so far: until the end of the next one. */
void pfl_host_queue_set_slow(struct pfl_host_queue *self, struct pfl_queued_host *host,
                             bool is_slow);
/* Another host waits for the visit that this one has. */
bool pfl_host_queue_is_wanted(const struct pfl_host_queue *self, const struct pfl_queued_host *host,
                              uint64_t now_ms);
/* When a host that waits may be taken. UINT64_MAX: none waits, or a visit has to end first. */
uint64_t pfl_host_queue_get_next_ms(const struct pfl_host_queue *self);

const char *pfl_queued_host_get_name(const struct pfl_queued_host *host);
/* The relay whose turn the visit is: relays take turns, so that none of them has all visits, by
 * hosts of its own or by those of another. */
unsigned pfl_queued_host_get_turn(const struct pfl_queued_host *host);
/* A relay that has the host, after relay `after` in a circle; PFL_HOST_MAP_RELAYS: none has.
 */
unsigned pfl_queued_host_get_relay(const struct pfl_queued_host *host, unsigned after);

struct pfl_host_queue_figures {
    unsigned hosts;
    unsigned connected;
    unsigned visited; /* now */
    unsigned ready;   /* wait for their turn */
    unsigned waiting; /* wait after a failure */
    uint64_t segments_behind;
    uint64_t bytes_behind;
};
void pfl_host_queue_get_figures(const struct pfl_host_queue *self,
                                struct pfl_host_queue_figures *ret_figures);

#endif
