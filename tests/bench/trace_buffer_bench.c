/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data path without sockets of its own: fills a trace buffer with chunks as writers fill them
 * and reads it through the read-back, into nothing (the cost of making frames) and into a UNIX
 * socket that a thread empties (with the kernel's copies).
 *
 *     trace_buffer_bench [runs [slices]]   best of `runs` (5) for every row; `slices`: as for a
 *                                          consumer that takes no runs of packets
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "abi/fragment.h"
#include "base/clock.h"
#include "base/mem.h"
#include "service/buffer/readback.h"

#define PAYLOAD_BYTES 4080u
#define PAYLOADS      256u /* that take turns: more than a processor's branch predictor learns */

struct shape {
    const char *name;
    uint32_t packet_bytes; /* 0: mixed, as a program's trace of slices */
    bool has_short_size;   /* one byte, as writers do below 127 */
    uint32_t writers;
    uint64_t total_bytes;
};

struct result {
    uint64_t chunks;
    uint64_t packets;
    uint64_t bytes; /* stored */
    double fill_ns;
    double read_ns[2]; /* into nothing, into the socket */
};

struct payload {
    uint32_t bytes;
    uint16_t packets;
    uint8_t data[PAYLOAD_BYTES];
};

static struct payload payloads[PAYLOADS];
static bool accepts_runs;

static void on_new_source(void *user, struct pfl_trace_buffer_source *source)
{
    uint32_t *last_id = user;
    struct pfl_writer w = pfl_writer_of(source->trusted, sizeof(source->trusted));

    source->packet_sequence_id = ++*last_id;
    pfl_writer_field_varint(&w, 3, source->producer_uid);
    pfl_writer_field_varint(&w, 10, source->packet_sequence_id + 1000);
    pfl_writer_field_varint(&w, 79, 123456);
    source->trusted_len = (uint8_t)(sizeof(source->trusted) - w.left);
}

/* A packet: timestamp, sequence flags and one nested message that fills it up. */
static void put_packet(uint8_t *dst, uint32_t bytes)
{
    struct pfl_writer w = pfl_writer_of(dst, bytes);

    pfl_writer_field_varint(&w, 8, 1234567890123456789u);
    pfl_writer_field_varint(&w, 13, 2);
    pfl_writer_field_header(&w, 11, bytes - 12 - (bytes > 142 ? 3 : 2));
    while (w.left > 0)
        pfl_writer_u8(&w, 0x42);
}

/* Of 16 to 40 bytes mostly, some larger: timestamp since the last packet, flags, event. */
static uint32_t put_mixed_packet(uint8_t *dst, uint64_t *random)
{
    /* Of one byte, two, three and seven: a twentieth, most, two in 32, three in 32. */
    static const uint64_t deltas[32] = {
        100,  1000, 1000, 1000, 1000, 1000,  1000, 1000,       20000,      1000,      1000,
        1000, 1000, 1000, 1000, 1000, 20000, 1000, 1000,       1000,       1000,      1000,
        1000, 1000, 1000, 1000, 1000, 1000,  1000, 1ull << 45, 1ull << 45, 1ull << 45};
    uint32_t event;
    struct pfl_writer w = pfl_writer_of(dst, 400);

    *random = *random * 6364136223846793005u + 1442695040888963407u;
    event = 6 + (uint32_t)(*random >> 40) % 24;
    if ((*random >> 33) % 16 == 0)
        event += 16 + (uint32_t)(*random >> 50) % 200;
    pfl_writer_field_varint(&w, 8, deltas[(*random >> 36) % 32]);
    pfl_writer_field_varint(&w, 13, 2);
    pfl_writer_field_header(&w, 11, event);
    memset(w.pos, 0x42, event);
    return (uint32_t)(w.pos - dst) + event;
}

static void fill_payload(const struct shape *shape, struct payload *dst, uint64_t *random)
{
    uint32_t size_bytes = shape->has_short_size ? 1 : PFL_FRAGMENT_SIZE_BYTES;

    dst->bytes = 0;
    dst->packets = 0;
    while (dst->bytes + size_bytes + (shape->packet_bytes != 0 ? shape->packet_bytes : 260) <=
           PAYLOAD_BYTES) {
        uint8_t *pos = dst->data + dst->bytes;
        uint32_t bytes = shape->packet_bytes;

        if (bytes == 0)
            bytes = put_mixed_packet(pos + size_bytes, random);
        else
            put_packet(pos + size_bytes, bytes);
        if (shape->has_short_size)
            *pos = (uint8_t)bytes;
        else
            pfl_fragment_put_size4(pos, bytes);
        dst->bytes += size_bytes + bytes;
        dst->packets++;
    }
}

static double now_ns(void)
{
    return (double)pfl_clock_now_ns(PFL_CLOCK_MONOTONIC);
}

/* Commits shape->total_bytes in chunks; ids continue from what `res` has. */
static void commit_all(struct pfl_trace_buffer *buffer, const struct shape *shape,
                       struct result *res)
{
    uint64_t random = 1;
    uint64_t begin = res->chunks;
    uint64_t end = res->bytes + shape->total_bytes;

    for (uint32_t i = 0; i < PAYLOADS; i++)
        fill_payload(shape, &payloads[i], &random);
    for (uint64_t i = begin; res->bytes < end; i++) {
        const struct payload *payload = &payloads[i % PAYLOADS];

        pfl_trace_buffer_commit(buffer, &(struct pfl_trace_buffer_chunk){
                                            .producer_id = 1,
                                            .writer_id = (uint16_t)(1 + i % shape->writers),
                                            .chunk_id = (uint32_t)(i / shape->writers),
                                            .fragments = payload->packets,
                                            .is_complete = true,
                                            .payload = payload->data,
                                            .payload_bytes = PAYLOAD_BYTES,
                                            .producer_uid = 1000,
                                            .producer_pid = 4242,
                                        });
        res->chunks++;
        res->packets += payload->packets;
        res->bytes += payload->bytes;
    }
}

static struct pfl_trace_buffer *fill(const struct shape *shape, struct result *res)
{
    struct pfl_trace_buffer_conf conf = {.size_bytes = shape->total_bytes * 11 / 10};
    struct pfl_trace_buffer *buffer;
    double begin;

    if (pfl_trace_buffer_new(&conf, &buffer) != 0)
        exit(1);
    begin = now_ns();
    commit_all(buffer, shape, res);
    res->fill_ns = now_ns() - begin;
    return buffer;
}

static void *empty_socket(void *arg)
{
    static uint8_t sink[1 << 18];
    int fd = *(const int *)arg;

    while (recv(fd, sink, sizeof(sink), 0) > 0)
        continue;
    return NULL;
}

static void write_all(int fd, const struct pfl_readback_frame *frame)
{
    struct iovec iov[256];
    int len = frame->iov_len;
    int at = 0;

    memcpy(iov, frame->iov, (size_t)len * sizeof(*iov));
    while (at < len) {
        ssize_t n = writev(fd, iov + at, len - at);

        if (n < 0)
            exit(1);
        while (at < len && (size_t)n >= iov[at].iov_len)
            n -= (ssize_t)iov[at++].iov_len;
        if (at < len) {
            iov[at].iov_base = (uint8_t *)iov[at].iov_base + n;
            iov[at].iov_len -= (size_t)n;
        }
    }
}

static double drain(struct pfl_trace_buffer *buffer, int fd)
{
    uint32_t last_id = 0;
    struct pfl_readback_conf conf = {
        .request_id = 7,
        .buffers = &buffer,
        .buffers_len = 1,
        .on_new_source = on_new_source,
        .user = &last_id,
    };
    struct pfl_readback *readback;
    struct pfl_readback_frame frame = {.has_more = true};
    double begin = now_ns();

    if (pfl_readback_new(&conf, &readback) != 0)
        exit(1);
    pfl_readback_set_request(readback, conf.request_id, accepts_runs);
    while (frame.has_more) {
        if (pfl_readback_next_frame(readback, &frame) != 0)
            exit(1);
        if (fd >= 0)
            write_all(fd, &frame);
    }
    pfl_readback_free(readback);
    return now_ns() - begin;
}

static double drain_into_socket(struct pfl_trace_buffer *buffer)
{
    pthread_t reader;
    double ns;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0 ||
        pthread_create(&reader, NULL, empty_socket, &fds[1]) != 0)
        exit(1);
    ns = drain(buffer, fds[0]);
    close(fds[0]);
    pthread_join(reader, NULL);
    close(fds[1]);
    return ns;
}

