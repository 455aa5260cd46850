/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes TraceStats: the service's counters, the session's counters, one BufferStats per buffer in
 * index order, then the histograms of the writers. These may be many: those that do not fit are
 * left out, the numbers before them never are.
 */
#include "service/session/stats.h"

#include "perfetto/trace_stats.fields.h"
#include "service/session/session_sequences.h"

#define WRITER_STATS_MAX_BYTES 256u /* of one writer's entry, at most */

static void encode_buffer(struct pfl_message *m, const struct pfl_trace_buffer_stats *s)
{
    const uint64_t by_field[] = {
        [TRACE_STATS__BUFFER_STATS__BYTES_WRITTEN] = s->bytes_written,
        [TRACE_STATS__BUFFER_STATS__CHUNKS_WRITTEN] = s->chunks_written,
        [TRACE_STATS__BUFFER_STATS__CHUNKS_OVERWRITTEN] = s->chunks_overwritten,
        [TRACE_STATS__BUFFER_STATS__WRITE_WRAP_COUNT] = s->write_wrap_count,
        [TRACE_STATS__BUFFER_STATS__PATCHES_SUCCEEDED] = s->patches_succeeded,
        [TRACE_STATS__BUFFER_STATS__PATCHES_FAILED] = s->patches_failed,
        [TRACE_STATS__BUFFER_STATS__READAHEADS_SUCCEEDED] = s->readaheads_succeeded,
        [TRACE_STATS__BUFFER_STATS__READAHEADS_FAILED] = s->readaheads_failed,
        [TRACE_STATS__BUFFER_STATS__ABI_VIOLATIONS] = s->abi_violations,
        [TRACE_STATS__BUFFER_STATS__CHUNKS_REWRITTEN] = s->chunks_rewritten,
        [TRACE_STATS__BUFFER_STATS__CHUNKS_COMMITTED_OUT_OF_ORDER] =
            s->chunks_committed_out_of_order,
        [TRACE_STATS__BUFFER_STATS__BUFFER_SIZE] = s->buffer_size,
        [TRACE_STATS__BUFFER_STATS__BYTES_OVERWRITTEN] = s->bytes_overwritten,
        [TRACE_STATS__BUFFER_STATS__BYTES_READ] = s->bytes_read,
        [TRACE_STATS__BUFFER_STATS__PADDING_BYTES_WRITTEN] = s->padding_bytes_written,
        [TRACE_STATS__BUFFER_STATS__PADDING_BYTES_CLEARED] = s->padding_bytes_cleared,
        [TRACE_STATS__BUFFER_STATS__CHUNKS_READ] = s->chunks_read,
        [TRACE_STATS__BUFFER_STATS__CHUNKS_DISCARDED] = s->chunks_discarded,
        [TRACE_STATS__BUFFER_STATS__TRACE_WRITER_PACKET_LOSS] = s->trace_writer_packet_loss,
        [TRACE_STATS__BUFFER_STATS__CHUNKS_RELOCATED] = s->chunks_relocated,
    };
    size_t entry = pfl_message_begin(m, TRACE_STATS__BUFFER_STATS);

    for (uint32_t field = 1; field < sizeof(by_field) / sizeof(by_field[0]); field++)
        pfl_message_varint(m, field, by_field[field]);
    pfl_message_end(m, entry);
}

uint64_t pfl_stats_count_losses(const struct pfl_session *session)
{
    uint64_t losses = session->counters.invalid_packets;

    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        struct pfl_trace_buffer_stats s;

        pfl_trace_buffer_stats_get(session->buffers[i].ring, &s);
        losses += s.chunks_overwritten + s.chunks_discarded + s.patches_failed + s.abi_violations +
                  s.trace_writer_packet_loss;
    }
    return losses;
}

