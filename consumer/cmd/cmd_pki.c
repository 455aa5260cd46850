/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `perfleet pki`: the fleet's certificate authority. It is a script that uses openssl,
 * perfleet-pki, next to this program or in libexec/perfleet; this finds and executes it.
 *
 * `perfleet pki serve DIR [--socket PATH]` is the signer: it answers requests of perfleet-agent
 * join and renew, which a relay (--signer) forwards to the socket; without --socket it uses a
 * service manager's. It reads up to CLIENTS_MAX clients concurrently. The script's `sign` answers
 * one client at a time on the socket, the oldest complete request first. A separate process starts
 * the script, and never sees clients' data. The signer has the authority's key; the relay does not.
 * Failures: reported on stderr; a client that is slow, silent or sends too much is closed; when all
 * slots are taken the oldest silent one is replaced. Limits: REQUEST_MAX_BYTES, CLIENTS_MAX, TURN_S
 * for reading and for signing.
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

#include "base/closer.h"
#include "base/listen_fds.h"
#include "base/notify.h"
#include "base/unix_addr.h"
#include "consumer/cmd/cmd.h"
#include "consumer/report/summary.h"

#define REQUEST_MAX_BYTES 8192u
#define TURN_S            10
#define CLIENTS_MAX       32u
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

struct client {
    int fd; /* -1: none; owned */
    uint32_t uid;
    uint64_t turn; /* order of arrival: lower is older */
    time_t end;    /* deadline of the complete request */
    size_t len;
    char text[REQUEST_MAX_BYTES];
};

struct signer {
    char *folder;
    int listener;
    int jobs; /* to the process that signs */
    uint64_t turns;
    uint64_t watch_due_ms; /* when the service manager's watchdog is due */
    struct client clients[CLIENTS_MAX];
};

static time_t now_s(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void drop(struct client *c)
{
    pfl_closer_close_socket(&c->fd, c->uid);
}

static bool is_ready(const struct client *c)
{
    return c->fd >= 0 && memmem(c->text, c->len, request_end, sizeof(request_end) - 1) != NULL;
}

/* Reads what has arrived. Drops clients that hung up, sent too much, or are late. */
static void read_client(struct client *c)
{
    while (c->fd >= 0 && !is_ready(c)) {
        size_t room = REQUEST_MAX_BYTES - c->len;
        ssize_t n = room == 0 ? 0 : pfl_closer_recv(c->fd, c->text + c->len, room, c->uid);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && now_s() < c->end)
            return;
        if (n <= 0)
            drop(c);
        else
            c->len += (size_t)n;
    }
}

/* A free slot, or that of the oldest silent client, or of the oldest; NULL: all are complete. */
static struct client *find_place(struct signer *s)
{
    struct client *worst = NULL;

    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        struct client *c = &s->clients[i];
        bool is_silent = c->len == 0;

        if (c->fd < 0)
            return c;
        if (is_ready(c))
            continue;
        if (worst == NULL || (is_silent && worst->len != 0) ||
            (is_silent == (worst->len == 0) && c->turn < worst->turn))
            worst = c;
    }
    if (worst != NULL)
        drop(worst);
    return worst;
}

/* False: no further client waits, or there is no slot. */
static bool take_client(struct signer *s)
{
    struct pollfd waiting = {.fd = s->listener, .events = POLLIN};
    struct client *c = poll(&waiting, 1, 0) == 1 ? find_place(s) : NULL;
    struct ucred cred;
    socklen_t cred_len = sizeof(cred);
    const int one = 1;

    if (c == NULL)
        return false;
    c->fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    c->uid = c->fd >= 0 && getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0
                 ? cred.uid
                 : PFL_CLOSER_NOBODY;
    /* Else the kernel closes, within recvmsg, descriptors that come with a byte out of band. */
    (void)setsockopt(c->fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));
    c->turn = s->turns++;
    c->end = now_s() + TURN_S;
    c->len = 0;
    read_client(c);
    return true;
}

/* The oldest complete request; NULL: none. */
static struct client *find_ready(struct signer *s)
{
    struct client *oldest = NULL;

    for (size_t i = 0; i < CLIENTS_MAX; i++) {
        struct client *c = &s->clients[i];

        if (is_ready(c) && (oldest == NULL || c->turn < oldest->turn))
            oldest = c;
    }
    return oldest;
}

