/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that ends between two writes, for tests: preloaded into a program (LD_PRELOAD), it
 * shuts a UNIX socket down when the program has written PFL_CUT_AFTER times to it, and then makes
 * the file PFL_CUT_MARK. It is the first socket that is written to of which the peer's name ends
 * with PFL_CUT_PEER: of perfleet the one for the session, not the one for the clock.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static bool is_that_peer(int sock, const char *name)
{
    struct sockaddr_un peer = {0};
    socklen_t len = sizeof(peer) - 1;
    size_t path_len;

    if (name == NULL || getpeername(sock, (struct sockaddr *)&peer, &len) != 0 ||
        peer.sun_family != AF_UNIX)
        return false;
    path_len = strlen(peer.sun_path);
    return path_len >= strlen(name) && strcmp(peer.sun_path + path_len - strlen(name), name) == 0;
}

ssize_t sendmsg(int sock, const struct msghdr *msg, int flags)
{
    static long writes;
    static int cut = -1;
    const char *after = getenv("PFL_CUT_AFTER");
    const char *mark = getenv("PFL_CUT_MARK");
    ssize_t n = syscall(SYS_sendmsg, sock, msg, flags);

    if (n <= 0 || after == NULL || mark == NULL || !is_that_peer(sock, getenv("PFL_CUT_PEER")))
        return n;
    if (cut < 0)
        cut = sock;
    if (sock == cut && ++writes == strtol(after, NULL, 10)) {
        (void)shutdown(sock, SHUT_RDWR);
        (void)close(open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    return n;
}
