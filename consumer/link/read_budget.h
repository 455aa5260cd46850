/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much one host may bring in one read-out. A host is not trusted with the operator's disk: a
 * stream that compresses well, or a short run of packets, can stand for any number of bytes. What
 * an honest service can bring follows from the size of its buffers, so more than that is a lie.
 * Pure.
 *
 *     a packet in the ring      its bytes, and at least one for its length
 *     the same when it is read  and up to PFL_READ_TRUSTED_MAX_BYTES that the service adds
 *     besides                   what the service makes itself: PFL_READ_SERVICE_MAX_BYTES
 */
#ifndef PFL_CONSUMER_READ_BUDGET_H
#define PFL_CONSUMER_READ_BUDGET_H

#include "base/bytes.h"

/* The trusted fields, each as long as it may be: uid 6, sequence 6, pid 7, machine 7, two flags 6.
 */
#define PFL_READ_TRUSTED_MAX_BYTES 32u
/* A field of one byte, and the packet's length before it. */
#define PFL_READ_PACKET_MIN_BYTES 3u
/* The config, statistics of all writers, clocks, extension descriptors, state of VMs (60 MiB). */
#define PFL_READ_SERVICE_MAX_BYTES (96ull << 20)
/* Of a session whose config is the host's word, unless the operator gives a limit. */
#define PFL_READ_UNKNOWN_MAX_BYTES (4ull << 30)

struct pfl_read_budget {
    uint64_t ring_left;  /* of the buffers, as the packets stood there */
    uint64_t bytes_left; /* as they come */
};

/* Of a session with that serialized TraceConfig. Malformed ones count as far as they can be read: a
 * service refuses them. */
struct pfl_read_budget pfl_read_budget_of_config(struct pfl_span trace_config);
/* Of buffers of that size in sum. */
struct pfl_read_budget pfl_read_budget_of_buffers(uint64_t buffer_bytes);
/* So many bytes, whatever the packets; 0: no limit. */
struct pfl_read_budget pfl_read_budget_of_limit(uint64_t max_bytes);
/* So much more, whatever the packets. */
struct pfl_read_budget pfl_read_budget_and(const struct pfl_read_budget *self, uint64_t bytes);
/* Takes so many packets of so many bytes in sum; false: they are more than is left. */
bool pfl_read_budget_take(struct pfl_read_budget *self, uint64_t packets, uint64_t bytes);

#endif
