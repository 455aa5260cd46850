/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load of the benchmarks: a producer that writes flat out and loses nothing, on any compatible
 * service. It writes the shared memory itself, so that it is cheap and the same for every service.
 *
 * Usage: bench_fill SOCKET [--packets N] [--bytes B] [--track-events] [--smb-kb K] [--source NAME]
 *                          [--writers N] [--watch] [--stamped]
 *
 * Waits until a session wants the data source (perfleet.bench), writes N packets (0: until the
 * session stops), waits until the service has taken them in, and prints one line of key=value on
 * stdout. It then stays connected and acknowledges flushes until its stdin ends or the service
 * goes; the next session that wants the data source begins again.
 *
 * A packet is TracePacket {timestamp, for_testing {str of B bytes, seq_value}}, or, with
 * --track-events, slices of about 21 bytes as an SDK writes them. --stamped: a chunk's packets are
 * made once and every chunk is written with one copy of them, each time: the producer is then as
 * fast as the memory, and the service alone is the bound.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/fill_writer.h"

#define STR_MAX_BYTES (16u * 1024 * 1024)

/* Fields of TracePacket, TestEvent and TrackEvent. */
enum {
    PACKET_TIMESTAMP = 8,
    PACKET_TRACK_EVENT = 11,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_FOR_TESTING = 900,
    TEST_STR = 1,
    TEST_SEQ_VALUE = 2,
    EVENT_CATEGORY_IID = 3,
    EVENT_DEBUG_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK_UUID = 11,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3,
};

struct options {
    const char *socket;
    const char *source;
    uint64_t packets;
    uint32_t bytes;
    uint32_t smb_kb;
    uint32_t writers; /* sequences that take turns */
    bool is_track_events;
    bool is_watching; /* waits for memory awake */
    bool is_stamped;
};

static uint8_t packet[STR_MAX_BYTES + 64];

static uint64_t now_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Everything before the string and its bytes; then the caller adds what comes after. */
static struct pfl_writer begin_test_packet(uint64_t timestamp, uint32_t number, uint32_t bytes)
{
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));
    size_t nested = 1 + pfl_varint_size(bytes) + bytes + 1 + pfl_varint_size(number);

    pfl_writer_field_varint(&w, PACKET_TIMESTAMP, timestamp);
    pfl_writer_field_header(&w, PACKET_FOR_TESTING, nested);
    pfl_writer_field_header(&w, TEST_STR, bytes);
    memset(w.pos, 'x', bytes);
    w.pos += bytes;
    w.left -= bytes;
    pfl_writer_field_varint(&w, TEST_SEQ_VALUE, number);
    return w;
}

/* As the C++ SDK writes a slice: names interned, an argument with the begin. */
static struct pfl_writer track_event(uint64_t timestamp, uint64_t number)
{
    uint8_t event[32];
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));
    struct pfl_writer e = pfl_writer_of(event, sizeof(event));
    uint32_t arg = (uint32_t)number;

    if ((number & 1) == 0) {
        pfl_writer_field_varint(&e, EVENT_CATEGORY_IID, 1);
        pfl_writer_field_header(&e, EVENT_DEBUG_ANNOTATION, 3 + pfl_varint_size(arg));
        pfl_writer_field_varint(&e, ANNOTATION_NAME_IID, 1);
        pfl_writer_field_varint(&e, ANNOTATION_UINT, arg);
        pfl_writer_field_varint(&e, EVENT_NAME_IID, 1 + (number / 2 & 15));
    }
    pfl_writer_field_varint(&e, EVENT_TYPE, 1 + (number & 1)); /* slice begin, slice end */
    pfl_writer_field_varint(&e, EVENT_TRACK_UUID, 7);
    pfl_writer_field_varint(&w, PACKET_TIMESTAMP, timestamp);
    pfl_writer_field_varint(&w, PACKET_SEQUENCE_FLAGS, 2);
    pfl_writer_field_bytes(&w, PACKET_TRACK_EVENT, event, (size_t)(e.pos - event));
    return w;
}

static uint64_t write_packets(struct pfl_fill_writer *writer, const struct options *o)
{
    struct pfl_fill_connection *connection = writer->connection;
    uint64_t timestamp = now_ns(CLOCK_BOOTTIME), n = 0;

    while ((o->packets == 0 || n < o->packets) && !connection->is_stopped &&
           !connection->is_closed) {
        struct pfl_writer w;

        if (o->is_track_events)
            w = track_event(timestamp + n * 50, n);
        else
            w = begin_test_packet(timestamp + n * 50, (uint32_t)n, o->bytes);
        pfl_fill_writer_put(writer, packet, (size_t)(w.pos - packet));
        n++;
        if (n % 4096 == 0)
            pfl_fill_connection_pump(connection, false);
    }
    return n;
}

