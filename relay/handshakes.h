/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that have not shown who they are yet: how many of them there may be, from one peer
 * and at all, and how many a minute one peer may begin. The oldest gives way to a new one, so that
 * those who only hold a place cannot keep out those who go through with it. Pure.
 */
#ifndef PFL_RELAY_HANDSHAKES_H
#define PFL_RELAY_HANDSHAKES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"
#include "relay/bucket.h"

/* From one IPv4 address, or one IPv6 network of 64 bits. */
#define PFL_HANDSHAKES_PER_PEER 128u

/* Peers whose rates are known at a time. With more, two may share one. */
#define PFL_HANDSHAKES_RATES 1024u

struct pfl_handshake {
    struct pfl_list node;
    uint8_t peer[16];
};

struct pfl_handshakes {
    struct pfl_list all; /* oldest first; borrowed */
    unsigned count;
    unsigned max;
    unsigned per_min; /* 0: no limit */
    struct pfl_bucket rates[PFL_HANDSHAKES_RATES];
};

/* `max` > 0; `per_min` of one peer, 0: no limit. */
void pfl_handshakes_init(struct pfl_handshakes *self, unsigned max, unsigned per_min);
/* May this peer begin one more now? Counts it. */
bool pfl_handshakes_try_begin(struct pfl_handshakes *self, const struct sockaddr_storage *peer,
                              uint64_t now_ms);
/* Adds `h`. Returns the one that has to go for it, which is no longer in the list; or NULL. */
struct pfl_handshake *pfl_handshakes_add(struct pfl_handshakes *self, struct pfl_handshake *h,
                                         const struct sockaddr_storage *peer);
/* Idempotent; legal on zeroed memory. */
void pfl_handshakes_remove(struct pfl_handshakes *self, struct pfl_handshake *h);

#endif
