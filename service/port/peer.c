/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer's identity.
 *
 * read: SO_PEERCRED for UNIX sockets; for all others uid 0, pid unknown, machine 0, as every host
 * of this protocol starts, and the address of our own end. identify: a network peer's claim, once;
 * the machine id is a hash of its hint or, without one, of our end's address. Failure: PFL_EIO if
 * the socket has no credentials. Owns nothing. Limit: PFL_PEER_NAME_MAX.
 */
#include "service/port/peer.h"

#include <arpa/inet.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io/fdsock.h"
#include "base/log.h"
#include "base/shares.h"

#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

uint32_t pfl_peer_hash_machine(struct pfl_span hint)
{
    uint64_t hash = FNV_BASIS;

    for (size_t i = 0; i < hint.len; i++)
        hash = (hash ^ hint.data[i]) * FNV_PRIME;
    return (uint32_t)hash != 0 ? (uint32_t)hash : 1;
}

static void print_host(const struct sockaddr_storage *addr, char *dst, size_t dst_len)
{
    char text[INET6_ADDRSTRLEN] = "";
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_vm vm;

    if (addr->ss_family == AF_INET) {
        memcpy(&in, addr, sizeof(in));
        (void)inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
        (void)snprintf(dst, dst_len, "%s", text);
    } else if (addr->ss_family == AF_INET6) {
        memcpy(&in6, addr, sizeof(in6));
        (void)inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof(text));
        (void)snprintf(dst, dst_len, "[%s]", text);
    } else if (addr->ss_family == AF_VSOCK) {
        memcpy(&vm, addr, sizeof(vm));
        (void)snprintf(dst, dst_len, "vsock://%u", vm.svm_cid);
    }
}

/* All of one address are one peer; of an IPv6 address the network counts, which is one's own. */
static uint64_t hash_host(int fd)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
    struct sockaddr_vm vm;

    if (getpeername(fd, (struct sockaddr *)&addr, &len) == 0 && addr.ss_family == AF_INET) {
        memcpy(&in, &addr, sizeof(in));
        return pfl_shares_hash(&in.sin_addr, sizeof(in.sin_addr));
    }
    if (addr.ss_family == AF_INET6) {
        memcpy(&in6, &addr, sizeof(in6));
        return pfl_shares_hash(&in6.sin6_addr, sizeof(in6.sin6_addr) / 2);
    }
    if (addr.ss_family == AF_VSOCK) {
        memcpy(&vm, &addr, sizeof(vm));
        return pfl_shares_hash(&vm.svm_cid, sizeof(vm.svm_cid));
    }
    return PFL_SHARES_UIDS;
}

int pfl_peer_read(struct pfl_peer *self, int fd)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof(addr);
    struct pfl_peer_cred cred;
    int rc;

    *self = (struct pfl_peer){.pid = -1};
    if (getsockname(fd, (struct sockaddr *)&addr, &len) != 0)
        return PFL_EIO;
    if (addr.ss_family != AF_UNIX) {
        self->is_network = true;
        print_host(&addr, self->local_host, sizeof(self->local_host));
        self->who = hash_host(fd);
        return 0;
    }
    rc = pfl_fdsock_get_cred(fd, &cred);
    if (rc != 0)
        return rc;
    self->uid = cred.uid;
    self->who = cred.who;
    self->pid = cred.pid;
    return 0;
}

bool pfl_peer_may_connect(struct pfl_service *service, const char *socket_name, int *fd)
{
    struct pfl_peer_cred cred = {0};
    bool is_unix = pfl_fdsock_get_cred(*fd, &cred) == 0;

    if (pfl_service_may_connect(service, is_unix ? cred.who : hash_host(*fd)))
        return true;
    if (is_unix)
        pfl_log_warn("connecting-too-often", "socket=%s uid=%u; its connections are closed",
                     socket_name, cred.uid);
    else
        pfl_log_warn("connecting-too-often", "socket=%s; connections of a network peer are closed",
                     socket_name);
    pfl_fdsock_drop(*fd);
    *fd = -1;
    return false;
}

void pfl_peer_identify(struct pfl_peer *self, const struct pfl_rpc_peer_identity *identity)
{
    struct pfl_span hint = identity->machine_id_hint;
    size_t len = identity->machine_name.len;

    if (!self->is_network || self->is_identified)
        return;
    self->is_identified = true;
    self->uid = identity->uid;
    self->pid = identity->pid;
    if (hint.len == 0)
        hint = pfl_span_of(self->local_host, strlen(self->local_host));
    self->machine_id = pfl_peer_hash_machine(hint);
    if (len > PFL_PEER_NAME_MAX)
        len = PFL_PEER_NAME_MAX;
    if (len != 0)
        memcpy(self->machine_name, identity->machine_name.data, len);
    self->machine_name[len] = '\0';
}
