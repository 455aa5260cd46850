/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times the read-out of a full buffer: opens a session on any compatible service, waits until a
 * producer (bench_fill) has written so much, disables, then times ReadBuffers from the request to
 * the last byte.
 *
 * Usage: bench_read SOCKET BUFFER_MB FILL_MB [--v2] [--ring] [--slow MS] [--no-read] [--source
 * NAME]
 *
 * --slow makes it a reader that sleeps after every 64 KiB; --no-read only fills (the ring, with
 * --ring, for the cost of taking data in). Prints one line of key=value on stdout, and the word
 * `enabled` and `reading` on stderr when it gets there, for the script that runs it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/bench_client.h"

#define MB (1024u * 1024u)

struct options {
    const char *socket;
    const char *source;
    uint64_t buffer_mb;
    uint64_t fill_mb;
    unsigned slow_ms;
    bool is_v2;
    bool is_ring;
    bool is_fill_only;
};

struct tally {
    uint64_t bytes;
    uint64_t packets;
    uint64_t slices;
    uint64_t first_ns;
};

/* Short lengths are one byte, so this stays cheaper than the general reader: what is measured is
 * the service, and 20 million slices pass here. */
static size_t read_length(const uint8_t *p, const uint8_t *end, size_t *ret_value)
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
    while (p < end && *p == 0x12) {
        size_t slice_bytes, data_bytes, n;
        const uint8_t *slice;

        p++;
        p += read_length(p, end, &slice_bytes);
        slice = p;
        p += slice_bytes;
        if (p > end)
            break;
        n = read_length(slice + 1, p, &data_bytes);
        t->slices++;
        t->bytes += data_bytes;
        t->packets += slice_bytes > 1 + n + data_bytes;
    }
    if (p != end) {
        fprintf(stderr, "bench_read: a malformed slice\n");
        exit(1);
    }
}

static void fill_buffer(struct pfl_bench_client *client, const struct options *o)
{
    struct pfl_bench_session_conf conf = {
        .buffer_kb = (uint32_t)(o->buffer_mb * 1024),
        .fill_policy = o->is_ring ? 1 : 2,
        .experimental_mode = o->is_v2 ? 1 : 0,
        .data_source = o->source,
    };
    uint64_t written = 0, lost = 0, begin_ns = pfl_bench_now_ns();

    pfl_bench_client_enable(client, &conf);
    fprintf(stderr, "enabled\n");
    while (written < o->fill_mb * MB) {
        pfl_bench_sleep_ms(20);
        pfl_bench_client_get_fill(client, &written, &lost);
        if (pfl_bench_now_ns() - begin_ns > 120 * 1000000000ull) {
            fprintf(stderr, "bench_read: %llu bytes after 120 s\n", (unsigned long long)written);
            exit(1);
        }
    }
    printf("written_bytes=%llu lost_chunks=%llu fill_seconds=%.3f ", (unsigned long long)written,
           (unsigned long long)lost, (double)(pfl_bench_now_ns() - begin_ns) / 1e9);
}

static void read_buffer(struct pfl_bench_client *client, const struct options *o)
{
    struct tally t = {0};
    uint64_t begin_ns, end_ns;

    pfl_bench_client_slow_down(client, o->slow_ms, 65536);
    fprintf(stderr, "reading\n");
    begin_ns = pfl_bench_now_ns();
    pfl_bench_client_call(client, "ReadBuffers", pfl_span_of(NULL, 0), on_slices, &t);
    end_ns = pfl_bench_now_ns();
    printf("bytes=%llu packets=%llu slices=%llu first_ms=%.3f seconds=%.4f mb_per_s=%.1f\n",
           (unsigned long long)t.bytes, (unsigned long long)t.packets, (unsigned long long)t.slices,
           (double)(t.first_ns - begin_ns) / 1e6, (double)(end_ns - begin_ns) / 1e9,
           (double)t.bytes / 1e6 / ((double)(end_ns - begin_ns) / 1e9));
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_read SOCKET BUFFER_MB FILL_MB [--v2] [--ring] [--slow MS] "
                    "[--no-read] [--source NAME]\n");
    return 2;
}

static bool parse_option(struct options *o, char **argv, int argc, int *i)
{
    const char *name = argv[*i];

    if (strcmp(name, "--v2") == 0)
        o->is_v2 = true;
    else if (strcmp(name, "--ring") == 0)
        o->is_ring = true;
    else if (strcmp(name, "--no-read") == 0)
        o->is_fill_only = true;
    else if (strcmp(name, "--slow") == 0 && *i + 1 < argc)
        o->slow_ms = (unsigned)strtoul(argv[++*i], NULL, 10);
    else if (strcmp(name, "--source") == 0 && *i + 1 < argc)
        o->source = argv[++*i];
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.source = "perfleet.bench"};
    struct pfl_bench_client *client;

    if (argc < 4)
        return usage();
    o.socket = argv[1];
    o.buffer_mb = strtoull(argv[2], NULL, 10);
    o.fill_mb = strtoull(argv[3], NULL, 10);
    for (int i = 4; i < argc; i++) {
        if (!parse_option(&o, argv, argc, &i))
            return usage();
    }
    client = pfl_bench_client_new(o.socket);
    fill_buffer(client, &o);
    if (!o.is_fill_only) {
        pfl_bench_client_call(client, "Flush", pfl_span_of(NULL, 0), NULL, NULL);
        pfl_bench_client_call(client, "DisableTracing", pfl_span_of(NULL, 0), NULL, NULL);
        read_buffer(client, &o);
    } else {
        printf("\n");
    }
    pfl_bench_client_free(client);
    return 0;
}
