/* SPDX-License-Identifier: Apache-2.0 */
/* Notes the counters of a trace buffer. */
#ifndef PFL_TESTS_FUZZ_BUFFER_STATS_H
#define PFL_TESTS_FUZZ_BUFFER_STATS_H

#include "service/buffer/trace_buffer.h"
#include "tests/support/fuzz_note.h"

static inline void note_buffer_stats(const struct pfl_trace_buffer *buffer)
{
    struct pfl_trace_buffer_stats s;

    pfl_trace_buffer_stats_get(buffer, &s);
#define STAT(name) note(#name " %llu", (unsigned long long)s.name)
    STAT(bytes_written);
    STAT(bytes_overwritten);
    STAT(bytes_read);
    STAT(padding_bytes_written);
    STAT(padding_bytes_cleared);
    STAT(chunks_written);
    STAT(chunks_rewritten);
    STAT(chunks_relocated);
    STAT(chunks_overwritten);
    STAT(chunks_discarded);
    STAT(chunks_read);
    STAT(chunks_committed_out_of_order);
    STAT(write_wrap_count);
    STAT(patches_succeeded);
    STAT(patches_failed);
    STAT(readaheads_succeeded);
    STAT(readaheads_failed);
    STAT(abi_violations);
    STAT(trace_writer_packet_loss);
#undef STAT
    note("used %llu", (unsigned long long)pfl_trace_buffer_get_used_bytes(buffer));
}

#endif
