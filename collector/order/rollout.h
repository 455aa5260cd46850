/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which host has a turn next, so that it has the orders that it should have. A turn
 * (rollout_turn.h) asks a host for its orders, puts what is missing and removes what does not fit.
 * Pure: time and randomness are arguments.
 *
 *     pfl_rollout_set_host(rollout, &state);                     // a relay's list
 *     pfl_rollout_choose(rollout, slot, now_unix_ms);            // rounds of a schedule
 *     while ((host = pfl_rollout_take(rollout, &now)) != NULL)   // begin a turn
 *     pfl_rollout_give(rollout, host, &result, now_ms, random);  // its end
 *
 * A host has a turn when it was not asked since it came, when the hash of its orders is another one
 * than at the end of the last turn, when it should have other orders than then, when the policy may
 * be another one, after its segments were taken, and every PFL_ROLLOUT_REFRESH_MS. The hash covers
 * the orders of all collectors and their states: it says only that something changed, and the
 * host's answer in a turn says what.
 */
#ifndef PFL_COLLECTOR_ORDER_ROLLOUT_H
#define PFL_COLLECTOR_ORDER_ROLLOUT_H

#include "base/hash.h"
#include "collector/order/known_orders.h"
#include "proto/order/order_set.h"

#define PFL_ROLLOUT_TURNS_MAX   8u
#define PFL_ROLLOUT_WANTED_MAX  256u /* orders that fit a host; more are left out */
#define PFL_ROLLOUT_CHECKS_MAX  256u /* hosts that one take looks at */
#define PFL_ROLLOUT_REFRESH_MS  600000u
#define PFL_ROLLOUT_LOOK_MS     5000u /* after a put the host is asked what became of it */
#define PFL_ROLLOUT_WAIT_MAX_MS 600000u
#define PFL_ROLLOUT_LEASED_MS   30000u /* hosts that another collector has are asked for so often */
#define PFL_ROLLOUT_VISITED_MS  30000u /* hosts whose segments are taken are asked so often */

struct pfl_rollout;
struct pfl_rollout_host; /* borrowed by whom took it, until it is given back */

/* PFL_ENOMEM. `turns_max`: at most PFL_ROLLOUT_TURNS_MAX. */
PFL_MUST_USE int pfl_rollout_new(unsigned turns_max, const struct pfl_hash_key *hash_key,
                                 struct pfl_rollout **ret_rollout);
void pfl_rollout_free(struct pfl_rollout *self); /* NULL is legal; no turn is under way */
/* Its reader is the caller; pfl_rollout_on_orders follows each end. */
struct pfl_known_orders *pfl_rollout_get_orders(struct pfl_rollout *self);
/* The orders are others: each host is looked at again. */
void pfl_rollout_on_orders(struct pfl_rollout *self);

/* Leases of another collector are void: its hosts are asked for now. */
void pfl_rollout_on_collector_lost(struct pfl_rollout *self);

/* ---- hosts ---- */

struct pfl_rollout_state {
    const char *name;
    unsigned relay;
    bool is_connected;   /* at that relay */
    bool is_from_start;  /* what the relay said before is void: its policy may be another one */
    char *const *labels; /* "name=value" */
    size_t labels_len;
    const char *orders; /* the hash; "": not reported */
};
/* PFL_EINVAL (no name), PFL_ELIMIT, PFL_ENOMEM: the host is as it was. */
PFL_MUST_USE int pfl_rollout_set_host(struct pfl_rollout *self,
                                      const struct pfl_rollout_state *state);
void pfl_rollout_forget_relay(struct pfl_rollout *self, unsigned relay);
/* Segments of that host were taken: it is behind by less than it said. */
void pfl_rollout_on_visited(struct pfl_rollout *self, const char *name);
const char *pfl_rollout_host_get_name(const struct pfl_rollout_host *host);
/* The next one after `after` that has it connected; PFL_HOST_MAP_RELAYS: none. */
unsigned pfl_rollout_host_get_relay(const struct pfl_rollout_host *host, unsigned after);

