/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes descriptors on threads: see closer.h.
 *
 * Happy path: close appends the descriptor to its user's queue, and starts a thread unless enough
 * are running. A thread serves the users in turn, closes, and ends when nothing is left. What never
 * waits for a FUSE server must not wait behind what does: our own ends of connections, with unread
 * descriptors in them, and our own memory have queues and threads of their own.
 * A close that waits for a lingering socket is interrupted after KICK_MS by a signal (KICK_SIGNAL,
 * by a timer of the thread); the kernel then closes it without waiting. A close that cannot be
 * interrupted (a FUSE server that does not answer) blocks that thread; a user has a share of the
 * threads.
 * Failures: without a thread the descriptor stays open until the next call. With a full table,
 * which pfl_closer_is_full prevents, it stays open for good. Ownership: descriptors, from the call
 * on. No heap: one table, whose unused pages cost nothing. Limits: PFL_CLOSER_*; when all queues
 * have users, all further users share one of each kind.
 */
#include "base/closer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/shares.h"

#define USERS_MAX   128u /* queues */
#define KICK_MS     10
#define KICK_SIGNAL SIGURG /* otherwise unused, and ignored by default */
#define STACK_BYTES (256u * 1024)

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum kind {
    RECEIVED, /* from the user */
    SOCKETS,  /* with unread messages */
    MEMORY,   /* our own */
    KINDS
};

struct entry {
    int fd;
    uint32_t next; /* index + 1 */
};

struct user {
    uint32_t uid;
    enum kind kind; /* of all that it holds */
    uint32_t first; /* index + 1; queued */
    uint32_t last;
    uint32_t queued;
    uint32_t closing; /* by threads, now */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct entry entries[PFL_CLOSER_MAX_FDS];
    uint32_t unused;   /* entries that were never used begin here */
    uint32_t reuse;    /* index + 1; given back */
    uint32_t pending;  /* queued and closing, of all users */
    uint32_t received; /* of these, RECEIVED */
    uint32_t max;      /* of `received`, until no more are; 0: not known yet */
    struct user users[USERS_MAX];
    uint32_t turn; /* the user that is served next */
    unsigned threads[KINDS];
    bool is_handling; /* KICK_SIGNAL */
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

static void on_kick(int number)
{
    (void)number;
}

static uint32_t pending_of(const struct user *u)
{
    return u->queued + u->closing;
}

/* The user's queue, or a free one, or a shared one. */
static struct user *find_user(uint32_t uid, enum kind kind)
{
    struct user *found = NULL;

    for (uint32_t i = 0; i < USERS_MAX; i++) {
        struct user *u = &closer.users[i];

        if (pending_of(u) != 0 && u->uid == uid && u->kind == kind)
            return u;
        if (found == NULL && i < USERS_MAX - KINDS && pending_of(u) == 0)
            found = u;
    }
    return found != NULL ? found : &closer.users[USERS_MAX - 1 - kind];
}

static bool may_close(const struct user *u, enum kind kind)
{
    return u->kind == kind && u->queued != 0 && u->closing < PFL_CLOSER_USER_THREADS;
}

/* The next user in turn for whom a thread may work; NULL: nothing to do. */
static struct user *next_user(enum kind kind)
{
    for (uint32_t i = 0; i < USERS_MAX; i++) {
        struct user *u = &closer.users[(closer.turn + i) % USERS_MAX];

        if (may_close(u, kind)) {
            closer.turn = (uint32_t)(u - closer.users) + 1;
            return u;
        }
    }
    return NULL;
}

static int pop(struct user *u)
{
    uint32_t at = u->first;
    struct entry *e = &closer.entries[at - 1];
    int fd = e->fd;

    u->first = e->next;
    u->queued--;
    e->next = closer.reuse;
    closer.reuse = at;
    return fd;
}

static bool push(uint32_t uid, enum kind kind, int fd)
{
    struct user *u = find_user(uid, kind);
    uint32_t at = closer.reuse;

    if (at != 0)
        closer.reuse = closer.entries[at - 1].next;
    else if (closer.unused < PFL_CLOSER_MAX_FDS)
        at = ++closer.unused;
    else
        return false;
    closer.entries[at - 1] = (struct entry){.fd = fd};
    if (u->queued == 0)
        u->first = at;
    else
        closer.entries[u->last - 1].next = at;
    u->last = at;
    u->uid = uid;
    u->kind = kind;
    u->queued++;
    closer.pending++;
    closer.received += kind == RECEIVED;
    return true;
}

/* ---- threads ---- */

static bool begin_kicks(timer_t *ret_timer)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = KICK_SIGNAL};

    event.sigev_notify_thread_id = gettid();
    return timer_create(CLOCK_MONOTONIC, &event, ret_timer) == 0;
}

