/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding of TraceStats: what the service counts, what the session counts, one BufferStats per
 * buffer in index order, then the histograms of the writers, which may be many: those that do not
 * fit any more are left out, the numbers before them never are.
 */
#include "service/control/stats.h"

enum {
    STATS_BUFFER = 1,
    STATS_FILTER = 11,
    STATS_HISTOGRAM_DEF = 17,
    STATS_WRITER = 18,
};

#define WRITER_STATS_MAX_BYTES 256u /* of one writer's entry, at most */

static void encode_buffer(struct pfl_message *m, const struct pfl_trace_buffer_stats *s)
{
    const uint64_t by_field[] = {
        0,
        s->bytes_written,
        s->chunks_written,
        s->chunks_overwritten,
        s->write_wrap_count,
        s->patches_succeeded,
        s->patches_failed,
        s->readaheads_succeeded,
        s->readaheads_failed,
        s->abi_violations,
        s->chunks_rewritten,
        s->chunks_committed_out_of_order,
        s->buffer_size,
        s->bytes_overwritten,
        s->bytes_read,
        s->padding_bytes_written,
        s->padding_bytes_cleared,
        s->chunks_read,
        s->chunks_discarded,
        s->trace_writer_packet_loss,
        s->chunks_relocated,
    };
    size_t entry = pfl_message_begin(m, STATS_BUFFER);

    for (uint32_t field = 1; field < sizeof(by_field) / sizeof(by_field[0]); field++)
        pfl_message_varint(m, field, by_field[field]);
    pfl_message_end(m, entry);
}

struct writers {
    struct pfl_message *m;
    struct pfl_session *session;
    uint32_t buffer;
    size_t max_len;
};

static void encode_writer(void *user, const struct pfl_trace_buffer_source *source)
{
    struct writers *w = user;
    struct pfl_message *m = w->m;
    uint8_t counts[(PFL_USAGE_BOUNDS + 1) * PFL_VARINT_MAX_BYTES];
    uint8_t sums[(PFL_USAGE_BOUNDS + 1) * PFL_VARINT_MAX_BYTES];
    size_t counts_len = 0;
    size_t sums_len = 0;
    uint32_t sequence_id;
    size_t entry;

    if (m->buf->len + WRITER_STATS_MAX_BYTES > w->max_len ||
        pfl_sequence_ids_get(&w->session->sequences, source->producer_id, source->writer_id,
                             &sequence_id) != 0)
        return;
    for (size_t i = 0; i <= PFL_USAGE_BOUNDS; i++) {
        counts_len += pfl_varint_put(counts + counts_len, source->usage.counts[i]);
        sums_len += pfl_varint_put(sums + sums_len, source->usage.sums[i]);
    }
    entry = pfl_message_begin(m, STATS_WRITER);
    pfl_message_varint(m, 1, sequence_id);
    pfl_message_bytes(m, 2, pfl_span_of(counts, counts_len));
    pfl_message_bytes(m, 3, pfl_span_of(sums, sums_len));
    pfl_message_varint(m, 4, w->buffer);
    pfl_message_end(m, entry);
}

static void encode_writers(struct pfl_message *m, struct pfl_session *session, size_t max_len)
{
    struct writers w = {.m = m, .session = session, .max_len = max_len};

    for (size_t i = 0; i < PFL_USAGE_BOUNDS; i++)
        pfl_message_varint(m, STATS_HISTOGRAM_DEF, pfl_trace_buffer_usage_bounds[i]);
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        w.buffer = (uint32_t)i;
        pfl_trace_buffer_each_source(session->buffers[i].ring, encode_writer, &w);
    }
}

static void encode_filter(struct pfl_message *m, const struct pfl_session *session)
{
    const struct pfl_pipeline_stats *s;
    size_t entry;

    if (!session->plan->has_filter || session->output == NULL)
        return;
    s = &session->output->stats;
    entry = pfl_message_begin(m, STATS_FILTER);
    pfl_message_varint(m, 1, s->input_packets);
    pfl_message_varint(m, 2, s->input_bytes);
    pfl_message_varint(m, 3, s->output_bytes);
    pfl_message_varint(m, 4, s->errors);
    pfl_message_varint(m, 5, s->time_ns);
    for (uint32_t i = 0; i < s->discarded_len; i++)
        pfl_message_varint(m, 20, s->discarded_bytes[i]);
    pfl_message_end(m, entry);
}

void pfl_stats_encode(struct pfl_message *m, const struct pfl_service *service,
                      struct pfl_session *session, size_t room_bytes)
{
    const struct pfl_session_counters *c = &session->counters;
    size_t max_len = m->buf->len + room_bytes;

    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        struct pfl_trace_buffer_stats stats;

        pfl_trace_buffer_stats_get(session->buffers[i].ring, &stats);
        encode_buffer(m, &stats);
    }
    pfl_message_varint(m, 2, service->producers_len);
    pfl_message_varint(m, 3, service->last_producer_id);
    pfl_message_varint(m, 4, service->sources_len);
    pfl_message_varint(m, 5, service->last_instance_id);
    pfl_message_varint(m, 6, service->sessions_len);
    pfl_message_varint(m, 7, service->buffers_len);
    pfl_message_varint(m, 8, service->commits.chunks_discarded);
    pfl_message_varint(m, 9, service->commits.patches_discarded);
    pfl_message_varint(m, 10, c->invalid_packets);
    encode_filter(m, session);
    pfl_message_varint(m, 12, c->flushes_requested);
    pfl_message_varint(m, 13, c->flushes_succeeded);
    pfl_message_varint(m, 14, c->flushes_failed);
    pfl_message_varint(m, 15, c->final_flush_outcome);
    if (!session->plan->builtin.no_histograms)
        encode_writers(m, session, max_len);
}