static void keep_best(double *best, double ns)
{
    if (*best == 0 || ns < *best)
        *best = ns;
}

static void run(const struct shape *shape, int runs)
{
    struct result best = {0};

    for (int i = 0; i < runs; i++) {
        for (int into_socket = 0; into_socket < 2; into_socket++) {
            struct result res = {0};
            struct pfl_trace_buffer *buffer = fill(shape, &res);
            double ns = into_socket ? drain_into_socket(buffer) : drain(buffer, -1);

            best.packets = res.packets;
            best.bytes = res.bytes;
            keep_best(&best.fill_ns, res.fill_ns);
            keep_best(&best.read_ns[into_socket], ns);
            pfl_trace_buffer_free(buffer);
        }
    }
    printf("%-16s %5u writers %5.0f MB | fill %5.0f MB/s | frames %5.0f MB/s %5.1f ns/packet | "
           "socket %5.0f MB/s %5.1f ns/packet\n",
           shape->name, shape->writers, (double)best.bytes / 1e6,
           (double)best.bytes * 1e3 / best.fill_ns, (double)best.bytes * 1e3 / best.read_ns[0],
           best.read_ns[0] / (double)best.packets, (double)best.bytes * 1e3 / best.read_ns[1],
           best.read_ns[1] / (double)best.packets);
    fflush(stdout);
}

