/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which unfinished handshake continues when there is more work than time, and which one is
 * closed when there are too many. Strangers can begin handshakes, so CPU time is charged to the
 * client's address, and refunded when its handshake finishes, as often as one identity may connect
 * (PFL_PENDING_HANDSHAKES_OF_ONE); beyond that a finished handshake counts as an unfinished one.
 *
 *   proven   finished a handshake within PFL_PENDING_HANDSHAKES_PROVEN_MS, and has little
 *            unfinished work: goes first, not charged to the budget
 *   fresh    little unfinished work: goes while the common budget lasts; the more unfinished
 *            work, the more budget must be left
 *   crowded  as fresh, but its network (IPv4: 16 bits, IPv6: 32) has much unfinished work,
 *            from any number of addresses: goes after fresh ones, while half the budget is left
 *   suspect  more unfinished work: goes while three quarters of the budget are left
 *
 * Within a rank, begun handshakes go before new ones, and may use more of the budget: their cost is
 * refunded when they finish.
 * One step of a handshake at a time; addresses of a rank take turns. Pure; time is an argument.
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
/* Waiting handshakes of a suspect, once the budget is used up. */
#define PFL_PENDING_HANDSHAKES_SUSPECT_WAITING 8u
/* Addresses with an account at a time. With more, two may share one. */
#define PFL_PENDING_HANDSHAKES_PEERS 16384u
/* Finished handshakes of one identity that are refunded: at once, and per second. Identities whose
 * names hash to the same bucket share them. */
#define PFL_PENDING_HANDSHAKES_OF_ONE           20u
#define PFL_PENDING_HANDSHAKES_OF_ONE_PER_S     1u
#define PFL_PENDING_HANDSHAKES_IDENTITY_BUCKETS 8192u
/* Networks with an account at a time. */
#define PFL_PENDING_HANDSHAKES_NETWORKS 1024u
/* How long an address is proven, from the end of its last connection. */
#define PFL_PENDING_HANDSHAKES_PROVEN_MS (3600u * 1000)
/* Unfinished CPU time of one address: up to which it is fresh, and up to which it is proven; the
 * maximum that is remembered; and how much is forgotten per second. */
#define PFL_PENDING_HANDSHAKES_FRESH_US  10000u
#define PFL_PENDING_HANDSHAKES_PROVEN_US 50000u
#define PFL_PENDING_HANDSHAKES_KNOWN_US  80000u
#define PFL_PENDING_HANDSHAKES_FORGET_US 20u
/* The same for a network: above which it is crowded, the maximum that is remembered, and how much
 * is forgotten per second. Unfinished work of suspects does not count, so that one address does not
 * make its network crowded. */
#define PFL_PENDING_HANDSHAKES_NETWORK_US        80000u
#define PFL_PENDING_HANDSHAKES_NETWORK_KNOWN_US  160000u
#define PFL_PENDING_HANDSHAKES_NETWORK_FORGET_US 200u
/* The common budget of all addresses that are not proven: at once, and per second (5 % of a
 * core). */
#define PFL_PENDING_HANDSHAKES_BURST_US 1000000u
#define PFL_PENDING_HANDSHAKES_PER_S_US 50000u
/* The part of it that suspects leave to others. */
#define PFL_PENDING_HANDSHAKES_RESERVE_US (PFL_PENDING_HANDSHAKES_BURST_US / 4 * 3)

#define PFL_PENDING_HANDSHAKES_ADDRESS_BYTES 16u

struct pfl_pending_handshakes;
struct pfl_pending_handshakes_peer;

