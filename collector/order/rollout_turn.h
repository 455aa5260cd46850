/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One turn at a host: asks it for the orders that it has of this collector, removes what does not
 * fit, puts what is missing, and saves what the host says of each. Pure: it says what to do, and is
 * given what came of it; one step at a time is under way.
 *
 *     while ((step = pfl_rollout_turn_take(turn)) != PFL_ROLLOUT_WAIT)
 *         begin(step);
 *     ... pfl_rollout_turn_on_status(turn, status, why) ...   // later; then the same loop again
 *
 * Orders are put on a stream for their orderer, so that the relay and the host judge them by what
 * that operator may do today. They are removed on the collector's own stream: for that it needs
 * nobody's right. A turn that lost its stream ends; the next one begins with the host's answer.
 */
#ifndef PFL_COLLECTOR_ORDER_ROLLOUT_TURN_H
#define PFL_COLLECTOR_ORDER_ROLLOUT_TURN_H

#include "collector/order/rollout.h"
#include "perfleet/spool.pb-c.h"

#define PFL_ROLLOUT_LISTED_MAX 128u /* orders in a host's answer */
#define PFL_ROLLOUT_WHY_BYTES  384u /* of a host's reason; the rest is cut off */

enum pfl_rollout_step {
    PFL_ROLLOUT_WAIT = 0, /* one is under way */
    PFL_ROLLOUT_LEASE,    /* of the host, in the index */
    PFL_ROLLOUT_CONNECT,  /* a stream to the host, for pfl_rollout_turn_get_orderer */
    PFL_ROLLOUT_LIST,     /* ask it for its orders */
    PFL_ROLLOUT_PUT,      /* pfl_rollout_turn_get_put */
    PFL_ROLLOUT_REMOVE,   /* pfl_rollout_turn_get_remove */
    PFL_ROLLOUT_SAVE,     /* pfl_rollout_turn_get_saved, each, in the index */
    PFL_ROLLOUT_END,      /* pfl_rollout_turn_get_result; free it */
};

struct pfl_rollout_turn;

/* `host` and `rollout` are borrowed until free. PFL_ENOMEM. */
PFL_MUST_USE int pfl_rollout_turn_new(const struct pfl_rollout *rollout,
                                      struct pfl_rollout_host *host, uint64_t now_unix_ms,
                                      struct pfl_rollout_turn **ret_turn);
void pfl_rollout_turn_free(struct pfl_rollout_turn *self); /* NULL is legal */

/* The next step, which is under way from now. */
enum pfl_rollout_step pfl_rollout_turn_take(struct pfl_rollout_turn *self);

/* ---- what came of it; none of these calls out ---- */

void pfl_rollout_turn_on_lease(struct pfl_rollout_turn *self, int rc, bool is_held);
/* PFL_EPERM: the policy refuses the stream. */
void pfl_rollout_turn_on_connect(struct pfl_rollout_turn *self, int rc);
/* Of LIST; `reply` is taken. */
void pfl_rollout_turn_on_list(struct pfl_rollout_turn *self, Perfleet__SpoolReply *reply);
/* Of PUT and REMOVE; `why` may be NULL. */
void pfl_rollout_turn_on_status(struct pfl_rollout_turn *self, uint32_t status, const char *why);
void pfl_rollout_turn_on_saved(struct pfl_rollout_turn *self, int rc);
/* The stream is lost, or the turn is to end: legal at any time. What the index does is awaited. */
void pfl_rollout_turn_on_lost(struct pfl_rollout_turn *self);

/* ---- what the steps are about ---- */

/* NULL: the collector itself. */
const char *pfl_rollout_turn_get_orderer(const struct pfl_rollout_turn *self);
struct pfl_rollout_put {
    Perfleet__HostOrder order; /* its parts are borrowed from the turn and from this */
    Perfleet__HostOrder__Run runs[2];
    Perfleet__HostOrder__Run *list[2];
};
void pfl_rollout_turn_get_put(const struct pfl_rollout_turn *self, struct pfl_rollout_put *ret_put);
/* Borrowed. */
void pfl_rollout_turn_get_remove(const struct pfl_rollout_turn *self,
                                 Perfleet__SpoolRequest__OrderName *ret_name);
struct pfl_rollout_saved {
    const char *orderer;
    const char *name;
    const Perfleet__HostOrderState *state; /* NULL: it has it no more */
};
size_t pfl_rollout_turn_count_saved(const struct pfl_rollout_turn *self);
/* During SAVE, also in a thread. Borrowed until its result is given. */
void pfl_rollout_turn_get_saved(const struct pfl_rollout_turn *self, size_t index,
                                struct pfl_rollout_saved *ret_saved);
void pfl_rollout_turn_get_result(const struct pfl_rollout_turn *self,
                                 struct pfl_rollout_result *ret_result);
/* Of what went wrong last; "": nothing did. */
const char *pfl_rollout_turn_get_why(const struct pfl_rollout_turn *self);

struct pfl_rollout_turn_figures {
    uint64_t put;
    uint64_t removed;
    uint64_t refused;
};
void pfl_rollout_turn_get_figures(const struct pfl_rollout_turn *self,
                                  struct pfl_rollout_turn_figures *ret_figures);

#endif