/* ---- rounds ---- */

/* Chooses hosts for the order's next round, when it is due: its rounds are UNSAVED then.
 * PFL_EAGAIN: it is not due; PFL_ELIMIT; PFL_ENOMEM. */
PFL_MUST_USE int pfl_rollout_choose(struct pfl_rollout *self, struct pfl_known_orders_slot *slot,
                                    uint64_t now_unix_ms);
/* The slot's rounds are SAVED: hosts that were chosen are looked at. */
void pfl_rollout_on_rounds(struct pfl_rollout *self, const struct pfl_known_orders_slot *slot,
                           uint64_t now_unix_ms);

/* ---- what a host should have ---- */

struct pfl_wanted_order {
    struct pfl_known_order *entry;   /* a reference */
    struct pfl_schedule_run runs[2]; /* that are not over: one may begin while one ends */
    unsigned runs_len;
    bool is_new_run; /* the last of them was not given to this host yet */
};
struct pfl_wanted {
    struct pfl_wanted_order *list; /* owned */
    size_t len;
    uint64_t hash;    /* of the orders and their generations */
    bool has_new_run; /* of any of them */
};
/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_rollout_get_wanted(const struct pfl_rollout *self,
                                        const struct pfl_rollout_host *host, uint64_t now_unix_ms,
                                        struct pfl_wanted *ret_wanted);
void pfl_wanted_fini(struct pfl_wanted *self); /* legal on zeroed memory */
/* The host has taken it with its runs, or refused it: it is not given these runs again. */
void pfl_rollout_host_on_given(struct pfl_rollout_host *host, const struct pfl_wanted_order *order);

/* ---- turns ---- */

struct pfl_rollout_now {
    uint64_t now_ms;      /* of the loop */
    uint64_t now_unix_ms; /* of schedules */
};
/* NULL: nobody, or as many turns as may be are under way. */
struct pfl_rollout_host *pfl_rollout_take(struct pfl_rollout *self,
                                          const struct pfl_rollout_now *now);
/* Whether all orders are to be put again, with today's role. */
bool pfl_rollout_host_is_refreshed(const struct pfl_rollout_host *host);

enum pfl_rollout_end {
    PFL_ROLLOUT_DONE = 0, /* the host has what it should have, or refused it */
    PFL_ROLLOUT_AGAIN,    /* not all: after a wait */
    PFL_ROLLOUT_LOST,     /* the stream failed, or was refused */
    PFL_ROLLOUT_LEASED,   /* another collector has this host */
};
struct pfl_rollout_result {
    enum pfl_rollout_end end;
    uint64_t wanted_hash; /* of what the turn was for */
    bool has_put;         /* something: a host that forgets it again is asked less often */
    bool was_slow;        /* others go first then, and slow hosts have half of the turns */
};
void pfl_rollout_give(struct pfl_rollout *self, struct pfl_rollout_host *host,
                      const struct pfl_rollout_result *result, uint64_t now_ms, uint64_t random);
/* Another host waits for the turn that this one has. */
bool pfl_rollout_is_wanted(const struct pfl_rollout *self, const struct pfl_rollout_host *host);
/* When take may have a host without a change or the end of a turn; UINT64_MAX: never. */
uint64_t pfl_rollout_get_next_ms(const struct pfl_rollout *self);

struct pfl_rollout_figures {
    uint64_t orders;
    uint64_t hosts;
    uint64_t ready;   /* to be looked at */
    uint64_t waiting; /* after a failure */
    uint64_t others;  /* that another collector has */
    uint64_t turns;   /* under way */
    uint64_t ends[PFL_ROLLOUT_LEASED + 1];
};
void pfl_rollout_get_figures(const struct pfl_rollout *self,
                             struct pfl_rollout_figures *ret_figures);

#endif