/* In the caller's storage, zeroed before add; stays where it is until it is removed. */
struct pfl_pending_handshake {
    struct pfl_list in_all;  /* oldest first */
    struct pfl_list of_peer; /* oldest first */
    struct pfl_list waits;
    struct pfl_pending_handshakes_peer *peer; /* borrowed; NULL: not added */
    uint64_t cost_us;
    uint64_t budget_us;  /* of it, charged to the common budget */
    uint64_t network_us; /* of it, charged to its network */
    bool is_waiting;
    bool is_free;    /* not charged: the granted step is a proven address's */
    bool is_suspect; /* the granted step is a suspect's */
    uint8_t address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES]; /* stays after it is removed */
};

/* The unit that is charged: an IPv4 address, an IPv6 network of 56 bits, or all others together. */
void pfl_pending_handshakes_read_address(const struct sockaddr_storage *peer,
                                         uint8_t ret_address[PFL_PENDING_HANDSHAKES_ADDRESS_BYTES]);

struct pfl_pending_handshakes_conf {
    unsigned max;     /* unfinished at a time; > 0 */
    unsigned per_min; /* begun by one address; 0: no limit */
    uint32_t seed;    /* random: nobody can choose with whom it shares an account */
};

struct pfl_pending_handshakes_figures {
    unsigned unfinished;
    unsigned waiting;
    uint64_t finished;
    uint64_t unrefunded; /* of those */
    uint64_t refused;
    uint64_t ousted;
    uint64_t cost_us; /* of all */
};

PFL_MUST_USE int pfl_pending_handshakes_new(const struct pfl_pending_handshakes_conf *conf,
                                            uint64_t now_ms,
                                            struct pfl_pending_handshakes **ret_self);
/* Must be empty. NULL is legal. */
void pfl_pending_handshakes_free(struct pfl_pending_handshakes *self);

/* Adds a handshake. `*ret_goes`: another one that must be closed for it, removed already; or NULL.
 * PFL_ELIMIT: per_min. PFL_EAGAIN: a suspect with too many waiting. */
PFL_MUST_USE int pfl_pending_handshakes_add(struct pfl_pending_handshakes *self,
                                            struct pfl_pending_handshake *h,
                                            const struct sockaddr_storage *peer, uint64_t now_ms,
                                            struct pfl_pending_handshake **ret_goes);
/* May it take its next step now? False: it waits, and pfl_pending_handshakes_next will return it.
 */
bool pfl_pending_handshakes_try_step(struct pfl_pending_handshakes *self,
                                     struct pfl_pending_handshake *h, uint64_t now_ms);
/* It waits: it has a step to compute, and there is no time now. */
void pfl_pending_handshakes_wait(struct pfl_pending_handshakes *self,
                                 struct pfl_pending_handshake *h);
/* The next one that may take a step, no longer waiting; NULL: none. */
struct pfl_pending_handshake *pfl_pending_handshakes_next(struct pfl_pending_handshakes *self,
                                                          uint64_t now_ms);
/* Charges the cost of its step. */
void pfl_pending_handshakes_charge(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h, uint64_t cost_us,
                                   uint64_t now_ms);
/* It is over, unfinished. Idempotent; legal on zeroed memory and after finish. */
void pfl_pending_handshakes_remove(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h);
/* It was added, and is finished: the peer has shown the certificate of `identity`. True: its cost
 * is refunded, earlier unfinished work of its address is forgiven, and the address is proven.
 * False: that identity has finished too many; the cost stays. */
bool pfl_pending_handshakes_finish(struct pfl_pending_handshakes *self,
                                   struct pfl_pending_handshake *h, const char *identity,
                                   uint64_t now_ms);
/* Call after finish returned true, repeatedly while its connection lives, and at the connection's
 * end: renews the address's proof. */
void pfl_pending_handshakes_renew(struct pfl_pending_handshakes *self,
                                  const struct pfl_pending_handshake *h, uint64_t now_ms);
bool pfl_pending_handshakes_are_waiting(const struct pfl_pending_handshakes *self);
void pfl_pending_handshakes_get_figures(const struct pfl_pending_handshakes *self,
                                        struct pfl_pending_handshakes_figures *ret_figures);

#endif
