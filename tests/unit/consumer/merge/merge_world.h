/* SPDX-License-Identifier: Apache-2.0 */
/* A merge of two hosts into memory, and hand-made packets, for the merge's tests. */
#ifndef PFL_TESTS_CONSUMER_MERGE_WORLD_H
#define PFL_TESTS_CONSUMER_MERGE_WORLD_H

#include "consumer/merge/merge.h"
#include "tests/unit/consumer/trace_bytes.h"

enum {
    TIMESTAMP = 8,
    SEQUENCE = 10,
    TRACE_STATS = 35,
    DROPPED = 42,
    SYSTEM_INFO = 45,
    COMPRESSED = 50,
    SERVICE_EVENT = 69,
    MACHINE = 98,
    REMOTE_CLOCK_SYNC = 107,
    PROVENANCE = 124,
    ATTRIBUTES = 126,
    FOR_TESTING = 900,
};

/* Host b's boot clock is 4 ms ahead of the reference's. */
#define B_HOST_NS      5000000
#define B_REFERENCE_NS 1000000

struct merge_world {
    struct trace_sink sink;
    struct pfl_merge *merge;
    size_t a; /* the reference, "alpha" */
    size_t b; /* "beta" */
};

/* Fails like the merge does; close is legal then too. */
int merge_world_open(struct merge_world *self);
void merge_world_close(struct merge_world *self);
/* One packet in one slice; what pfl_merge_packet says. */
int merge_world_give(struct merge_world *self, size_t host, const void *packet, size_t len);
/* The last packet of the file. */
struct pfl_span merge_world_last(const struct merge_world *self);

/* A packet with a timestamp, a nested message, and the fields a service appends; its length. */
size_t make_packet(uint8_t *out, size_t room, uint32_t sequence, uint32_t machine);
/* packet{ path[0]{ path[1]{ ... value }}} plus the service's sequence id 1; its length. */
size_t make_nested(uint8_t *out, size_t room, const uint32_t *path, uint64_t value);
/* The value at that path. */
uint64_t nested_value(struct pfl_span packet, const uint32_t *path);

#endif
