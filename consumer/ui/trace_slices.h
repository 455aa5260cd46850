/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace file's bytes as bodies of ReadBuffersResponse: what a service's client gets them as.
 * Packets of any size; nothing of them is kept. Pure.
 */
#ifndef PFL_CONSUMER_UI_TRACE_SLICES_H
#define PFL_CONSUMER_UI_TRACE_SLICES_H

#include "base/buf.h"

/* What a slice has around its data, at most. */
#define PFL_TRACE_SLICES_OVERHEAD 16u

struct pfl_trace_slices {
    uint8_t head[1 + PFL_VARINT_MAX_BYTES]; /* of a packet whose length has not come whole */
    size_t head_len;
    uint64_t left; /* of the packet, while is_inside */
    bool is_inside;
};

/*
 * Takes bytes that follow those taken before, as many as fit into `out`, a body, without passing
 * its maximum, which is more than the overhead. *ret_taken < data.len: the body is full.
 * PFL_EPARSE: this is no trace file; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_trace_slices_take(struct pfl_trace_slices *self, struct pfl_span data,
                                       struct pfl_buf *out, size_t *ret_taken);

#endif
