/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet pki`: the fleet's certificate authority. It is a script over openssl, perfleet-pki,
 * beside this program or in libexec/perfleet; this finds and becomes it.
 *
 * `perfleet pki serve DIR --socket PATH` is the signer: it answers requests of perfleet-agent join,
 * which a relay (--signer) carries to the socket. One at a time: read up to the end of the request,
 * then the script's `sign` answers on the socket. It holds the authority's key; the relay does not.
 * Failures: told on stderr; a client that is slow, silent or long is cut. Limits:
 * REQUEST_MAX_BYTES, TURN_S for reading and for signing.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/unix_addr.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"

#define REQUEST_MAX_BYTES 8192u
#define TURN_S            10
#define PATH_BYTES        4096u

static const char request_end[] = "-----END CERTIFICATE REQUEST-----\n";

/* ---- the script ---- */

static bool find_script(char *ret_path)
{
    static const char *const places[] = {"../libexec/perfleet/perfleet-pki", "perfleet-pki"};
    char folder[PATH_BYTES / 2];
    ssize_t len = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
    char *slash;

    if (len <= 0)
        return false;
    folder[len] = '\0';
    slash = strrchr(folder, '/');
    if (slash == NULL)
        return false;
    *slash = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(ret_path, PATH_BYTES, "%s/%s", folder, places[i]);
        if (access(ret_path, X_OK) == 0)
            return true;
    }
    return false;
}

/* Becomes the script; argv[0] is replaced. Returns only on failure. */
static int become_script(char **argv)
{
    static char path[PATH_BYTES];

    if (!find_script(path)) {
        pfl_cmd_error("perfleet-pki is not installed beside this program");
        return PFL_EXIT_NOTHING;
    }
    (void)setenv("PERFLEET_PKI_NAME", "perfleet pki", 1);
    argv[0] = path;
    (void)execv(path, argv);
    pfl_cmd_error("%s: %s", path, strerror(errno));
    return PFL_EXIT_NOTHING;
}

/* ---- the signer ---- */

static bool has_request(const char *text, size_t len)
{
    return len >= sizeof(request_end) - 1 &&
           memmem(text, len, request_end, sizeof(request_end) - 1) != NULL;
}

/* False: it did not send a request in time and size. */
static bool read_request(int fd, char *text, size_t *ret_len)
{
    time_t end = time(NULL) + TURN_S;
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    *ret_len = 0;
    while (!has_request(text, *ret_len)) {
        ssize_t n;

        if (*ret_len == REQUEST_MAX_BYTES || time(NULL) >= end || poll(&wait, 1, 1000) < 0)
            return false;
        n = recv(fd, text + *ret_len, REQUEST_MAX_BYTES - *ret_len, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (n > 0)
            *ret_len += (size_t)n;
    }
    return true;
}

static void sign(int fd, char *folder, const char *text, size_t len)
{
    static char name[] = "perfleet-pki";
    static char verb[] = "sign";
    char *argv[] = {name, verb, folder, NULL};
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid = fork();
    if (pid == 0) {
        (void)alarm(TURN_S);
        (void)signal(SIGPIPE, SIG_DFL);
        if (dup2(ends[0], STDIN_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0)
            (void)become_script(argv);
        _exit(PFL_EXIT_NOTHING);
    }
    (void)close(ends[0]);
    if (write(ends[1], text, len) != (ssize_t)len) /* fits: a pipe holds 64 KiB */
        pfl_cmd_error("%s", strerror(errno));
    (void)close(ends[1]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
}

static int listen_on(const char *path)
{
    struct sockaddr_un addr;
    socklen_t len;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (pfl_unix_addr_parse(path, &addr, &len) != 0 || fd < 0) {
        pfl_cmd_error("%s: no name of a socket", path);
        return -1;
    }
    (void)unlink(path);
    (void)umask(0117); /* the folder says who else may */
    if (bind(fd, (const struct sockaddr *)&addr, len) == 0 && listen(fd, 64) == 0) {
        (void)umask(077);
        return fd;
    }
    pfl_cmd_error("%s: %s", path, strerror(errno));
    (void)close(fd);
    return -1;
}

static int serve(char *folder, const char *path)
{
    static char text[REQUEST_MAX_BYTES];
    int listener = listen_on(path);

    if (listener < 0)
        return PFL_EXIT_NOTHING;
    (void)signal(SIGPIPE, SIG_IGN);
    fprintf(stderr, "perfleet pki: signing for %s on %s\n", folder, path);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        size_t len;

        if (fd < 0 && errno != EINTR && errno != ECONNABORTED)
            break;
        if (fd >= 0 && read_request(fd, text, &len))
            sign(fd, folder, text, len);
        if (fd >= 0)
            (void)close(fd);
    }
    pfl_cmd_error("%s: %s", path, strerror(errno));
    return PFL_EXIT_NOTHING;
}

int pfl_cmd_pki(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "serve") != 0)
        return become_script(argv);
    if (argc == 5 && strcmp(argv[3], "--socket") == 0)
        return serve(argv[2], argv[4]);
    fputs("usage: perfleet pki serve DIR --socket PATH\n", stderr);
    return PFL_EXIT_USAGE;
}
