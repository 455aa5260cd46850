/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The identity of a producer connection's peer (docs/abi/wire.md 2.5). The kernel reports it for a
 * UNIX socket. A network peer claims it, once; the claim only distinguishes machines. Source of the
 * machine id's format: docs/abi/wire.md 2.5.
 */
#ifndef PFL_SERVICE_PEER_H
#define PFL_SERVICE_PEER_H

#include "base/bytes.h"
#include "proto/ipc/rpc_host.h"
#include "service/core/service.h"

#define PFL_PEER_NAME_MAX 255u /* a longer machine name is cut */

struct pfl_peer {
    uint32_t uid;
    uint64_t who;        /* the user whose share it uses, from the kernel: base/shares.h */
    int64_t pid;         /* -1 unknown */
    uint32_t machine_id; /* 0: this host, or unknown */
    char machine_name[PFL_PEER_NAME_MAX + 1];
    char local_host[64]; /* our own address without the port, for peers without a hint */
    bool is_network;     /* no shared memory, and its claims are unproven */
    bool is_privileged;  /* set by the port: of pfl_port_conf.privileged_gid */
    bool is_identified;
};

/* Reads the kernel's credentials of the connected socket `fd`. PFL_EIO. */
PFL_MUST_USE int pfl_peer_read(struct pfl_peer *self, int fd);
/* Does the peer of the accepted socket `*fd` connect no faster than its user, or its address, may?
 * False: it does; the socket is closed, `*fd` is -1, and that is logged and counted. */
bool pfl_peer_may_connect(struct pfl_service *service, const char *socket_name, int *fd);
/* Takes the peer's claim: from network peers only, the first time only. */
void pfl_peer_identify(struct pfl_peer *self, const struct pfl_rpc_peer_identity *identity);
/* The id of the machine that gives this hint; never 0. */
uint32_t pfl_peer_hash_machine(struct pfl_span hint);

#endif
