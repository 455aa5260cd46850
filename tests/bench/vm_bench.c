/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a ProtoVM costs where the ring makes room: chunks of 4 KiB go round in a ring of 4 MiB, each
 * overwriting one, without a VM and with one that merges every packet of two fields into its state.
 * CPU time of a chunk, best of `runs` (5).
 *
 *     vm_bench [runs]
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "service/buffer/trace_buffer.h"
#include "service/vm/vm_set.h"

#define PAYLOAD_BYTES 4080u
#define RING_BYTES    (4u << 20)
#define WARM_CHUNKS   3000u
#define CHUNKS        40000u

/* Field 5 of the state, made: merge the packet there. */
static const uint8_t program[] = {0x12, 0x0e, 0x0a, 0x08, 0x08, 0x02, 0x12, 0x02,
                                  0x08, 0x05, 0x18, 0x01, 0x3a, 0x02, 0x1a, 0x00};

static uint8_t payload[PAYLOAD_BYTES];

/* Fills the chunk with packets { 1: 1, 2: filler } and says how many. */
static uint16_t fill_chunk(size_t packet_bytes, size_t *ret_bytes)
{
    static const uint8_t filler[PAYLOAD_BYTES];
    struct pfl_writer w = pfl_writer_of(payload, sizeof(payload));
    uint16_t packets = 0;

    while (w.left >= packet_bytes + 2) {
        size_t head = packet_bytes < 0x80 ? 4 : 5;

        pfl_writer_varint(&w, packet_bytes);
        pfl_writer_field_varint(&w, 1, 1);
        pfl_writer_field_bytes(&w, 2, filler, packet_bytes - head);
        packets++;
    }
    *ret_bytes = sizeof(payload) - w.left;
    return packets;
}

static double cpu_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int run_once(bool has_vm, const struct pfl_trace_buffer_chunk *of, double *ret_ns)
{
    const struct pfl_trace_buffer_conf conf = {.size_bytes = RING_BYTES};
    const struct pfl_vm_set_conf vm = {.source = pfl_span_of("bench", 5),
                                       .program = pfl_span_of(program, sizeof(program)),
                                       .memory_limit_kb = 64,
                                       .producer_id = 1};
    struct pfl_trace_buffer_chunk chunk = *of;
    struct pfl_trace_buffer *buffer;
    double begin = 0;
    int rc = pfl_trace_buffer_new(&conf, &buffer);

    if (rc == 0 && has_vm)
        rc = pfl_trace_buffer_add_vm(buffer, &vm);
    for (uint32_t i = 0; rc == 0 && i < WARM_CHUNKS + CHUNKS; i++) {
        if (i == WARM_CHUNKS)
            begin = cpu_ns();
        chunk.chunk_id = i;
        pfl_trace_buffer_commit(buffer, &chunk);
    }
    if (rc == 0)
        *ret_ns = (cpu_ns() - begin) / CHUNKS;
    if (rc == 0)
        pfl_trace_buffer_free(buffer);
    return rc;
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {30, 100, 1000};
    long runs = argc > 1 ? strtol(argv[1], NULL, 10) : 5;

    printf("%-8s %8s %14s %14s %12s\n", "packet", "a chunk", "without, ns", "with a VM, ns",
           "a packet, ns");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct pfl_trace_buffer_chunk chunk = {
            .producer_id = 1, .writer_id = 1, .is_complete = true, .payload = payload};
        double best[2] = {1e18, 1e18};

        chunk.fragments = fill_chunk(sizes[i], &chunk.payload_bytes);
        for (long run = 0; run < 2 * runs; run++) {
            double ns;

            if (run_once(run % 2 != 0, &chunk, &ns) != 0)
                return 1;
            if (ns < best[run % 2])
                best[run % 2] = ns;
        }
        printf("%-8zu %8u %14.0f %14.0f %12.0f\n", sizes[i], chunk.fragments, best[0], best[1],
               (best[1] - best[0]) / chunk.fragments);
    }
    return 0;
}
