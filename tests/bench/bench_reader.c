/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A consumer under remote control, for the script that runs the benchmarks: commands on stdin, one
 * line each; when it is done, one line on stdout that begins with `ok`.
 *
 *     enable KB POLICY MODE SOURCE   a session with one buffer and one data source; POLICY and MODE
 *                                    are FillPolicy (1 ring, 2 discard) and ExperimentalMode
 *     crowd COUNT KB SOURCE          so many sessions more, each on a connection of its own
 *     flush, disable, free           the requests of these names
 *     stats                          written=BYTES chunks=N lost_chunks=N
 *     slow MS BYTES                  from now on sleep so long after every read of BYTES; 0: not
 *     read                           ReadBuffers, from the request to the last byte
 *     query COUNT PAUSE_MS           QueryServiceState again and again: the replies' latencies
 *
 * Usage: bench_reader SOCKET
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tests/bench/bench_client.h"

#define LINE_BYTES    256
#define QUERIES_MAX   1000000u
#define NS_PER_MS     1e6
#define SLICES_TAG    0x12
#define MEGABYTE      1e6
#define NS_PER_SECOND 1e9
#define LARGE_BYTES   400
#define SESSIONS_MAX  1000u

struct tally {
    uint64_t bytes;
    uint64_t packets;
    uint64_t slices;
    uint64_t first_ns;
    uint64_t large;        /* packets of LARGE_BYTES or more: the load's, not the service's */
    uint64_t packet_bytes; /* of the packet at hand */
};

/* Short lengths are one byte, so this stays cheaper than the general reader: what is measured is
 * the service, and 40 million slices pass here. */
static inline size_t read_length(const uint8_t *p, const uint8_t *end, size_t *ret_value)
{
    size_t value = 0, n = 0;

    while (p + n < end && n < 5) {
        value |= (size_t)(p[n] & 0x7f) << (7 * n);
        if (p[n++] < 0x80)
            break;
    }
    *ret_value = value;
    return n;
}

/* ReadBuffersResponse {slices 2 {data 1, last_slice_for_packet 2}} */
static void on_slices(void *user, struct pfl_span body)
{
    struct tally *t = user;
    const uint8_t *p = body.data;
    const uint8_t *end = p + body.len;

    if (t->first_ns == 0)
        t->first_ns = pfl_bench_now_ns();
    while (p < end && *p == SLICES_TAG) {
        size_t slice_bytes, data_bytes, n;
        const uint8_t *slice;

        p++;
        p += read_length(p, end, &slice_bytes);
        slice = p;
        if (slice_bytes > (size_t)(end - p))
            break;
        p += slice_bytes;
        n = read_length(slice + 1, p, &data_bytes);
        t->slices++;
        t->bytes += data_bytes;
        /* After the data: nothing, or last_slice_for_packet as two bytes. */
        t->packet_bytes += data_bytes;
        if (slice_bytes == 3 + n + data_bytes && p[-1] == 1) {
            t->packets++;
            t->large += t->packet_bytes >= LARGE_BYTES;
            t->packet_bytes = 0;
        }
    }
    if (p != end) {
        fprintf(stderr, "bench_reader: a malformed slice\n");
        exit(1);
    }
}

static void do_read(struct pfl_bench_client *client)
{
    struct tally t = {0};
    uint64_t begin_ns = pfl_bench_now_ns(), ns;

    pfl_bench_client_call(client, "ReadBuffers", pfl_span_of(NULL, 0), on_slices, &t);
    ns = pfl_bench_now_ns() - begin_ns;
    printf("ok bytes=%llu packets=%llu large=%llu slices=%llu first_ms=%.3f seconds=%.5f "
           "mb_per_s=%.2f\n",
           (unsigned long long)t.bytes, (unsigned long long)t.packets, (unsigned long long)t.large,
           (unsigned long long)t.slices, (double)(t.first_ns - begin_ns) / NS_PER_MS,
           (double)ns / NS_PER_SECOND, (double)t.bytes / MEGABYTE / ((double)ns / NS_PER_SECOND));
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;

    return (*x > *y) - (*x < *y);
}

static void do_query(struct pfl_bench_client *client, size_t count, unsigned pause_ms)
{
    uint64_t *ns;

    if (count == 0 || count > QUERIES_MAX)
        exit(2);
    ns = pfl_mem_calloc(count, sizeof(*ns));
    if (ns == NULL)
        exit(1);
    for (size_t i = 0; i < count; i++) {
        uint64_t begin_ns = pfl_bench_now_ns();

        pfl_bench_client_call(client, "QueryServiceState", pfl_span_of(NULL, 0), NULL, NULL);
        ns[i] = pfl_bench_now_ns() - begin_ns;
        pfl_bench_sleep_ms(pause_ms);
    }
    qsort(ns, count, sizeof(*ns), compare);
    printf("ok count=%zu p50_ms=%.3f p99_ms=%.3f max_ms=%.3f\n", count,
           (double)ns[count / 2] / NS_PER_MS, (double)ns[count * 99 / 100] / NS_PER_MS,
           (double)ns[count - 1] / NS_PER_MS);
    pfl_mem_free(ns);
}

