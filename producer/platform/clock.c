/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perfleet_time_ns: CLOCK_BOOTTIME at half the cost of the kernel's own reading.
 *
 * Happy path: the CPU's counter is read, and the line of tick_clock.c converts it to boot time.
 * Every 100 us one of the calling threads reads both clocks and begins the next line. A thread that
 * may not do so (another does, or this is a signal handler in the middle of it) asks the kernel, as
 * all do before there is a line. No locks, no heap.
 *
 * Used only where the kernel itself counts on that counter: x86-64 with an invariant rate and the
 * clock source "tsc", arm64 with "arch_sys_counter"; reading it not forbidden, nor trapped.
 * Elsewhere the kernel is asked each time. Within 1 us of CLOCK_BOOTTIME (some 20 ns in general);
 * where the kernel changes the clock's rate by a share r, 100 us * r more for one line. On one
 * thread it never goes back: if a new line would go back, the old value is held until the line
 * catches up. The counter is read without waiting for pending loads, so the order of two threads'
 * times may be wrong by some 10 ns.
 */
#include "producer/platform/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "producer/perfleet_packet.h"
#include "producer/platform/tick_clock.h"

#define HOLD_MAX_NS 1000000u /* more is not ours: the kernel's clock itself went back */

static uint64_t ask_kernel(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#ifdef __x86_64__
#include <cpuid.h>
#endif

#if defined(__x86_64__) || defined(__aarch64__)

#define SOURCE_PATH "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define READINGS    4 /* one of them is not interrupted */

/* --- the counter of this architecture ---------------------------------------------------- */

#ifdef __x86_64__

#define SOURCE        "tsc\n"
#define TOOK_MAX      512u /* ticks of a reading of both clocks */
#define INVARIANT_TSC (1u << 8)

static bool is_fit(void)
{
    unsigned int a, b, c, d;

    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & INVARIANT_TSC) != 0;
}

static bool is_allowed(void)
{
    int mode = 0;

    return prctl(PR_GET_TSC, &mode) == 0 && mode == PR_TSC_ENABLE;
}

static uint64_t get_took_max(void)
{
    return TOOK_MAX;
}

static uint64_t read_ticks(void)
{
    return __builtin_ia32_rdtsc();
}

static void wait_for_loads(void)
{
    __builtin_ia32_lfence();
}

#else

#define SOURCE      "arch_sys_counter\n"
#define TOOK_MAX_NS 800u

/* Kernels before 6.12 cannot forbid it. */
static bool is_allowed(void)
{
    int mode = 0;

    return prctl(PR_GET_TSC, &mode) != 0 || mode == PR_TSC_ENABLE;
}

/* The counter has 10 MHz to 1 GHz. */
static uint64_t get_took_max(void)
{
    uint64_t hz;

    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz / 1000000u * TOOK_MAX_NS / 1000u;
}

static uint64_t read_ticks(void)
{
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
}

static void wait_for_loads(void)
{
    __asm__ volatile("isb" ::: "memory");
}

/* The architecture promises its rate. A kernel that must correct the counter has reading it
 * trapped, which takes longer than asking for the time. */
static bool is_fit(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < READINGS * 2; i++) {
        uint64_t before = read_ticks();
        uint64_t took;

        wait_for_loads();
        took = read_ticks() - before;
        least = took < least ? took : least;
    }
    return least <= get_took_max() / 2;
}

#endif

static _Atomic(bool) is_on;
static struct pfl_tick_clock tick_clock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local uint64_t last_ns;

/* --- can it be used? --------------------------------------------------------------------- */

static bool is_kernels_source(void)
{
    char text[32] = {0};
    int fd = open(SOURCE_PATH, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return n > 0 && strcmp(text, SOURCE) == 0;
}

static void init(void)
{
    atomic_store_explicit(&is_on, is_fit() && is_allowed() && is_kernels_source(),
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

/* Both clocks: in this order whatever the CPU makes of it. */
static struct pfl_tick_reading read_both(void)
{
    struct pfl_tick_reading reading;

    wait_for_loads();
    reading.ticks = read_ticks();
    reading.ns = ask_kernel();
    wait_for_loads();
    reading.ticks_after = read_ticks();
    reading.took_max = get_took_max();
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

uint64_t pfl_clock_monotonic_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}
