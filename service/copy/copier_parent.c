/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copiers' parent, and the service's side of it.
 *
 * Happy path: start forks; the child closes what it inherited, enters its sandbox, and says so.
 * Then it takes orders: FORK, with the copier's end of a socket and the area's memory, and END with
 * a number. A copier gives up the right to fork, maps the area, and runs (copier.h). Failures: a
 * sandbox that cannot be entered is start's failure. A copier that cannot be made gets its
 * descriptors closed, which the service sees. What is no order, or the end of the service's socket,
 * ends the parent, and with it all copiers; so does its death. Signals that end the service are
 * ignored here: the service may still need its copiers then. Owns the copiers' process ids until
 * they are reaped. Limit: PFL_COPIERS_MAX.
 */
#include "service/copy/copier_parent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "service/copy/copier.h"
#include "service/copy/copy_socket.h"

enum order_kind {
    ORDER_READY = 1, /* of the parent: the only one */
    ORDER_FORK,
    ORDER_END,
};

struct order {
    uint32_t kind;
    uint32_t number;
    int32_t error; /* of READY */
};

struct parent {
    int sock;
    pid_t pid;
    enum pfl_sandbox_mode mode;
    struct {
        pid_t pid; /* 0: none */
        uint32_t number;
    } copiers[PFL_COPIERS_MAX];
};

/* ---- a copier ---- */

static struct pfl_copy_area *map_area(int fd)
{
    struct stat st;
    void *area;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd, &st) != 0 ||
        st.st_size < (off_t)sizeof(struct pfl_copy_area))
        return NULL;
    area = mmap(NULL, sizeof(struct pfl_copy_area), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return area != MAP_FAILED ? area : NULL;
}

static bool leave_parent(const struct parent *p)
{
    (void)close(p->sock);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != p->pid)
        return false;
    (void)prctl(PR_SET_NAME, "pfl-copier", 0, 0, 0);
    return p->mode == PFL_SANDBOX_OFF || pfl_sandbox_end_forks() == 0 ||
           p->mode != PFL_SANDBOX_REQUIRE;
}

static void be_copier(const struct parent *p, const struct pfl_copy_fds *fds)
{
    struct pfl_copy_area *area;

    if (!leave_parent(p))
        return;
    area = map_area(fds->list[1]);
    (void)close(fds->list[1]);
    if (area != NULL)
        pfl_copier_run(fds->list[0], area);
}

/* ---- the parent ---- */

/* That copier's place; PFL_COPIERS_MAX: there is none. */
static uint32_t find_copier(const struct parent *p, uint32_t number)
{
    uint32_t i = 0;

    while (i < PFL_COPIERS_MAX && (p->copiers[i].pid == 0 || p->copiers[i].number != number))
        i++;
    return i;
}

static uint32_t find_place(const struct parent *p)
{
    uint32_t i = 0;

    while (i < PFL_COPIERS_MAX && p->copiers[i].pid != 0)
        i++;
    return i;
}

static void fork_copier(struct parent *p, uint32_t number, const struct pfl_copy_fds *fds)
{
    uint32_t place = find_place(p);
    pid_t pid;

    if (place == PFL_COPIERS_MAX || find_copier(p, number) != PFL_COPIERS_MAX || fds->len != 2)
        return;
    pid = fork();
    if (pid == 0) {
        be_copier(p, fds);
        _exit(0);
    }
    if (pid < 0)
        return;
    p->copiers[place].pid = pid;
    p->copiers[place].number = number;
}

static void kill_copier(const struct parent *p, uint32_t number)
{
    uint32_t place = find_copier(p, number);

    if (place != PFL_COPIERS_MAX)
        (void)kill(p->copiers[place].pid, SIGKILL);
}

static void kill_all(const struct parent *p)
{
    for (uint32_t i = 0; i < PFL_COPIERS_MAX; i++)
        if (p->copiers[i].pid != 0)
            (void)kill(p->copiers[i].pid, SIGKILL);
}

static void reap(struct parent *p)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        for (uint32_t i = 0; i < PFL_COPIERS_MAX; i++)
            if (p->copiers[i].pid == pid)
                p->copiers[i].pid = 0;
}

/* False: the service has ended, or this is no order. */
static bool take_order(struct parent *p)
{
    struct order order;
    struct pfl_copy_fds fds;
    bool is_order;

    if (pfl_copy_socket_receive(p->sock, &order, sizeof(order), &fds) != 0)
        return false;
    reap(p);
    is_order = order.kind == ORDER_FORK || order.kind == ORDER_END;
    if (is_order && order.kind == ORDER_FORK)
        fork_copier(p, order.number, &fds);
    else if (is_order)
        kill_copier(p, order.number);
    pfl_copy_socket_close_fds(&fds);
    return is_order;
}

