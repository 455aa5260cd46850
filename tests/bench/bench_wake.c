/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A load for kernel tracing: pairs of processes that wake each other over pipes, a fixed number of
 * times, so that every run makes about the same events whatever the tracer costs.
 *
 *     bench_wake PAIRS ROUNDS [PAUSE_US]
 *
 * Prints "ok wall_s=" when the last pair is done. PAUSE_US after every 64 rounds thins the load.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BURST 64

static void play(int in, int out, long rounds, useconds_t pause_us)
{
    char byte = 'x';

    for (long i = 0; i < rounds; i++) {
        if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
            _exit(EXIT_FAILURE);
        if (pause_us != 0 && i % BURST == BURST - 1)
            (void)usleep(pause_us);
    }
    _exit(EXIT_SUCCESS);
}

static void echo(int in, int out, long rounds)
{
    char byte;

    for (long i = 0; i < rounds; i++) {
        if (read(in, &byte, 1) != 1 || write(out, &byte, 1) != 1)
            _exit(EXIT_FAILURE);
    }
    _exit(EXIT_SUCCESS);
}

static void start_pair(long rounds, useconds_t pause_us)
{
    int there[2];
    int back[2];

    if (pipe(there) != 0 || pipe(back) != 0)
        exit(EXIT_FAILURE);
    if (fork() == 0)
        play(back[0], there[1], rounds, pause_us);
    if (fork() == 0)
        echo(there[0], back[1], rounds);
    close(there[0]);
    close(there[1]);
    close(back[0]);
    close(back[1]);
}

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    long pairs = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    long rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    long pause_us = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    double start = now_s();
    int status;
    int rc = EXIT_SUCCESS;

    if (pairs <= 0 || pairs > 256 || rounds <= 0 || pause_us < 0 || pause_us > 999999) {
        (void)fputs("usage: bench_wake PAIRS ROUNDS [PAUSE_US]\n", stderr);
        return 2;
    }
    for (long i = 0; i < pairs; i++)
        start_pair(rounds, (useconds_t)pause_us);
    while (wait(&status) > 0) {
        if (status != 0)
            rc = EXIT_FAILURE;
    }
    printf("ok wall_s=%.3f\n", now_s() - start);
    return rc;
}
