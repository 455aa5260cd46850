/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late a thread is woken on this machine, for what a writer that never sleeps and a service
 * that is woken can do at best.
 *
 *     bench_pause [MILLISECONDS]
 *
 * One thread never sleeps and wakes another, 10,000 times a second, by an eventfd; as root the
 * first runs at real-time priority 1 and the second at 2, as clean.py runs writers and services.
 * Prints one line: wake-ups, their delay at the median, 99 % and 99.9 %, the longest, and how many
 * took longer than 0.1, 0.2, 0.4 and 0.8 ms.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 100000u
#define COUNT_MAX 1000000u

static int wake_fd;
static uint32_t delays_us[COUNT_MAX];
static size_t delays_len;
static _Atomic(uint64_t) sent_ns; /* 0: the last wake-up has arrived */

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void put_first(int priority)
{
    const struct sched_param param = {.sched_priority = priority};

    (void)sched_setscheduler(0, SCHED_FIFO, &param);
}

static void *wait_for_wake_ups(void *arg)
{
    uint64_t count;

    put_first(2);
    while (read(wake_fd, &count, sizeof(count)) == sizeof(count) && delays_len < COUNT_MAX) {
        uint64_t sent = atomic_exchange(&sent_ns, 0);

        if (sent == 1)
            break;
        delays_us[delays_len++] = (uint32_t)((now_ns() - sent) / 1000);
    }
    return arg;
}

static void wake(uint64_t mark)
{
    uint64_t one = 1;
    ssize_t n;

    atomic_store(&sent_ns, mark);
    n = write(wake_fd, &one, sizeof(one));
    (void)n;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static size_t count_above(uint32_t limit_us)
{
    size_t n = 0;

    while (n < delays_len && delays_us[delays_len - 1 - n] > limit_us)
        n++;
    return n;
}

int main(int argc, char **argv)
{
    uint64_t end_ns = now_ns() + (argc > 1 ? strtoull(argv[1], NULL, 10) : 1000) * 1000000u;
    uint64_t next_ns = now_ns();
    pthread_t thread;

    wake_fd = eventfd(0, EFD_CLOEXEC);
    if (wake_fd < 0 || pthread_create(&thread, NULL, wait_for_wake_ups, NULL) != 0)
        return 1;
    put_first(1);
    for (uint64_t now = now_ns(); now < end_ns; now = now_ns()) {
        if (now < next_ns || atomic_load(&sent_ns) != 0)
            continue;
        next_ns = now + PERIOD_NS;
        wake(now);
    }
    while (atomic_load(&sent_ns) != 0)
        continue;
    wake(1);
    pthread_join(thread, NULL);
    if (delays_len == 0)
        return 1;
    qsort(delays_us, delays_len, sizeof(delays_us[0]), compare);
    printf("wake_ups=%zu p50_us=%u p99_us=%u p999_us=%u max_us=%u above_100=%zu above_200=%zu "
           "above_400=%zu above_800=%zu\n",
           delays_len, delays_us[delays_len / 2], delays_us[delays_len * 99 / 100],
           delays_us[delays_len * 999 / 1000], delays_us[delays_len - 1], count_above(100),
           count_above(200), count_above(400), count_above(800));
    return 0;
}
