/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that jump, for tests: preloaded into a program (LD_PRELOAD), it adds to what each clock
 * says the nanoseconds that the file PFL_CLOCK_SHIM has for it, as an array of int64_t by
 * clockid_t. The file is mapped when the program starts, so a test moves the clocks by writing into
 * it. Waits (poll, epoll) keep the kernel's time, as they do when a machine was asleep.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CLOCKS   16
#define NS_PER_S 1000000000ll

static const volatile int64_t *offsets;

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

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int64_t ns;

    if (syscall(SYS_clock_gettime, id, ts) != 0)
        return -1;
    if (offsets == NULL || id < 0 || id >= CLOCKS)
        return 0;
    ns = (int64_t)ts->tv_sec * NS_PER_S + ts->tv_nsec + offsets[id];
    ts->tv_sec = (time_t)(ns / NS_PER_S);
    ts->tv_nsec = (long)(ns % NS_PER_S);
    return 0;
}
