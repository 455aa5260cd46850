/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which hosts an order of `schedule` records in which round. Round n (from 1) begins at first +
 * (n - 1) * every. Each round takes a share of the hosts at random; no host has its second turn
 * before every other host that is there had its first one. Hosts may come and go between rounds: a
 * new one waits for its turn in the current cycle, one that left is not waited for.
 *
 * The same state, hosts and time give the same choice. Save the state after each choice and before
 * the runs are given out: a process that starts again finds in it whom it chose. Pure.
 */
#ifndef PFL_PROTO_ORDER_SCHEDULE_H
#define PFL_PROTO_ORDER_SCHEDULE_H

#include "base/buf.h"
#include "proto/order/order.h"

#define PFL_SCHEDULE_STATE_MAX_BYTES (16u << 20)
/* Rounds are chosen this long before they begin, so that the hosts know in time. */
#define PFL_SCHEDULE_LEAD_MS 5000u

struct pfl_schedule;

struct pfl_schedule_run {
    uint64_t id; /* the round */
    uint64_t begin_unix_ms;
    uint64_t duration_ms;
};

struct pfl_schedule_hosts {
    const char *const *names; /* borrowed; each once */
    size_t len;
};

/* `seed`: random. PFL_ENOMEM. */
PFL_MUST_USE int pfl_schedule_new(uint64_t seed, uint64_t first_unix_ms,
                                  struct pfl_schedule **ret_schedule);
/* From saved bytes. PFL_EPARSE, PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_schedule_load(struct pfl_span state_untrusted,
                                   struct pfl_schedule **ret_schedule);
/* Appends the state. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_schedule_save(const struct pfl_schedule *self, struct pfl_buf *out);
void pfl_schedule_free(struct pfl_schedule *self); /* NULL is legal */

/*
 * Whether hosts are to be chosen now. Rounds that are over are left out, never caught up. A clock
 * that was put back by more than a round makes the schedule continue from there; if the first round
 * was put while the clock was ahead, too.
 */
bool pfl_schedule_is_due(struct pfl_schedule *self, const struct pfl_order_terms *terms,
                         uint64_t now_unix_ms);
/*
 * Chooses, when it is due: sets ret_is_chosen[i] for each of `hosts`, those that fit the order and
 * can be reached. PFL_EAGAIN: it is not due. PFL_ELIMIT: more than PFL_ORDER_MAX_HOSTS. PFL_ENOMEM.
 * After a failure the state is as it was.
 */
PFL_MUST_USE int pfl_schedule_choose(struct pfl_schedule *self, const struct pfl_order_terms *terms,
                                     uint64_t now_unix_ms, const struct pfl_schedule_hosts *hosts,
                                     bool *ret_is_chosen);
/* The run of the last round, if `host` was chosen for it and it is not over. */
bool pfl_schedule_get_run(const struct pfl_schedule *self, const struct pfl_order_terms *terms,
                          uint64_t now_unix_ms, const char *host, struct pfl_schedule_run *ret_run);

#endif