/* Reads at once all that has come, after waiting for it. False: the socket is of no use. */
static bool read_all(struct signer *s)
{
    struct pollfd wait[CLIENTS_MAX + 1] = {{.fd = s->listener, .events = POLLIN}};
    int timeout_ms = find_ready(s) != NULL ? 0 : 1000;

    for (size_t i = 0; i < CLIENTS_MAX; i++)
        wait[i + 1] = (struct pollfd){.fd = s->clients[i].fd, .events = POLLIN};
    timeout_ms = pfl_notify_watch(&s->watch_due_ms, (uint64_t)now_s() * 1000, timeout_ms);
    if (poll(wait, CLIENTS_MAX + 1, timeout_ms) < 0)
        return errno == EINTR;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        read_client(&s->clients[i]);
    for (size_t i = 0; i < CLIENTS_MAX && take_client(s); i++)
        continue;
    return (wait[0].revents & (POLLERR | POLLNVAL)) == 0;
}

/* A client that has gone cannot be answered: its token stays as it is. */
static bool is_gone(const struct client *c)
{
    struct pollfd look = {.fd = c->fd};

    return poll(&look, 1, 0) == 1;
}

static bool send_job(int jobs, const struct client *c)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)c->text, .iov_len = c->len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};

    control.align.cmsg_level = SOL_SOCKET;
    control.align.cmsg_type = SCM_RIGHTS;
    control.align.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.align), &c->fd, sizeof(c->fd));
    return sendmsg(jobs, &msg, MSG_NOSIGNAL) == (ssize_t)c->len;
}

/* Its length; 0: there will be none. */
static ssize_t receive_job(int jobs, char *text, size_t len, int *ret_fd)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = text, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    do
        n = recvmsg(jobs, &msg, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n > 0 && CMSG_FIRSTHDR(&msg) == NULL)
        return -1;
    if (n > 0)
        memcpy(ret_fd, CMSG_DATA(&control.align), sizeof(*ret_fd));
    return n;
}

/* False: it runs on. SIGCHLD is blocked. */
static bool ends_within(pid_t pid, time_t seconds)
{
    const struct timespec second = {.tv_sec = 1};
    time_t end = now_s() + seconds;
    sigset_t child;

    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (now_s() > end)
            return false;
        (void)sigtimedwait(&child, NULL, &second);
    }
    return true;
}

/* ---- the process that signs ---- */

/* In the child. */
static void become_sign(char *folder, int in, int out)
{
    static char name[] = "perfleet-pki";
    static char verb[] = "sign";
    char *argv[] = {name, verb, folder, NULL};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0); /* it ends with all that it started */
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        (void)become_script(argv);
    _exit(PFL_EXIT_NOTHING);
}

