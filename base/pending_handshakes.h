/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which unfinished handshake continues when there is more work than time, and which one is
 * closed when there are too many. Strangers can begin handshakes, so CPU time is charged to the
 * client's address, and refunded when its handshake finishes:
 *
 *   proven   finished a handshake within PFL_PENDING_HANDSHAKES_PROVEN_MS, and left little
 *            unfinished: goes first, without a budget
 *   fresh    left little unfinished: goes while the common budget lasts, which must hold in
 *            proportion to what it left
 *   crowded  as fresh, but its network (IPv4: 16 bits, IPv6: 32) left much unfinished, from however
 *            many addresses: goes after fresh ones, while half of that budget is there
 *   suspect  left more unfinished: goes while most of that budget is there
 *
 * Of each kind those that have begun go before others, and further down into the budget: what they
 * cost comes back when they finish.
 * One step of a handshake at a time; addresses of a kind take turns. Pure; time is an argument.
 */
#ifndef PFL_BASE_PENDING_HANDSHAKES_H
#define PFL_BASE_PENDING_HANDSHAKES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/list.h"

/* Unfinished from one IPv4 address, or one IPv6 network of 56 bits. */
#define PFL_PENDING_HANDSHAKES_PER_PEER 128u
/* That wait, of a suspect, once the budget is used. */
#define PFL_PENDING_HANDSHAKES_SUSPECT_WAITING 8u
/* Addresses that are known at a time. With more, two may share one account. */
#define PFL_PENDING_HANDSHAKES_PEERS 16384u
/* Networks of which it is known what they left. */
#define PFL_PENDING_HANDSHAKES_NETWORKS 1024u
/* How long an address is proven, from the end of its last connection. */
#define PFL_PENDING_HANDSHAKES_PROVEN_MS (3600u * 1000)
/* CPU time that one address may leave in unfinished handshakes and be fresh, or proven; how much of
 * it is remembered; and forgotten in a second. */
#define PFL_PENDING_HANDSHAKES_FRESH_US  10000u
#define PFL_PENDING_HANDSHAKES_PROVEN_US 50000u
#define PFL_PENDING_HANDSHAKES_KNOWN_US  80000u
#define PFL_PENDING_HANDSHAKES_FORGET_US 20u
/* The same of a network: what makes it crowded, what is remembered, and forgotten in a second. What
 * suspects leave does not count there, so that one address does not make it crowded. */
#define PFL_PENDING_HANDSHAKES_NETWORK_US        80000u
#define PFL_PENDING_HANDSHAKES_NETWORK_KNOWN_US  160000u
#define PFL_PENDING_HANDSHAKES_NETWORK_FORGET_US 200u
/* The budget of all that are not proven: at once, and in each second (5 % of a core). */
#define PFL_PENDING_HANDSHAKES_BURST_US 1000000u
#define PFL_PENDING_HANDSHAKES_PER_S_US 50000u
/* What suspects leave of it to others. */
#define PFL_PENDING_HANDSHAKES_RESERVE_US (PFL_PENDING_HANDSHAKES_BURST_US / 4 * 3)

#define PFL_PENDING_HANDSHAKES_ADDRESS_BYTES 16u

struct pfl_pending_handshakes;
struct pfl_pending_handshakes_peer;

/* In the caller's storage, zeroed at first; stays where it is until it is removed. */
struct pfl_pending_handshake {
    struct pfl_list in_all;  /* oldest first */
    struct pfl_list of_peer; /* oldest first */
    struct pfl_list waits;
    struct pfl_pending_handshakes_peer *peer; /* borrowed; NULL: not added */
    uint64_t cost_us;
    uint64_t budget_us;  /* of it, taken from the budget of all */
    uint64_t network_us; /* of it, left by its network */
    bool is_waiting;
    bool is_free;    /* of the budget: the step that was granted is a proven address's */
    bool is_suspect; /* that step is a suspect's */
    uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES]; /* stays after it is removed */
};

/* Who counts as one: an IPv4 address, an IPv6 network of 56 bits, all that is neither. */
void pfl_pending_handshakes_read_address(const struct sockaddr_storage *peer,
                                         uint8_t ret_address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES]);

struct pfl_pending_handshakes_conf {
    unsigned max;     /* unfinished at a time; > 0 */
    unsigned per_min; /* begun by one address; 0: no limit */
    uint32_t seed;    /* random: nobody chooses whose account he shares */
};

struct pfl_pending_handshakes_figures {
    unsigned unfinished;
    unsigned waiting;
    uint64_t finished;
    uint64_t refused;
    uint64_t ousted;
    uint64_t cost_us; /* of all */
};

PFL_MUST_USE int pfl_pending_handshakes_new(const struct pfl_pending_handshakes_conf *conf,
                                            uint64_t now_ms,
                                            struct pfl_pending_handshakes **ret_self);
/* Nothing may be in it. NULL is legal. */
void pfl_pending_handshakes_free(struct pfl_pending_handshakes *self);

/* One more begins. `*ret_goes`: another that has to go for it, removed already; or NULL.
 * PFL_ELIMIT: per_min. PFL_EAGAIN: a suspect has enough that wait. */
PFL_MUST_USE int pfl_pending_handshakes_add(struct pfl_pending_handshakes *self,
                                            struct pfl_pending_handshake *h,
                                            const struct sockaddr_storage *peer, uint64_t now_ms,
                                            struct pfl_pending_handshake **ret_goes);
/* May it take its next step now? False: it waits, and pfl_pending_handshakes_next will return it.
 */
bool pfl_pending_handshakes_try_step(struct pfl_pending_handshakes *self,
                                     struct pfl_pending_handshake *h, uint64_t now_ms);
/* It waits: there is something to compute, and no time now. */
void pfl_pending_handshakes_wait(struct pfl_pending_handshakes *self,
                                 struct pfl_pending_handshake *h);
/* Who may take a step now, and no longer waits; NULL: nobody. */
struct pfl_pending_handshake *pfl_pending_handshakes_next(struct pfl_pending_handshakes *self,
                                                          uint64_t now_ms);
/* What its step has cost. */
void pfl_pending_handshakes_charge(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h, uint64_t cost_us,
                                   uint64_t now_ms);
/* It is over. `is_proven`: the peer has shown a certificate: what the handshake cost is given
 * back, and what its address left unfinished before is forgiven. Idempotent; legal on zeroed
 * memory. */
void pfl_pending_handshakes_remove(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h, bool is_proven,
                                   uint64_t now_ms);
/* After it was removed as proven, again and again while its connection lives, and at the end of
 * that: its address is proven from then on. */
void pfl_pending_handshakes_renew(struct pfl_pending_handshakes *self,
                                  const struct pfl_pending_handshake *h, uint64_t now_ms);
bool pfl_pending_handshakes_are_waiting(const struct pfl_pending_handshakes *self);
void pfl_pending_handshakes_get_figures(const struct pfl_pending_handshakes *self,
                                        struct pfl_pending_handshakes_figures *ret_figures);

#endif
