/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The orders that this host was given: bounded, checked, judged with what their orderers may do
 * here, each with its state. It decides whether an order is to run now. Pure.
 */
#ifndef PFL_AGENT_HOST_ORDERS_H
#define PFL_AGENT_HOST_ORDERS_H

#include "base/buf.h"
#include "base/ulid.h"
#include "perfleet/spool.pb-c.h"
#include "proto/order/order.h"
#include "proto/tunnel/identity.h"

#define PFL_ORDERS_MAX             64u
#define PFL_ORDERS_OF_ORDERER      16u
#define PFL_ORDER_RUNS_MAX         16u /* of a schedule, known beforehand */
#define PFL_ORDER_FILE_BYTES       (PFL_ORDER_MAX_BYTES + 8192u)
#define PFL_ORDER_REASON_BYTES     384u
#define PFL_ORDER_SOURCES_MAX      64u   /* that a segment names */
#define PFL_HOST_ORDER_INDEX_LINES 1024u /* so often a run's index is shortened */
#define PFL_ORDER_SOURCE_BYTES     256u  /* of such a name, with its NUL */

struct pfl_host_order {
    Perfleet__HostOrder *kept;    /* owned; checked */
    struct pfl_order_terms terms; /* of it */
    Perfleet__HostOrderState__State state;
    char why[PFL_ORDER_REASON_BYTES];
    uint64_t since_unix_ms;
    uint64_t put_ms; /* the loop's clock: its collector put it, or the agent started */
    bool has_begun;  /* of `once`, in this process */
    uint64_t end_ms; /* then: when it is over; the loop's clock */
    /* Of on_trigger, since the agent's start. */
    bool has_raised;
    uint64_t raised_ms; /* when the trigger was raised for which it last copied; the loop's clock */
    char raised_id[PFL_ULID_BYTES]; /* of that event */
    uint64_t copies;
    uint64_t skipped; /* triggers for which it did not copy: too soon, or no room */
};

/* A trigger was raised, here or at another host. */
struct pfl_order_raise {
    char trigger[PFL_IDENTITY_NAME_BYTES];
    char host[PFL_IDENTITY_NAME_BYTES]; /* where */
    char id[PFL_ULID_BYTES];            /* the event's: the same at all hosts */
    uint64_t at_ms;                     /* when, on the loop's clock */
    uint64_t unix_ms;                   /* the same, on the wall clock */
};

struct pfl_host_orders {
    struct pfl_host_order *orders[PFL_ORDERS_MAX]; /* owned */
    size_t len;
};

/* Whether an order is to run now. */
struct pfl_host_order_decision {
    Perfleet__HostOrderState__State state; /* RUNNING: yes; else what it is instead */
    uint64_t left_ms;                      /* of the run; 0: endless */
    const char *why;                       /* static; "" */
};

void pfl_host_orders_fini(struct pfl_host_orders *self); /* legal on zeroed memory */
/*
 * Takes `order` in every case. PFL_EINVAL, PFL_EPERM (the role does not permit it), PFL_ELIMIT:
 * `ret_why` (PFL_ORDER_REASON_BYTES) is a sentence; PFL_ENOMEM. What was done of an order of the
 * same generation stays known. *ret_is_new: not the one that was there, and its run ends.
 */
PFL_MUST_USE int pfl_host_orders_put(struct pfl_host_orders *self, Perfleet__HostOrder *order,
                                     char *ret_why, struct pfl_host_order **ret_order,
                                     bool *ret_is_new);
struct pfl_host_order *pfl_host_orders_find(const struct pfl_host_orders *self, const char *orderer,
                                            const char *name);
void pfl_host_orders_remove(struct pfl_host_orders *self, struct pfl_host_order *order);
/* As proto/order/order_set.h has it. */
uint64_t pfl_host_orders_hash(const struct pfl_host_orders *self);

/* A collector puts an order again every 10 minutes, as long as there is one. */
void pfl_host_order_note_put(struct pfl_host_order *order, uint64_t now_unix_ms, uint64_t now_ms);
/* How long its collector did not put it, by both clocks: the wall clock is the only one that goes
 * on while the agent does not run, and may jump; so the loop's must show an hour of it. */
uint64_t pfl_host_order_get_unput_ms(const struct pfl_host_order *order, uint64_t now_unix_ms,
                                     uint64_t now_ms);
/* False: `ret_why` says what the role does not permit. */
bool pfl_host_order_is_allowed(const struct pfl_host_order *order, char *ret_why);
/* `once` begins, or began as its file says: from here on its time is that of the loop's clock, as
 * the wall clock may be set. */
void pfl_host_order_begin(struct pfl_host_order *order, uint64_t now_unix_ms, uint64_t now_ms);
void pfl_host_order_decide(const struct pfl_host_order *order, uint64_t now_unix_ms,
                           uint64_t now_ms, struct pfl_host_order_decision *ret_choice);
/* The names of its config's data sources, each once; borrowed. What is too long, or one too many,
 * is left out. Returns how many. */
size_t pfl_host_order_list_sources(const struct pfl_host_order *order,
                                   char *dst[PFL_ORDER_SOURCES_MAX]);
/* With a role that is not the kept one: a relay's of this moment. */
bool pfl_host_order_is_allowed_by(const struct pfl_host_order *order, struct pfl_span role,
                                  char *ret_why);
/* Whether a trigger is one of the order's. */
bool pfl_host_order_has_trigger(const struct pfl_host_order *order, const char *trigger);
/* NULL: the order is to copy its ring, which began at `ring_ms`, for this trigger, and remembers
 * that. Otherwise why not (static). */
const char *pfl_host_order_take_trigger(struct pfl_host_order *order,
                                        const struct pfl_order_raise *raise, uint64_t ring_ms);
/* True if it has changed. */
bool pfl_host_order_set_state(struct pfl_host_order *order, Perfleet__HostOrderState__State state,
                              const char *why, uint64_t now_unix_ms);
/* The request that starts a ring, of this unique_session_name. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_order_encode_ring(const struct pfl_host_order *order, const char *session,
                                            struct pfl_buf *out);
/* The request that starts a run, which writes to `path` and ends after `duration_ms` (0: never).
 * PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_host_order_encode_run(const struct pfl_host_order *order, const char *path,
                                           uint64_t duration_ms, struct pfl_buf *out);

#endif