static void sign(char *folder, const char *text, size_t len, int fd)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid = fork();
    if (pid == 0)
        become_sign(folder, ends[0], fd);
    if (pid > 0)
        (void)setpgid(pid, pid);
    (void)close(ends[0]);
    if (write(ends[1], text, len) != (ssize_t)len) /* fits: a pipe holds 64 KiB */
        pfl_cmd_error("%s", strerror(errno));
    (void)close(ends[1]);
    if (pid < 0 || ends_within(pid, TURN_S))
        return;
    pfl_cmd_error("signing takes too long");
    (void)kill(-pid, SIGTERM);
    if (ends_within(pid, 1))
        return;
    (void)kill(-pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* Its own end of `jobs`; each job is a request with the socket that the answer goes to. */
static void run_signing(char *folder, int jobs)
{
    char text[REQUEST_MAX_BYTES];
    ssize_t n;
    int fd;

    while ((n = receive_job(jobs, text, sizeof(text), &fd)) > 0) {
        sign(folder, text, (size_t)n, fd);
        (void)close(fd);
        if (send(jobs, "", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    _exit(n == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* Call before there are clients: descriptors that they pass are in this process until a thread has
 * closed them. A child's copy would be closed by its exec, which the descriptor's owner could
 * delay. */
static bool start_signing(struct signer *s)
{
    int ends[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return false;
    pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        (void)close(s->listener);
        run_signing(s->folder, ends[1]);
    }
    (void)close(ends[1]);
    s->jobs = ends[0];
    return pid > 0;
}

/* False: the signing process is gone. */
static bool have_signed(const struct signer *s, const struct client *c)
{
    char byte;
    ssize_t n;

    if (!send_job(s->jobs, c))
        return false;
    do
        n = recv(s->jobs, &byte, 1, 0);
    while (n < 0 && errno == EINTR);
    return n == 1;
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
    (void)umask(0117); /* the folder's mode decides who else may connect */
    if (bind(fd, (const struct sockaddr *)&addr, len) == 0 && listen(fd, 64) == 0) {
        (void)umask(077);
        return fd;
    }
    pfl_cmd_error("%s: %s", path, strerror(errno));
    (void)close(fd);
    return -1;
}

/* NULL: the one that a service manager listens on. */
static int find_listener(const char *path)
{
    struct pfl_listen_fds given;

    if (path != NULL)
        return listen_on(path);
    if (pfl_listen_fds_take(&given) == 0 && given.len == 1 && given.list[0].domain == AF_UNIX)
        return given.list[0].fd;
    pfl_cmd_error("give --socket PATH, or have a service manager listen on one UNIX socket");
    return -1;
}

static void block_child_signal(void)
{
    sigset_t child;

    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child, NULL);
}

static int serve(char *folder, const char *path)
{
    static struct signer s;

    s.folder = folder;
    pfl_notify_open();
    s.listener = find_listener(path);
    if (path == NULL)
        path = "a socket of the service manager's";
    if (s.listener < 0)
        return PFL_EXIT_NOTHING;
    for (size_t i = 0; i < CLIENTS_MAX; i++)
        s.clients[i].fd = -1;
    (void)signal(SIGPIPE, SIG_IGN);
    block_child_signal();
    if (!start_signing(&s)) {
        pfl_cmd_error("%s", strerror(errno));
        return PFL_EXIT_NOTHING;
    }
    pfl_notify_send("READY=1");
    fprintf(stderr, "perfleet pki: signing for %s on %s\n", folder, path);
    while (read_all(&s)) {
        struct client *c = find_ready(&s);

        if (c == NULL)
            continue;
        if (!is_gone(c) && !have_signed(&s, c))
            break;
        drop(c);
    }
    pfl_cmd_error("%s: %s", path, strerror(errno));
    return PFL_EXIT_NOTHING;
}

static void print_serve_usage(FILE *stream)
{
    fputs(
        "Usage: perfleet pki serve DIR [--socket PATH]\n\n"
        "The signer: answers requests of perfleet-agent join and renew with certificates of the\n"
        "authority in DIR. A relay (perfleet-relay --signer PATH) brings them to the socket PATH;\n"
        "without --socket to the one that a service manager listens on. Ends with a signal.\n\n"
        "Exit codes: 1 it cannot listen, or DIR has no authority; 2 usage.\n",
        stream);
}

/* Its arguments, behind "pki serve". False: they are wrong, and said so. */
static bool read_serve(int argc, char **argv, char **ret_folder, const char **ret_path)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--socket") == 0 && i + 1 < argc) {
            *ret_path = argv[++i];
        } else if (argv[i][0] == '-' || *ret_folder != NULL) {
            pfl_cmd_error("pki serve: %s is one too many, or has no value", argv[i]);
            return false;
        } else {
            *ret_folder = argv[i];
        }
    }
    if (*ret_folder == NULL)
        pfl_cmd_error("pki serve: give DIR, the authority's folder");
    return *ret_folder != NULL;
}

static bool has_authority(const char *folder)
{
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof(path), "%s/ca.key", folder);
    if (access(path, R_OK) == 0)
        return true;
    pfl_cmd_error("%s: %s: this is no authority's folder (perfleet pki init makes one), or its key "
                  "is not for you",
                  path, strerror(errno));
    return false;
}

int pfl_cmd_pki(int argc, char **argv)
{
    const char *path = NULL;
    char *folder = NULL;

    if (argc < 2 || strcmp(argv[1], "serve") != 0)
        return become_script(argv);
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_serve_usage(stdout);
            return PFL_EXIT_OK;
        }
    }
    if (!read_serve(argc - 2, argv + 2, &folder, &path)) {
        fputs("Try 'perfleet pki serve --help'.\n", stderr);
        return PFL_EXIT_USAGE;
    }
    return has_authority(folder) ? serve(folder, path) : PFL_EXIT_NOTHING;
}
