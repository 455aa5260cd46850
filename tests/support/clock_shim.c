/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that jump, for tests: preloaded into a program (LD_PRELOAD), it adds to what each clock
 * says the nanoseconds that the file PFL_CLOCK_SHIM has for it, as an array of int64_t by
 * clockid_t. The file is mapped when the program starts, so a test moves the clocks by writing into
 * it. Timer descriptors that wait for a time of the monotonic clock move with it, at the latest
 * when the program asks for a time again; the waits of poll and epoll keep the kernel's time.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define CLOCKS   16
#define NS_PER_S 1000000000ll

#define TIMERS 16

struct timer {
    bool is_armed;
    struct itimerspec at; /* as the program has said it */
};

static const volatile int64_t *offsets;
static pthread_mutex_t timers_lock = PTHREAD_MUTEX_INITIALIZER;
static struct timer timers[TIMERS]; /* by descriptor */
static int64_t timers_offset;       /* with which they were armed */

__attribute__((constructor)) static void map_offsets(void)
{
    const char *path = getenv("PFL_CLOCK_SHIM");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map;

    if (fd < 0)
        return;
    map = mmap(NULL, CLOCKS * sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map != MAP_FAILED)
        offsets = map;
}

static struct timespec add_ns(struct timespec ts, int64_t add)
{
    int64_t ns = (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec + add;

    ts.tv_sec = (time_t)(ns / NS_PER_S);
    ts.tv_nsec = (long)(ns % NS_PER_S);
    return ts;
}

static int arm(int fd, const struct itimerspec *at, struct itimerspec *old)
{
    struct itimerspec kernel = *at;

    kernel.it_value = add_ns(kernel.it_value, -offsets[CLOCK_MONOTONIC]);
    if (kernel.it_value.tv_sec < 0 || (kernel.it_value.tv_sec | kernel.it_value.tv_nsec) == 0)
        kernel.it_value = (struct timespec){.tv_nsec = 1}; /* long ago; 0 would disarm */
    return (int)syscall(SYS_timerfd_settime, fd, TFD_TIMER_ABSTIME, &kernel, old);
}

static void move_timers(void)
{
    (void)pthread_mutex_lock(&timers_lock);
    if (timers_offset != offsets[CLOCK_MONOTONIC]) {
        timers_offset = offsets[CLOCK_MONOTONIC];
        for (int fd = 0; fd < TIMERS; fd++) {
            if (timers[fd].is_armed)
                (void)arm(fd, &timers[fd].at, NULL);
        }
    }
    (void)pthread_mutex_unlock(&timers_lock);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *at, struct itimerspec *old)
{
    bool is_armed =
        (flags & TFD_TIMER_ABSTIME) != 0 && (at->it_value.tv_sec | at->it_value.tv_nsec) != 0;
    int rc;

    if (offsets == NULL || fd < 0 || fd >= TIMERS)
        return (int)syscall(SYS_timerfd_settime, fd, flags, at, old);
    (void)pthread_mutex_lock(&timers_lock);
    timers[fd] = (struct timer){.is_armed = is_armed, .at = *at};
    rc = is_armed ? arm(fd, at, old) : (int)syscall(SYS_timerfd_settime, fd, flags, at, old);
    (void)pthread_mutex_unlock(&timers_lock);
    return rc;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (syscall(SYS_clock_gettime, id, ts) != 0)
        return -1;
    if (offsets == NULL || id < 0 || id >= CLOCKS)
        return 0;
    if (timers_offset != offsets[CLOCK_MONOTONIC])
        move_timers();
    *ts = add_ns(*ts, offsets[id]);
    return 0;
}