static void set_kicks(timer_t timer, long interval_ms)
{
    const struct timespec interval = {.tv_nsec = interval_ms * 1000000L};
    const struct itimerspec when = {.it_interval = interval, .it_value = interval};

    (void)timer_settime(timer, 0, &when, NULL);
}

static void block_signals(void)
{
    sigset_t all;

    (void)sigfillset(&all);
    (void)sigdelset(&all, KICK_SIGNAL);
    (void)pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void *run_thread(void *kind_at)
{
    enum kind kind = (enum kind)(uintptr_t)kind_at;
    timer_t timer;
    bool has_timer;
    struct user *u;

    block_signals();
    has_timer = begin_kicks(&timer);
    if (has_timer)
        set_kicks(timer, KICK_MS);
    (void)pthread_mutex_lock(&closer.lock);
    while ((u = next_user(kind)) != NULL) {
        int fd = pop(u);

        u->closing++;
        (void)pthread_mutex_unlock(&closer.lock);
        (void)close(fd);
        (void)pthread_mutex_lock(&closer.lock);
        u->closing--;
        closer.pending--;
        closer.received -= kind == RECEIVED;
    }
    closer.threads[kind]--;
    if (closer.pending == 0)
        (void)pthread_cond_broadcast(&closer.idle);
    (void)pthread_mutex_unlock(&closer.lock);
    if (has_timer)
        (void)timer_delete(timer);
    return NULL;
}

/* As many as may work now. */
static unsigned count_wanted_threads(enum kind kind)
{
    unsigned wanted = 0;

    for (uint32_t i = 0; i < USERS_MAX; i++) {
        const struct user *u = &closer.users[i];
        uint32_t pending = u->kind == kind ? pending_of(u) : 0;

        wanted += pending < PFL_CLOSER_USER_THREADS ? pending : PFL_CLOSER_USER_THREADS;
    }
    return wanted < PFL_CLOSER_THREADS ? wanted : PFL_CLOSER_THREADS;
}

static void handle_kicks(void)
{
    struct sigaction action = {.sa_handler = on_kick};

    if (closer.is_handling)
        return;
    (void)sigemptyset(&action.sa_mask);
    closer.is_handling = sigaction(KICK_SIGNAL, &action, NULL) == 0;
}

static void make_threads(enum kind kind)
{
    unsigned wanted = count_wanted_threads(kind);
    pthread_attr_t attr;
    pthread_t thread;

    if (closer.threads[kind] >= wanted || pthread_attr_init(&attr) != 0)
        return;
    handle_kicks();
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(&thread, &attr, run_thread, (void *)(uintptr_t)kind) == 0)
        closer.threads[kind]++;
    (void)pthread_attr_destroy(&attr);
}

static void close_later(int fd, uint32_t uid, enum kind kind)
{
    (void)pthread_mutex_lock(&closer.lock);
    if (push(uid, kind, fd))
        make_threads(kind);
    (void)pthread_mutex_unlock(&closer.lock);
}