static void serve(struct parent *p)
{
    struct pollfd poll = {.fd = p->sock, .events = POLLIN};
    sigset_t none; /* blocked: only here a child's end interrupts */
    bool is_needed = true;

    (void)sigemptyset(&none);
    while (is_needed) {
        reap(p);
        if (ppoll(&poll, 1, NULL, &none) > 0)
            is_needed = take_order(p);
    }
    kill_all(p);
}

/* ---- how it becomes the parent ---- */

static void on_child(int number)
{
    (void)number; /* ppoll returns */
}

static void set_signals(void)
{
    static const int ignored[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                  SIGUSR1, SIGUSR2, SIGPIPE, SIGXFSZ};
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t blocked;

    (void)sigemptyset(&action.sa_mask);
    for (int number = 1; number <= SIGRTMAX; number++)
        (void)sigaction(number, &action, NULL); /* but for those that nothing changes */
    action.sa_handler = SIG_IGN;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        (void)sigaction(ignored[i], &action, NULL);
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGCHLD);
    (void)sigprocmask(SIG_SETMASK, &blocked, NULL);
    action.sa_handler = on_child;
    (void)sigaction(SIGCHLD, &action, NULL);
}

static void close_from(unsigned first, unsigned last)
{
    struct rlimit limit;

    if (first > last || close_range(first, last, 0) == 0)
        return;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && last >= limit.rlim_cur)
        last = (unsigned)limit.rlim_cur - 1;
    for (unsigned fd = first; fd <= last; fd++) /* the kernel has no such call */
        (void)close((int)fd);
}

/* All but the socket, which gets another number, and stderr. */
static bool close_others(int *sock)
{
    int fd = fcntl(*sock, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

    (void)close(*sock);
    *sock = fd;
    if (fd < 0)
        return false;
    close_from(0, STDERR_FILENO - 1);
    close_from(STDERR_FILENO + 1, (unsigned)fd - 1);
    close_from((unsigned)fd + 1, ~0u);
    return true;
}

/* Its log has errors alone: the sandbox is the service's, which logs it. */
static int restrict_itself(struct parent *p, const char *user, pid_t service)
{
    const struct pfl_sandbox_conf conf = {
        .mode = p->mode, .user = user, .needs = PFL_SANDBOX_FORKS};
    int rc;

    set_signals();
    pfl_log_close();
    pfl_log_set_level(PFL_LOG_ERROR);
    if (!close_others(&p->sock) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return PFL_EIO;
    (void)prctl(PR_SET_NAME, "pfl-copiers", 0, 0, 0);
    rc = pfl_sandbox_enter(&conf);
    /* Not before: the kernel forgets it when the user changes. */
    if (rc == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != service))
        rc = PFL_EIO;
    return rc;
}

static void be_parent(int sock, enum pfl_sandbox_mode mode, const char *user, pid_t service)
{
    static struct parent p;
    struct order ready = {.kind = ORDER_READY};

    p = (struct parent){.sock = sock, .pid = getpid(), .mode = mode};
    ready.error = restrict_itself(&p, user, service);
    if (pfl_copy_socket_send(p.sock, &ready, sizeof(ready), NULL) == 0 && ready.error == 0)
        serve(&p);
}

/* ---- the service's side ---- */

static int wait_until_ready(int sock)
{
    struct pfl_copy_fds fds;
    struct order ready;

    if (pfl_copy_socket_receive(sock, &ready, sizeof(ready), &fds) != 0)
        return PFL_EIO;
    pfl_copy_socket_close_fds(&fds);
    if (ready.error == 0 && fcntl(sock, F_SETFL, O_NONBLOCK) != 0)
        return PFL_EIO;
    return ready.error;
}

int pfl_copier_parent_start(enum pfl_sandbox_mode mode, const char *user, int *ret_sock)
{
    pid_t service = getpid();
    pid_t pid;
    int ends[2];
    int rc;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return PFL_EIO;
    pid = fork();
    if (pid == 0) {
        be_parent(ends[1], mode, user, service);
        _exit(0);
    }
    rc = pid < 0 && errno == ENOMEM ? PFL_ENOMEM : PFL_EIO;
    (void)close(ends[1]);
    if (pid > 0)
        rc = wait_until_ready(ends[0]);
    if (rc == 0) {
        *ret_sock = ends[0];
        return 0;
    }
    (void)close(ends[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    return rc;
}

int pfl_copier_parent_fork(int sock, uint32_t number, int copier_sock, int area_fd)
{
    const struct order order = {.kind = ORDER_FORK, .number = number};
    const struct pfl_copy_fds fds = {.list = {copier_sock, area_fd}, .len = 2};

    return pfl_copy_socket_send(sock, &order, sizeof(order), &fds);
}

void pfl_copier_parent_end(int sock, uint32_t number)
{
    const struct order order = {.kind = ORDER_END, .number = number};

    (void)!pfl_copy_socket_send(sock, &order, sizeof(order), NULL);
}
