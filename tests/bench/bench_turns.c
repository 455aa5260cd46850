/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a service's loop is away from its clients: loaded in front of a service (LD_PRELOAD), it
 * times what the process's first thread does between two waits (epoll_wait, epoll_pwait, poll), in
 * CPU time of that thread, so that other work on the machine does not count.
 *
 * PFL_TURNS names a file of eight bytes a number, made by the process that starts the service and
 * mapped here: [0] turns, [1] their CPU in ns, [2] the longest, [3 + i] turns of 2^i ns or more and
 * less than 2^(i + 1). Zeroed by the reader at any time to begin again. No file: nothing is
 * measured.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TURNS_BYTES 4096u
#define BUCKETS     40u

static volatile uint64_t *turns;
static uint64_t woken_ns;

static int (*real_epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_poll)(struct pollfd *, nfds_t, int);

__attribute__((constructor)) static void open_turns(void)
{
    const char *path = getenv("PFL_TURNS");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map;

    *(void **)&real_epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
    *(void **)&real_epoll_wait = dlsym(RTLD_NEXT, "epoll_wait");
    *(void **)&real_poll = dlsym(RTLD_NEXT, "poll");
    if (fd < 0)
        return;
    map = mmap(NULL, TURNS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map != MAP_FAILED)
        turns = map;
}

static bool is_measured(void)
{
    return turns != NULL && syscall(SYS_gettid) == getpid();
}

static uint64_t now_ns(void)
{
    struct timespec ts = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void end_turn(void)
{
    uint64_t ns = now_ns() - woken_ns;
    unsigned bucket = 0;

    if (woken_ns == 0)
        return;
    while (bucket + 1 < BUCKETS && ns >> (bucket + 1) != 0)
        bucket++;
    turns[0]++;
    turns[1] += ns;
    if (ns > turns[2])
        turns[2] = ns;
    turns[3 + bucket]++;
}

int epoll_pwait(int epfd, struct epoll_event *events, int max, int timeout, const sigset_t *mask)
{
    bool is_loop = is_measured();
    int n;

    if (is_loop)
        end_turn();
    n = real_epoll_pwait(epfd, events, max, timeout, mask);
    if (is_loop)
        woken_ns = now_ns();
    return n;
}

int epoll_wait(int epfd, struct epoll_event *events, int max, int timeout)
{
    bool is_loop = is_measured();
    int n;

    if (is_loop)
        end_turn();
    n = real_epoll_wait(epfd, events, max, timeout);
    if (is_loop)
        woken_ns = now_ns();
    return n;
}

int poll(struct pollfd *fds, nfds_t len, int timeout)
{
    bool is_loop = is_measured();
    int n;

    if (is_loop)
        end_turn();
    n = real_poll(fds, len, timeout);
    if (is_loop)
        woken_ns = now_ns();
    return n;
}
