/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet_time_ns: CLOCK_BOOTTIME, for half of what the kernel's own reading of it costs.
 *
 * Happy path: the CPU's time stamp counter is read and the line of tick_clock.c says the boot time.
 * Every 100 us one of the threads that ask reads both clocks and begins the next line. A thread
 * that may not (another does, or this is a signal handler in the middle of it) asks the kernel, as
 * all do before the line is known. No locks, no heap.
 *
 * Used only where the kernel itself counts on that counter: x86-64, its rate invariant, the
 * kernel's clock source "tsc", reading it not forbidden. Elsewhere the kernel is asked each time.
 * Within 1 us of CLOCK_BOOTTIME (some 20 ns in general); where the kernel changes the clock's rate
 * by a share r, 100 us * r more for one line. On one thread it never goes back: what a new line
 * would take back is held until it is made up for. The counter is read without waiting for loads
 * that are under way, so two threads' times may be some 10 ns in another order than they were.
 */
#include "producer/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet_packet.h"
#include "producer/tick_clock.h"

#define HOLD_MAX_NS 1000000u /* more is not ours: the kernel's clock itself went back */

static uint64_t ask_kernel(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#ifdef __x86_64__

#include <cpuid.h>

#define SOURCE_PATH   "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define READINGS      4 /* one of them is not interrupted */
#define INVARIANT_TSC (1u << 8)

static _Atomic(bool) is_on;
static struct pfl_tick_clock tick_clock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local uint64_t last_ns;

/* --- can it be used? --------------------------------------------------------------------- */

static bool is_invariant(void)
{
    unsigned int a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & INVARIANT_TSC) != 0;
}

static bool is_kernels_source(void)
{
    char text[16] = {0};
    int fd = open(SOURCE_PATH, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return n > 0 && strcmp(text, "tsc\n") == 0;
}

static bool is_allowed(void)
{
    int mode = 0;

    return prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE;
}

static void init(void)
{
    atomic_store_explicit(&is_on, is_invariant() && is_allowed() && is_kernels_source(),
                          memory_order_relaxed);
}

void pfl_clock_init(void)
{
    pthread_once(&once, init);
}

void pfl_clock_forget(void)
{
    pfl_tick_clock_forget(&tick_clock);
}

/* --- reading ----------------------------------------------------------------------------- */

static uint64_t read_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

/* Both clocks: in this order whatever the CPU makes of it. */
static struct pfl_tick_reading read_both(void)
{
    struct pfl_tick_reading reading;

    __builtin_ia32_lfence();
    reading.ticks = read_ticks();
    reading.ns = ask_kernel();
    __builtin_ia32_lfence();
    reading.ticks_after = read_ticks();
    return reading;
}

__attribute__((noinline)) static uint64_t renew(void)
{
    struct pfl_tick_reading reading;
    uint64_t now_ns = ask_kernel();
    bool is_done = false;

    if (pfl_tick_clock_is_resting(&tick_clock, now_ns) || !pfl_tick_clock_try_take(&tick_clock))
        return now_ns;
    for (int i = 0; i < READINGS && !is_done; i++) {
        reading = read_both();
        is_done = pfl_tick_clock_renew(&tick_clock, &reading);
    }
    if (!is_done)
        pfl_tick_clock_rest(&tick_clock, reading.ns);
    pfl_tick_clock_give_back(&tick_clock);
    return reading.ns;
}

uint64_t perfleet_time_ns(void)
{
    uint64_t ns;

    if (!atomic_load_explicit(&is_on, memory_order_relaxed))
        return ask_kernel();
    if (!pfl_tick_clock_read(&tick_clock, read_ticks(), &ns))
        ns = renew();
    if (__builtin_expect(ns < last_ns && last_ns - ns < HOLD_MAX_NS, 0))
        return last_ns;
    last_ns = ns;
    return ns;
}

#else

void pfl_clock_init(void)
{
}

void pfl_clock_forget(void)
{
}

uint64_t perfleet_time_ns(void)
{
    return ask_kernel();
}

#endif