struct writers {
    struct pfl_message *m;
    const struct pfl_service *service;
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
        pfl_session_sequences_get(w->service, w->session, source, &sequence_id) != 0)
        return;
    for (size_t i = 0; i <= PFL_USAGE_BOUNDS; i++) {
        counts_len += pfl_varint_put(counts + counts_len, source->usage.counts[i]);
        sums_len += pfl_varint_put(sums + sums_len, source->usage.sums[i]);
    }
    entry = pfl_message_begin(m, TRACE_STATS__WRITER_STATS);
    pfl_message_varint(m, TRACE_STATS__WRITER_STATS__SEQUENCE_ID, sequence_id);
    pfl_message_bytes(m, TRACE_STATS__WRITER_STATS__CHUNK_PAYLOAD_HISTOGRAM_COUNTS,
                      pfl_span_of(counts, counts_len));
    pfl_message_bytes(m, TRACE_STATS__WRITER_STATS__CHUNK_PAYLOAD_HISTOGRAM_SUM,
                      pfl_span_of(sums, sums_len));
    pfl_message_varint(m, TRACE_STATS__WRITER_STATS__BUFFER, w->buffer);
    pfl_message_end(m, entry);
}

static void encode_writers(struct pfl_message *m, const struct pfl_service *service,
                           struct pfl_session *session, size_t max_len)
{
    struct writers w = {.m = m, .service = service, .session = session, .max_len = max_len};

    for (size_t i = 0; i < PFL_USAGE_BOUNDS; i++)
        pfl_message_varint(m, TRACE_STATS__CHUNK_PAYLOAD_HISTOGRAM_DEF,
                           pfl_trace_buffer_usage_bounds[i]);
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
    entry = pfl_message_begin(m, TRACE_STATS__FILTER_STATS);
    pfl_message_varint(m, TRACE_STATS__FILTER_STATS__INPUT_PACKETS, s->input_packets);
    pfl_message_varint(m, TRACE_STATS__FILTER_STATS__INPUT_BYTES, s->input_bytes);
    pfl_message_varint(m, TRACE_STATS__FILTER_STATS__OUTPUT_BYTES, s->output_bytes);
    pfl_message_varint(m, TRACE_STATS__FILTER_STATS__ERRORS, s->errors);
    pfl_message_varint(m, TRACE_STATS__FILTER_STATS__TIME_TAKEN_NS, s->time_ns);
    for (uint32_t i = 0; i < s->discarded_len; i++)
        pfl_message_varint(m, TRACE_STATS__FILTER_STATS__BYTES_DISCARDED_PER_BUFFER,
                           s->discarded_bytes[i]);
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
    pfl_message_varint(m, TRACE_STATS__PRODUCERS_CONNECTED, service->producers_len);
    pfl_message_varint(m, TRACE_STATS__PRODUCERS_SEEN, service->last_producer_id);
    pfl_message_varint(m, TRACE_STATS__DATA_SOURCES_REGISTERED, service->sources_len);
    pfl_message_varint(m, TRACE_STATS__DATA_SOURCES_SEEN, service->last_instance_id);
    pfl_message_varint(m, TRACE_STATS__TRACING_SESSIONS, service->sessions_len);
    pfl_message_varint(m, TRACE_STATS__TOTAL_BUFFERS, service->buffers_len);
    pfl_message_varint(m, TRACE_STATS__CHUNKS_DISCARDED, service->commits.chunks_discarded);
    pfl_message_varint(m, TRACE_STATS__PATCHES_DISCARDED, service->commits.patches_discarded);
    pfl_message_varint(m, TRACE_STATS__INVALID_PACKETS, c->invalid_packets);
    encode_filter(m, session);
    pfl_message_varint(m, TRACE_STATS__FLUSHES_REQUESTED, c->flushes_requested);
    pfl_message_varint(m, TRACE_STATS__FLUSHES_SUCCEEDED, c->flushes_succeeded);
    pfl_message_varint(m, TRACE_STATS__FLUSHES_FAILED, c->flushes_failed);
    pfl_message_varint(m, TRACE_STATS__FINAL_FLUSH_OUTCOME, c->final_flush_outcome);
    if (!session->plan->builtin.no_histograms)
        encode_writers(m, service, session, max_len);
}
