/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits the bytes of one host in one read-out. A host is not trusted with the operator's disk: a
 * stream that compresses well, or a short run of packets, can expand to any number of bytes. The
 * size of its buffers bounds what an honest service sends, so a host that sends more is faulty.
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
/* A field of one byte, and the packet's length. */
#define PFL_READ_PACKET_MIN_BYTES 3u
/* The config, statistics of all writers, clocks, extension descriptors, state of VMs (60 MiB). */
#define PFL_READ_SERVICE_MAX_BYTES (96ull << 20)
/* For a session whose config only the host knows, unless the operator gives a limit. */
#define PFL_READ_UNKNOWN_MAX_BYTES (4ull << 30)

struct pfl_read_budget {
    uint64_t ring_left;  /* of the buffers, as stored there */
    uint64_t bytes_left; /* as received */
};

/* For a session with that serialized TraceConfig. A malformed one counts up to the error: a service
 * refuses it. */
struct pfl_read_budget pfl_read_budget_of_config(struct pfl_span trace_config);
/* For buffers of that total size. */
struct pfl_read_budget pfl_read_budget_of_buffers(uint64_t buffer_bytes);
/* A fixed number of bytes; 0: no limit. */
struct pfl_read_budget pfl_read_budget_of_limit(uint64_t max_bytes);
/* Adds bytes, independent of packets. */
struct pfl_read_budget pfl_read_budget_and(const struct pfl_read_budget *self, uint64_t bytes);
/* Charges `packets` packets of `bytes` in all; false: the budget is exceeded. */
bool pfl_read_budget_take(struct pfl_read_budget *self, uint64_t packets, uint64_t bytes);

#endif
