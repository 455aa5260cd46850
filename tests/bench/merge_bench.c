/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator's own work on a read-out costs: the replies of ReadBuffers, as perfleetd sends
 * them, through the scan and the merge into memory. CPU per GB of the file, best of `times` (5);
 * "runs": packets come in runs (proto/packet_run.h), not in slices.
 *
 *     merge_bench TRACE [times [runs]]
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "consumer/merge/merge.h"
#include "perfetto/consumer_port.fields.h"
#include "proto/packet_run.h"
#include "proto/packet_scan.h"

#define REPLY_BYTES (127u * 1024)
#define SINK_BYTES  (1u << 20)
#define FILE_MAX    ((size_t)1 << 30)
#define RUN_MAX     (32u * 1024)

struct reply {
    size_t at;
    size_t len;
};

struct bench {
    struct pfl_buf bodies;
    struct reply *replies;
    size_t replies_len;
    size_t packets;
    bool is_runs;
    struct pfl_buf rest; /* of packets that end in `tail`, with their other columns */
    struct pfl_buf times;
    struct pfl_buf lengths;
    struct pfl_span tail;
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

static int on_run(void *user, const struct pfl_packet_run *run)
{
    struct bench *b = user;
    uint64_t bytes;

    return pfl_merge_run(b->merge, b->host, run, &bytes);
}

/* Two fields of a message that is a field of the last reply, or of a new one. */
static int add_message(struct bench *b, uint32_t id, struct pfl_span first, struct pfl_span second)
{
    uint8_t head[32];
    struct pfl_writer w = pfl_writer_of(head, sizeof(head));
    struct reply *last = &b->replies[b->replies_len - 1];
    int rc;

    assert(b->replies != NULL);
    if (last->len != 0 && last->len + first.len + second.len + sizeof(head) > REPLY_BYTES) {
        last = &b->replies[b->replies_len++];
        last->at = b->bodies.len;
    }
    pfl_writer_field_header(&w, id, first.len + second.len);
    rc = pfl_buf_append(&b->bodies, head, sizeof(head) - w.left);
    if (rc == 0)
        rc = pfl_buf_append(&b->bodies, first.data, first.len);
    if (rc == 0)
        rc = pfl_buf_append(&b->bodies, second.data, second.len);
    last->len = b->bodies.len - last->at;
    return rc;
}

static int add_slice(struct bench *b, struct pfl_span packet)
{
    static uint8_t data[REPLY_BYTES];
    struct pfl_writer w = pfl_writer_of(data, sizeof(data));

    pfl_writer_field_bytes(&w, 1, packet.data, packet.len);
    return add_message(b, 2, pfl_span_of(data, sizeof(data) - w.left), pfl_span_of("\x10\x01", 2));
}

/* What was gathered. */
static int add_run(struct bench *b)
{
    static uint8_t data[4 * RUN_MAX];
    struct pfl_writer w = pfl_writer_of(data, sizeof(data));
    int rc;

    if (b->lengths.len == 0)
        return 0;
    pfl_writer_field_bytes(&w, READ_BUFFERS_RESPONSE__PACKET_RUN__TAIL, b->tail.data, b->tail.len);
    pfl_writer_field_bytes(&w, READ_BUFFERS_RESPONSE__PACKET_RUN__REST, b->rest.data, b->rest.len);
    pfl_writer_field_bytes(&w, READ_BUFFERS_RESPONSE__PACKET_RUN__TIMES, b->times.data,
                           b->times.len);
    pfl_writer_field_bytes(&w, READ_BUFFERS_RESPONSE__PACKET_RUN__LENGTHS, b->lengths.data,
                           b->lengths.len);
    rc = add_message(b, READ_BUFFERS_RESPONSE__PERFLEET_RUNS,
                     pfl_span_of(data, sizeof(data) - w.left), pfl_span_of("", 0));
    pfl_buf_clear(&b->rest);
    pfl_buf_clear(&b->times);
    pfl_buf_clear(&b->lengths);
    return rc;
}

/* The bytes of a packet that is not its tail, to the columns. */
static int add_columns(struct bench *b, struct pfl_span bytes)
{
    struct pfl_reader r = pfl_reader_of(bytes);
    uint8_t length[10];
    struct pfl_field f;
    size_t at = 0;
    int rc = 0;

    if (bytes.len != 0 && bytes.data[0] == PFL_RUN_TIME_TAG && pfl_reader_field(&r, &f)) {
        at = f.raw.len;
        rc = pfl_buf_append(&b->times, bytes.data + 1, at - 1);
    }
    if (rc == 0 && bytes.len != at)
        rc = pfl_buf_append(&b->rest, bytes.data + at, bytes.len - at);
    if (rc == 0)
        rc = pfl_buf_append(&b->lengths, length,
                            pfl_varint_put(length, (bytes.len - at) << 1 | (at != 0)));
    return rc;
}

/* The trusted fields that it ends with. */
static struct pfl_span tail_of(struct pfl_span packet)
{
    struct pfl_reader r = pfl_reader_of(packet);
    const uint8_t *begin = packet.data;
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id != 3 && f.id != 10 && f.id != 79)
            begin = r.pos;
    }
    return pfl_span_of(begin, (size_t)(packet.data + packet.len - begin));
}