static uint64_t stamp_packets(struct pfl_fill_writer *writer, const struct options *o)
{
    struct pfl_fill_connection *connection = writer->connection;
    struct pfl_writer w = begin_test_packet(now_ns(CLOCK_BOOTTIME), 1, o->bytes);
    uint64_t chunks = 0, n = 0;

    pfl_fill_writer_prepare(writer, packet, (size_t)(w.pos - packet));
    if (writer->stamp_packets == 0) {
        fprintf(stderr, "bench_fill: a stamped packet has to fit into a chunk\n");
        exit(2);
    }
    while ((o->packets == 0 || n < o->packets) && !connection->is_stopped &&
           !connection->is_closed) {
        n += pfl_fill_writer_stamp(writer);
        if (++chunks % 64 == 0)
            pfl_fill_connection_pump(connection, false);
    }
    return n;
}

/* Answers the service until a start; false when stdin or the service ends. */
static bool wait_for_start(struct pfl_fill_writer *writer, uint32_t starts)
{
    struct pfl_fill_connection *connection = writer->connection;

    while (!connection->is_closed && connection->starts == starts) {
        struct pollfd fds[2] = {{.fd = connection->fd, .events = POLLIN},
                                {.fd = STDIN_FILENO, .events = POLLIN}};
        char byte;

        if (poll(fds, 2, -1) < 0)
            return false;
        if (fds[1].revents != 0 && read(STDIN_FILENO, &byte, 1) <= 0)
            return false;
        if (fds[0].revents != 0)
            pfl_fill_connection_pump(connection, false);
        if (connection->flush_request_id != 0)
            pfl_fill_writer_flush(writer);
    }
    return !connection->is_closed;
}

static void run(struct pfl_fill_connection *connection, const struct options *o)
{
    static struct pfl_fill_writer writer;
    uint32_t starts = 0;

    pfl_fill_writer_init(&writer, connection, 1);
    writer.writers = (uint16_t)o->writers;
    writer.is_watching = o->is_watching;
    while (wait_for_start(&writer, starts)) {
        uint64_t begin_ns = now_ns(CLOCK_MONOTONIC), stalls = writer.stalls, chunks = writer.chunks;
        uint64_t packets, ns;

        starts = connection->starts;
        packets = o->is_stamped ? stamp_packets(&writer, o) : write_packets(&writer, o);
        pfl_fill_writer_flush(&writer);
        pfl_fill_connection_sync(connection);
        ns = now_ns(CLOCK_MONOTONIC) - begin_ns;
        printf("packets=%llu chunks=%llu stalls=%llu fill_seconds=%.4f\n",
               (unsigned long long)packets, (unsigned long long)(writer.chunks - chunks),
               (unsigned long long)(writer.stalls - stalls), (double)ns / 1e9);
        fflush(stdout);
    }
}

static bool parse_options(struct options *o, int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--track-events") == 0)
            o->is_track_events = true;
        else if (strcmp(argv[i], "--watch") == 0)
            o->is_watching = true;
        else if (strcmp(argv[i], "--stamped") == 0)
            o->is_stamped = true;
        else if (strcmp(argv[i], "--packets") == 0 && i + 1 < argc)
            o->packets = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--bytes") == 0 && i + 1 < argc)
            o->bytes = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--smb-kb") == 0 && i + 1 < argc)
            o->smb_kb = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--writers") == 0 && i + 1 < argc)
            o->writers = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--source") == 0 && i + 1 < argc)
            o->source = argv[++i];
        else
            return false;
    }
    return o->bytes <= STR_MAX_BYTES && o->writers <= 32767;
}

int main(int argc, char **argv)
{
    struct options o = {.bytes = 512, .source = "perfleet.bench"};
    struct pfl_fill_connection connection;

    if (argc < 2 || !parse_options(&o, argc, argv)) {
        fprintf(stderr, "usage: bench_fill SOCKET [--packets N] [--bytes B] [--track-events] "
                        "[--smb-kb K] [--source NAME] [--writers N] [--watch] [--stamped]\n");
        return 2;
    }
    pfl_fill_connection_init(&connection, argv[1], o.source, o.smb_kb);
    printf("registered=%s\n", o.source);
    fflush(stdout);
    run(&connection, &o);
    pfl_fill_connection_fini(&connection);
    return 0;
}
