/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator's own work on a read-out costs: the replies of ReadBuffers, as perfleetd sends
 * them, through the scan and the merge into memory. CPU per GB of the file, best of `runs` (5).
 *
 *     merge_bench TRACE [runs]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/link/packet_scan.h"
#include "consumer/merge/merge.h"

#define REPLY_BYTES (127u * 1024)
#define SINK_BYTES  (1u << 20)
#define FILE_MAX    ((size_t)1 << 30)

struct reply {
    size_t at;
    size_t len;
};

struct bench {
    struct pfl_buf bodies;
    struct reply *replies;
    size_t replies_len;
    size_t packets;
    struct pfl_merge *merge;
    size_t host;
    uint8_t *sink;
    size_t sink_len;
    uint64_t written;
};

static double cpu_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int reserve(void *user, size_t len, uint8_t **ret_room)
{
    struct bench *b = user;

    if (len > SINK_BYTES)
        return PFL_ELIMIT;
    if (len > SINK_BYTES - b->sink_len)
        b->sink_len = 0;
    *ret_room = b->sink + b->sink_len;
    return 0;
}

static void commit(void *user, size_t len)
{
    struct bench *b = user;

    b->sink_len += len;
    b->written += len;
}

static int on_packet(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct bench *b = user;

    return pfl_merge_packet(b->merge, b->host, slices, slices_len, bytes);
}

/* One packet of the trace as a slice of the last reply, or of a new one. */
static int add_slice(struct bench *b, struct pfl_span packet)
{
    uint8_t head[32];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    size_t slice = 1 + pfl_varint_size(packet.len) + packet.len + 2;
    struct reply *last = &b->replies[b->replies_len - 1];
    int rc;

    if (last->len != 0 && last->len + slice + 8 > REPLY_BYTES) {
        last = &b->replies[b->replies_len++];
        last->at = b->bodies.len;
    }
    pfl_writer_field_header(&w, 2, slice);
    pfl_writer_field_header(&w, 1, packet.len);
    rc = pfl_buf_append(&b->bodies, head, sizeof(head) - w.left);
    if (rc == 0)
        rc = pfl_buf_append(&b->bodies, packet.data, packet.len);
    if (rc == 0)
        rc = pfl_buf_append(&b->bodies, "\x10\x01", 2);
    last->len = b->bodies.len - last->at;
    b->packets++;
    return rc;
}

static int load(struct bench *b, const char *path)
{
    FILE *f = fopen(path, "rbe");
    uint8_t *data = pfl_mem_alloc(FILE_MAX);
    struct pfl_reader r;
    struct pfl_field field;
    int rc = 0;

    if (f == NULL || data == NULL)
        return PFL_EIO;
    r = pfl_reader_of(pfl_span_of(data, fread(data, 1, FILE_MAX, f)));
    (void)fclose(f);
    pfl_buf_init(&b->bodies, FILE_MAX);
    b->replies = pfl_mem_calloc(r.left / (REPLY_BYTES / 2) + 2, sizeof(*b->replies));
    b->replies_len = 1;
    while (rc == 0 && b->replies != NULL && pfl_reader_field(&r, &field)) {
        if (field.id == 1 && field.type == PFL_WIRE_BYTES && field.bytes.len < REPLY_BYTES - 64)
            rc = add_slice(b, field.bytes);
    }
    pfl_mem_free(data);
    return rc != 0 || r.failed ? PFL_EPARSE : 0;
}

static int run_once(struct bench *b, double *ret_ns)
{
    static const struct pfl_clock_point point = {1, 1};
    struct pfl_merge_sink sink = {.user = b, .reserve = reserve, .commit = commit};
    struct pfl_merge_host_conf conf = {
        .name = "a", .points = &point, .points_len = 1, .is_reference = true};
    struct pfl_packet_scan scan;
    double begin;
    int rc = pfl_merge_new(&sink, &b->merge);

    if (rc == 0)
        rc = pfl_merge_add_host(b->merge, &conf, &b->host);
    if (rc == 0)
        rc = pfl_merge_begin(b->merge);
    pfl_packet_scan_init(&scan, PFL_PACKET_MAX_BYTES);
    begin = cpu_ns();
    for (size_t i = 0; rc == 0 && i < b->replies_len; i++) {
        const struct reply *reply = &b->replies[i];

        rc = pfl_packet_scan_feed(&scan, pfl_span_of(b->bodies.data + reply->at, reply->len),
                                  on_packet, b);
    }
    *ret_ns = cpu_ns() - begin;
    pfl_packet_scan_fini(&scan);
    pfl_merge_free(b->merge);
    return rc;
}

int main(int argc, char **argv)
{
    long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
    struct bench b = {0};
    double best = 1e18;

    b.sink = pfl_mem_alloc(SINK_BYTES);
    if (argc < 2 || b.sink == NULL || load(&b, argv[1]) != 0) {
        (void)fprintf(stderr, "usage: merge_bench TRACE [runs]\n");
        return 2;
    }
    for (long run = 0; run < runs; run++) {
        double ns;

        b.written = 0;
        if (run_once(&b, &ns) != 0)
            return 1;
        if (ns < best)
            best = ns;
    }
    printf("%zu packets, %.1f MB: %.1f ns a packet, %.3f s/GB\n", b.packets,
           (double)b.written / 1e6, best / (double)b.packets, best / (double)b.written);
    pfl_mem_free(b.sink);
    pfl_mem_free(b.replies);
    pfl_buf_fini(&b.bodies);
    return 0;
}