void pfl_closer_close(int fd, uint32_t uid)
{
    if (fd >= 0)
        close_later(fd, uid, RECEIVED);
}

void pfl_closer_close_memory(int fd, uint32_t uid)
{
    if (fd >= 0)
        close_later(fd, uid, MEMORY);
}

void pfl_closer_close_socket(int *fd, uint32_t uid)
{
    int unread = 0;
    int sock = *fd;

    *fd = -1;
    if (sock < 0)
        return;
    /* From now on the peer can send nothing; descriptors come with at least one byte. */
    (void)shutdown(sock, SHUT_RDWR);
    if (ioctl(sock, FIONREAD, &unread) == 0 && unread == 0)
        (void)close(sock);
    else
        close_later(sock, uid, SOCKETS);
}

void pfl_closer_close_socket_later(int *fd, uint32_t uid)
{
    int sock = *fd;

    *fd = -1;
    if (sock >= 0)
        close_later(sock, uid, SOCKETS);
}

void pfl_closer_close_received(struct msghdr *msg, uint32_t uid)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
            pfl_closer_close(fd, uid);
        }
    }
}

ssize_t pfl_closer_recv(int sock, void *buffer, size_t len, uint32_t uid)
{
    union {
        struct cmsghdr align;
        char bytes[PFL_CLOSER_CONTROL_BYTES];
    } control;
    struct iovec iov = {.iov_base = buffer, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n;

    if (!pfl_closer_has_room(uid)) {
        errno = EDQUOT;
        return -1;
    }
    n = recvmsg(sock, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n >= 0)
        pfl_closer_close_received(&msg, uid);
    return n;
}

/* Locked. */
static uint32_t get_max(void)
{
    struct rlimit limit = {.rlim_cur = 1024};

    if (closer.max != 0)
        return closer.max;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur /= 4;
    closer.max =
        limit.rlim_cur < PFL_CLOSER_MAX_FDS / 2 ? (uint32_t)limit.rlim_cur : PFL_CLOSER_MAX_FDS / 2;
    return closer.max;
}

uint32_t pfl_closer_get_max(void)
{
    uint32_t max;

    (void)pthread_mutex_lock(&closer.lock);
    max = get_max();
    (void)pthread_mutex_unlock(&closer.lock);
    return max;
}

/* A user with almost nothing queued is always served while there is any room: what one message of
 * each user adds is not known before. */
static bool has_room_for(uint32_t of_user)
{
    const uint64_t more = PFL_CLOSER_MESSAGE_FDS;

    if (of_user < PFL_CLOSER_FEW_FDS)
        return closer.received < get_max();
    return of_user + more <= PFL_CLOSER_USER_FDS &&
           pfl_shares_allow(get_max(), closer.received, of_user, more);
}

bool pfl_closer_has_room(uint32_t uid)
{
    uint32_t of_user = 0;
    bool has_room;

    (void)pthread_mutex_lock(&closer.lock);
    for (uint32_t i = 0; closer.pending != 0 && i < USERS_MAX; i++) {
        const struct user *u = &closer.users[i];

        if (u->uid == uid && u->kind == RECEIVED && pending_of(u) > of_user)
            of_user = pending_of(u);
    }
    has_room = has_room_for(of_user);
    (void)pthread_mutex_unlock(&closer.lock);
    return has_room;
}

bool pfl_closer_is_full(void)
{
    bool is_full;

    (void)pthread_mutex_lock(&closer.lock);
    is_full = closer.pending >= PFL_CLOSER_MAX_FDS / 2;
    (void)pthread_mutex_unlock(&closer.lock);
    return is_full;
}

void pfl_closer_wait(void)
{
    (void)pthread_mutex_lock(&closer.lock);
    while (closer.pending != 0)
        (void)pthread_cond_wait(&closer.idle, &closer.lock);
    (void)pthread_mutex_unlock(&closer.lock);
}
