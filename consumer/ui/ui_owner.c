/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Happy path: asks the kernel for the one socket at the other end (sock_diag(7)), whose answer
 * takes the same time however many connections other users have. A kernel without that answers
 * neither for our own end; then the tables of all connections are searched. Failure: a connection
 * that is not found has no owner.
 */
#include "consumer/ui/ui_owner.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "consumer/ui/ui_access.h"

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 body;
};

union answer {
    struct nlmsghdr head;
    char bytes[1024];
};

/* The socket whose own address is `local`. False: there is none, or the kernel cannot tell. */
static bool find_socket(const struct sockaddr_in *local, const struct sockaddr_in *remote,
                        struct inet_diag_msg *ret_socket)
{
    struct question q = {
        .head = {.nlmsg_len = sizeof(q),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = AF_INET, .sdiag_protocol = IPPROTO_TCP, .idiag_states = ~0u},
    };
    union answer answer;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    ssize_t len = -1;

    q.body.id.idiag_sport = local->sin_port;
    q.body.id.idiag_dport = remote->sin_port;
    q.body.id.idiag_src[0] = local->sin_addr.s_addr;
    q.body.id.idiag_dst[0] = remote->sin_addr.s_addr;
    q.body.id.idiag_cookie[0] = INET_DIAG_NOCOOKIE;
    q.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    if (fd >= 0 && send(fd, &q, sizeof(q), 0) == (ssize_t)sizeof(q))
        len = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT); /* the answer is there already */
    if (fd >= 0)
        (void)close(fd);
    if (len < (ssize_t)NLMSG_LENGTH(sizeof(*ret_socket)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    memcpy(ret_socket, NLMSG_DATA(&answer.head), sizeof(*ret_socket));
    return true;
}

static bool search_tables(uint16_t port, uint16_t own_port, uint32_t *ret_uid)
{
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    bool is_found = false;
    char line[512];

    for (size_t i = 0; i < 2 && !is_found; i++) {
        FILE *table = fopen(tables[i], "re");

        while (table != NULL && !is_found && fgets(line, sizeof(line), table) != NULL)
            is_found = pfl_ui_read_owner(line, port, own_port, ret_uid);
        if (table != NULL)
            (void)fclose(table);
    }
    return is_found;
}

/* False: not known. */
static bool find_owner(int fd, uint16_t own_port, uint32_t *ret_uid)
{
    struct sockaddr_in peer = {0};
    struct sockaddr_in own = {0};
    socklen_t peer_len = sizeof(peer);
    socklen_t own_len = sizeof(own);
    struct inet_diag_msg found;

    if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) != 0 || peer.sin_family != AF_INET ||
        getsockname(fd, (struct sockaddr *)&own, &own_len) != 0)
        return false;
    if (!find_socket(&own, &peer, &found))
        return search_tables(ntohs(peer.sin_port), own_port, ret_uid);
    /* The kernel says that root owns an end which its program has closed. */
    if (!find_socket(&peer, &own, &found) || found.idiag_state != TCP_ESTABLISHED)
        return false;
    *ret_uid = found.idiag_uid;
    return true;
}

bool pfl_ui_owner_is_ours(int fd, uint16_t own_port)
{
    uint32_t uid;

    return find_owner(fd, own_port, &uid) && (uid == geteuid() || uid == 0);
}

bool pfl_ui_owner_is(int fd, uint16_t own_port, uint32_t uid)
{
    uint32_t owner;

    return find_owner(fd, own_port, &owner) && owner == uid;
}
