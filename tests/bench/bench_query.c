/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long another client waits: asks a service for its state again and again, with a pause
 * between, and prints the latencies' median, 99th percentile and maximum.
 *
 * Usage: bench_query SOCKET COUNT PAUSE_MS
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tests/bench/bench_client.h"

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

int main(int argc, char **argv)
{
    struct pfl_bench_client *client;
    uint64_t *ns;
    size_t count;

    if (argc != 4) {
        fprintf(stderr, "usage: bench_query SOCKET COUNT PAUSE_MS\n");
        return 2;
    }
    count = strtoull(argv[2], NULL, 10);
    ns = count != 0 ? pfl_mem_calloc(count, sizeof(*ns)) : NULL;
    if (ns == NULL)
        return 1;
    client = pfl_bench_client_new(argv[1]);
    for (size_t i = 0; i < count; i++) {
        uint64_t begin_ns = pfl_bench_now_ns();

        pfl_bench_client_call(client, "QueryServiceState", pfl_span_of(NULL, 0), NULL, NULL);
        ns[i] = pfl_bench_now_ns() - begin_ns;
        pfl_bench_sleep_ms((unsigned)strtoul(argv[3], NULL, 10));
    }
    qsort(ns, count, sizeof(*ns), compare);
    printf("count=%zu p50_ms=%.3f p99_ms=%.3f max_ms=%.3f\n", count, (double)ns[count / 2] / 1e6,
           (double)ns[count * 99 / 100] / 1e6, (double)ns[count - 1] / 1e6);
    pfl_bench_client_free(client);
    pfl_mem_free(ns);
    return 0;
}