static void do_stats(struct pfl_bench_client *client)
{
    struct pfl_bench_fill fill;

    pfl_bench_client_get_fill(client, &fill);
    printf("ok written=%llu chunks=%llu lost_chunks=%llu\n", (unsigned long long)fill.bytes_written,
           (unsigned long long)fill.chunks_written, (unsigned long long)fill.chunks_lost);
}

/* A request without arguments and answers; false when the word names none. */
static bool run_request(struct pfl_bench_client *client, const char *word)
{
    static const char *const words[][2] = {
        {"flush", "Flush"}, {"disable", "DisableTracing"}, {"free", "FreeBuffers"}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(word, words[i][0]) != 0)
            continue;
        pfl_bench_client_call(client, words[i][1], pfl_span_of(NULL, 0), NULL, NULL);
        printf("ok\n");
        return true;
    }
    return false;
}

static void do_enable(struct pfl_bench_client *client, char **args, const char *codec)
{
    struct pfl_bench_session_conf conf = {
        .buffer_kb = (uint32_t)strtoul(args[1], NULL, 10),
        .fill_policy = (uint32_t)strtoul(args[2], NULL, 10),
        .experimental_mode = (uint32_t)strtoul(args[3], NULL, 10),
        .data_source = args[4],
        .codec = (uint32_t)strtoul(codec, NULL, 10),
    };

    pfl_bench_client_enable(client, &conf);
    printf("ok\n");
}

/* Sessions on connections of their own, which end with the program. */
static void do_crowd(const char *socket_path, size_t count, char **args)
{
    struct pfl_bench_session_conf conf = {.buffer_kb = (uint32_t)strtoul(args[2], NULL, 10),
                                          .fill_policy = 1,
                                          .data_source = args[3]};
    static struct pfl_bench_client *clients[SESSIONS_MAX];

    for (size_t i = 0; i < count && i < SESSIONS_MAX; i++) {
        clients[i] = pfl_bench_client_new(socket_path);
        pfl_bench_client_enable(clients[i], &conf);
        pfl_bench_client_call(clients[i], "Flush", pfl_span_of(NULL, 0), NULL, NULL);
    }
    printf("ok\n");
}

static void do_slow(struct pfl_bench_client *client, char **args)
{
    pfl_bench_client_slow_down(client, (unsigned)strtoul(args[1], NULL, 10),
                               strtoull(args[2], NULL, 10));
    printf("ok\n");
}

static bool run_command(struct pfl_bench_client *client, char **args, size_t args_len,
                        const char *socket_path)
{
    if ((args_len == 5 || args_len == 6) && strcmp(args[0], "enable") == 0)
        do_enable(client, args, args_len == 6 ? args[5] : "0");
    else if (args_len == 4 && strcmp(args[0], "crowd") == 0)
        do_crowd(socket_path, strtoull(args[1], NULL, 10), args);
    else if (args_len == 3 && strcmp(args[0], "slow") == 0)
        do_slow(client, args);
    else if (args_len == 3 && strcmp(args[0], "query") == 0)
        do_query(client, strtoull(args[1], NULL, 10), (unsigned)strtoul(args[2], NULL, 10));
    else if (args_len == 1 && strcmp(args[0], "read") == 0)
        do_read(client);
    else if (args_len == 1 && strcmp(args[0], "stats") == 0)
        do_stats(client);
    else
        return args_len == 1 && run_request(client, args[0]);
    return true;
}

int main(int argc, char **argv)
{
    struct pfl_bench_client *client;
    char line[LINE_BYTES];

    if (argc != 2) {
        fprintf(stderr, "usage: bench_reader SOCKET\n");
        return 2;
    }
    client = pfl_bench_client_new(argv[1]);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *args[6] = {NULL}, *save = NULL;
        size_t n = 0;

        for (char *word = strtok_r(line, " \n", &save); word != NULL && n < 6;
             word = strtok_r(NULL, " \n", &save))
            args[n++] = word;
        if (n == 0 || !run_command(client, args, n, argv[1])) {
            fprintf(stderr, "bench_reader: no such command\n");
            return 2;
        }
        fflush(stdout);
    }
    pfl_bench_client_free(client);
    return 0;
}