static int add_packet(struct bench *b, struct pfl_span packet)
{
    struct pfl_span tail = tail_of(packet);
    size_t len = packet.len - tail.len;
    int rc = 0;

    b->packets++;
    if (!b->is_runs || len >= PFL_RUN_PACKET_MAX_BYTES || tail.len > PFL_RUN_TAIL_MAX_BYTES) {
        rc = add_run(b);
        return rc != 0 ? rc : add_slice(b, packet);
    }
    if (b->rest.len > RUN_MAX - PFL_RUN_PACKET_MAX_BYTES || tail.len != b->tail.len ||
        memcmp(tail.data, b->tail.data, tail.len) != 0)
        rc = add_run(b);
    b->tail = tail;
    return rc != 0 ? rc : add_columns(b, pfl_span_of(packet.data, len));
}

static int load(struct bench *b, const char *path)
{
    FILE *f = fopen(path, "rbe");
    uint8_t *data = pfl_mem_alloc(FILE_MAX);
    struct pfl_reader r;
    struct pfl_field field;
    int rc;

    if (f == NULL || data == NULL)
        return PFL_EIO;
    r = pfl_reader_of(pfl_span_of(data, fread(data, 1, FILE_MAX, f)));
    (void)fclose(f);
    pfl_buf_init(&b->bodies, FILE_MAX);
    pfl_buf_init(&b->rest, RUN_MAX);
    pfl_buf_init(&b->times, RUN_MAX);
    pfl_buf_init(&b->lengths, RUN_MAX);
    b->replies = pfl_mem_calloc(r.left / (REPLY_BYTES / 2) + 2, sizeof(*b->replies));
    b->replies_len = 1;
    rc = b->replies != NULL ? 0 : PFL_ENOMEM;
    while (rc == 0 && pfl_reader_field(&r, &field)) {
        if (field.id == 1 && field.type == PFL_WIRE_BYTES && field.bytes.len < REPLY_BYTES - 64)
            rc = add_packet(b, field.bytes);
    }
    if (rc == 0)
        rc = add_run(b);
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
    int rc = pfl_merge_new(&sink, &(const struct pfl_hash_key){{1, 2}}, &b->merge);

    if (rc == 0)
        rc = pfl_merge_add_host(b->merge, &conf, &b->host);
    if (rc == 0)
        rc = pfl_merge_begin(b->merge);
    pfl_packet_scan_init(&scan, PFL_PACKET_MAX_BYTES);
    scan.on_run = on_run;
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
    long times = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
    struct bench b = {.is_runs = argc > 3 && strcmp(argv[3], "runs") == 0};
    double best = 1e18;

    b.sink = pfl_mem_alloc(SINK_BYTES);
    if (argc < 2 || b.sink == NULL || load(&b, argv[1]) != 0) {
        (void)fprintf(stderr, "usage: merge_bench TRACE [times [runs]]\n");
        return 2;
    }
    for (long time = 0; time < times; time++) {
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
    pfl_buf_fini(&b.rest);
    pfl_buf_fini(&b.times);
    pfl_buf_fini(&b.lengths);
    return 0;
}