/* Commits into a ring that is full: every chunk overwrites one. */
static void run_overwriting(uint32_t packet_bytes, bool has_short_size, int runs)
{
    struct shape shape = {"", packet_bytes, has_short_size, 100, 200u << 20};
    struct pfl_trace_buffer_conf conf = {.size_bytes = 64u << 20};
    double best = 0;
    uint64_t bytes = 0;

    for (int i = 0; i < runs; i++) {
        struct result res = {0};
        struct pfl_trace_buffer *buffer;
        double begin;

        if (pfl_trace_buffer_new(&conf, &buffer) != 0)
            exit(1);
        commit_all(buffer, &shape, &res);
        begin = now_ns();
        commit_all(buffer, &shape, &res);
        keep_best(&best, now_ns() - begin);
        bytes = res.bytes / 2;
        pfl_trace_buffer_free(buffer);
    }
    printf("overwriting, %u-byte packets: %5.0f MB/s %5.3f s/GB\n", packet_bytes,
           (double)bytes * 1e3 / best, best / (double)bytes);
}

int main(int argc, char **argv)
{
    static const uint64_t sizes[] = {55u << 20, 555u << 20, 1000u << 20};
    static const uint32_t writers[] = {1, 1000};
    int runs = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;

    accepts_runs = argc < 3;
    run_overwriting(512, false, runs);
    run_overwriting(30, true, runs);
    for (size_t s = 0; s < 3; s++) {
        for (size_t w = 0; w < 2; w++) {
            run(&(struct shape){"512-byte", 512, false, writers[w], sizes[s]}, runs);
            run(&(struct shape){"mixed", 0, false, writers[w], sizes[s]}, runs);
            run(&(struct shape){"30-byte", 30, true, writers[w], sizes[s]}, runs);
            run(&(struct shape){"4000-byte", 4000, false, writers[w], sizes[s]}, runs);
        }
    }
    return 0;
}
