/* SPDX-License-Identifier: Apache-2.0 */
/* The private part of a trace buffer; for trace_buffer*.c alone. */
#ifndef PFL_SERVICE_TRACE_BUFFER_INNER_H
#define PFL_SERVICE_TRACE_BUFFER_INNER_H

#include "service/buffer/packet_reader.h"
#include "service/buffer/ring_copy.h"
#include "service/vm/vm_set.h"

/* The read position, kept across passes. Offsets are of records, in the order of writing. */
struct pfl_trace_buffer_pass {
    uint64_t number;
    uint32_t at;     /* the current record, or the start of the next one */
    uint32_t unread; /* the first passed record that still holds data */
    bool has_unread;
    bool is_walking;
    bool is_drained; /* nothing is left to read: the next pass starts at the next commit */
    bool has_reader; /* `reader` is in the middle of the record at `at` */
    bool is_woken;   /* a stalled sequence has received what it waited for */
};

struct pfl_trace_buffer {
    struct pfl_trace_ring ring;
    struct pfl_sequence_table sequences;
    struct pfl_trace_buffer_stats stats;
    enum pfl_fill_policy fill_policy;
    bool is_sealed; /* takes no commits: a DISCARD buffer that is full, or a clone */
    struct pfl_trace_buffer_pass pass;
    struct pfl_packet_reader reader;
    struct pfl_slices slices;
    struct pfl_gather gather;   /* of the pass: a long packet */
    struct pfl_vm_set *vms;     /* owned; NULL while there is none */
    struct pfl_ring_copy *copy; /* owned: copies what this clone's ring lacks; NULL: whole */
};

#endif
