/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the consumer's tests: building packets, a sink in memory, replies of a capture. */
#ifndef PFL_TESTS_CONSUMER_TRACE_BYTES_H
#define PFL_TESTS_CONSUMER_TRACE_BYTES_H

#include "base/buf.h"
#include "consumer/merge/merge.h"

/* A merge's sink that keeps everything. */
struct trace_sink {
    struct pfl_buf file;
    struct pfl_buf room;
    int answer; /* of reserve; 0 = room */
};

void trace_sink_init(struct trace_sink *self, struct pfl_merge_sink *ret_sink);
void trace_sink_fini(struct trace_sink *self);
/* The n-th packet of the file; the test fails when there is none. */
struct pfl_span trace_packet(const struct trace_sink *self, size_t n);
size_t trace_packets(const struct trace_sink *self);

/* The last field `id` of a message; false when it has none. */
bool find_field(struct pfl_span message, uint32_t id, struct pfl_field *ret_field);
/* As a number; 0 when it is not there. */
uint64_t field_value(struct pfl_span message, uint32_t id);
/* The payload of a nested message; the test fails when it is not there. */
struct pfl_span field_bytes(struct pfl_span message, uint32_t id);
bool has_field(struct pfl_span message, uint32_t id);

/* Calls `each` for every body of the ReadBuffers replies of a capture. */
void each_read_reply(const char *capture, void (*each)(void *user, struct pfl_span body),
                     void *user);

#endif
