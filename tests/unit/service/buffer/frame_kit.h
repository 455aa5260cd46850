/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the frames of a read-back apart again, as a consumer does. */
#ifndef PFL_TESTS_SERVICE_FRAME_KIT_H
#define PFL_TESTS_SERVICE_FRAME_KIT_H

#include "base/buf.h"
#include "service/buffer/readback.h"

/* Packets in order: u32 length and bytes each. */
struct kit_trace {
    struct pfl_buf packets;
    struct pfl_buf partial; /* slices of a packet that continues */
    size_t packets_len;
    size_t slices;
    size_t runs;
    size_t run_packets;
    size_t run_times; /* of them, those whose time stands apart */
    size_t frames;
    size_t longest_body;
};

void kit_trace_init(struct kit_trace *self);
void kit_trace_fini(struct kit_trace *self);
/* Checks the frame against every limit and adds its slices, and what its runs stand for. */
void kit_trace_feed(struct kit_trace *self, const struct pfl_readback_frame *frame,
                    uint64_t request_id);
/* Feeds all frames up to the last. */
void kit_trace_drain(struct kit_trace *self, struct pfl_readback *readback, uint64_t request_id);
/* Takes the first packet; empty when there is none. Borrowed until the next take or feed. */
struct pfl_span kit_trace_take(struct kit_trace *self);

#endif
