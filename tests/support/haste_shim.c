/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process in haste and out of its mind, for tests: preloaded into a program (LD_PRELOAD), it
 * makes what the program waits for by timerfd come PFL_HASTE times as soon, its real timer
 * PFL_ALARM_HASTE times, and takes PFL_BALLAST_MIB of memory that the program never asked for.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S  1000000000ll
#define US_PER_S  1000000ll
#define HASTE_MAX 100000l

static long haste = 1;
static long alarm_haste = 1;

static long read_number(const char *name, long max)
{
    const char *text = getenv(name);
    long number = text != NULL ? strtol(text, NULL, 10) : 0;

    return number > max ? max : number;
}

__attribute__((constructor)) static void begin(void)
{
    size_t bytes = (size_t)read_number("PFL_BALLAST_MIB", 4096) << 20;
    void *ballast;

    if (read_number("PFL_HASTE", HASTE_MAX) > 0)
        haste = read_number("PFL_HASTE", HASTE_MAX);
    if (read_number("PFL_ALARM_HASTE", HASTE_MAX) > 0)
        alarm_haste = read_number("PFL_ALARM_HASTE", HASTE_MAX);
    if (bytes == 0)
        return;
    ballast = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ballast != MAP_FAILED)
        memset(ballast, 1, bytes);
}

/* Absolute times alone, on CLOCK_MONOTONIC: what base/io/deadline_timer sets. */
int timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *ret_old)
{
    struct itimerspec soon = *spec;
    struct timespec now;
    int64_t now_ns;
    int64_t ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
    ns = (int64_t)spec->it_value.tv_sec * NS_PER_S + spec->it_value.tv_nsec;
    if ((flags & TFD_TIMER_ABSTIME) != 0 && ns > now_ns) {
        ns = now_ns + (ns - now_ns) / haste;
        soon.it_value.tv_sec = (time_t)(ns / NS_PER_S);
        soon.it_value.tv_nsec = (long)(ns % NS_PER_S);
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, &soon, ret_old);
}

int setitimer(__itimer_which_t which, const struct itimerval *timer, struct itimerval *ret_old)
{
    struct itimerval soon = *timer;
    int64_t us =
        ((int64_t)timer->it_value.tv_sec * US_PER_S + timer->it_value.tv_usec) / alarm_haste;

    soon.it_value.tv_sec = (time_t)(us / US_PER_S);
    soon.it_value.tv_usec = (suseconds_t)(us % US_PER_S);
    return (int)syscall(SYS_setitimer, which, &soon, ret_old);
}
