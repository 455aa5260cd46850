/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of a producer's connection (docs/abi/wire.md 2.5). On a UNIX socket the
 * kernel says it. On a network socket the peer says it itself, once: a claim, good for telling
 * machines apart and for nothing else. Source of the machine id's format: docs/abi/wire.md 2.5.
 */
#ifndef PFL_SERVICE_PEER_H
#define PFL_SERVICE_PEER_H

#include "base/bytes.h"
#include "proto/ipc/rpc_host.h"

#define PFL_PEER_NAME_MAX 255u /* a longer machine name is cut */

struct pfl_peer {
    uint32_t uid;
    uint64_t who;        /* whose share it uses, as the kernel says: base/shares.h */
    int64_t pid;         /* -1 unknown */
    uint32_t machine_id; /* 0: this host, or nobody said */
    char machine_name[PFL_PEER_NAME_MAX + 1];
    char local_host[64]; /* our own end without the port, for peers that give no hint */
    bool is_network;     /* no shared memory, and nothing said here is proven */
    bool is_identified;
};

/* Reads what the kernel knows of the connected socket `fd`. PFL_EIO. */
PFL_MUST_USE int pfl_peer_read(struct pfl_peer *self, int fd);
/* Takes what the peer says: network peers only, the first time only. */
void pfl_peer_identify(struct pfl_peer *self, const struct pfl_rpc_peer_identity *identity);
/* The id of the machine that gives this hint; never 0. */
uint32_t pfl_peer_hash_machine(struct pfl_span hint);

#endif
