/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a trace file into ReadBuffersResponse bodies, as a service would send it. Packets of any
 * size; does not keep their bytes. Pure.
 */
#ifndef PFL_CONSUMER_UI_TRACE_SLICES_H
#define PFL_CONSUMER_UI_TRACE_SLICES_H

#include "base/buf.h"

/* Maximal overhead of a slice. */
#define PFL_TRACE_SLICES_OVERHEAD 16u

struct pfl_trace_slices {
    uint8_t head[1 + PFL_VARINT_MAX_BYTES]; /* of a packet whose length is incomplete */
    size_t head_len;
    uint64_t left; /* of the packet, while is_inside */
    bool is_inside;
};

/*
 * Takes the next bytes of the file, as many as fit into `out`, a body, whose maximum is more than
 * the overhead. *ret_taken < data.len: the body is full. PFL_EPARSE: not a trace file; PFL_ENOMEM.
 */
PFL_MUST_USE int pfl_trace_slices_take(struct pfl_trace_slices *self, struct pfl_span data,
                                       struct pfl_buf *out, size_t *ret_taken);

#endif
