/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The service's metrics: see figures.h.
 *
 * gather: starts with the sums of sessions that are gone, and adds those of live sessions and of
 * the service itself. Costs a walk over producers and buffers, no allocation. Failures: none.
 */
#include "service/core/figures.h"

#include "service/core/service.h"

static void add_buffer(uint64_t *values, const struct pfl_trace_buffer *buffer, bool is_clone)
{
    struct pfl_trace_buffer_stats s;

    pfl_trace_buffer_stats_get(buffer, &s);
    values[PFL_FIGURE_BYTES_READ] += s.bytes_read;
    if (is_clone) /* the rest it has from its original */
        return;
    values[PFL_FIGURE_BYTES_WRITTEN] += s.bytes_written;
    values[PFL_FIGURE_CHUNKS_WRITTEN] += s.chunks_written;
    values[PFL_FIGURE_LOST_BY_WRITERS] += s.trace_writer_packet_loss;
    values[PFL_FIGURE_MALFORMED_CHUNKS] += s.abi_violations;
    values[PFL_FIGURE_OVERWRITTEN_CHUNKS] += s.chunks_overwritten;
    values[PFL_FIGURE_DISCARDED_CHUNKS] += s.chunks_discarded;
    values[PFL_FIGURE_FAILED_PATCHES] += s.patches_failed;
}

static void add_counters(uint64_t *values, const struct pfl_session *session)
{
    const struct pfl_session_counters *counted = &session->counters;
    const struct pfl_session_counters *inherited = &session->inherited;
    bool is_clone = session->state == PFL_SESSION_CLONED;

    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        if (session->buffers[i].ring != NULL)
            add_buffer(values, session->buffers[i].ring, is_clone);
    }
    values[PFL_FIGURE_INVALID_PACKETS] += counted->invalid_packets - inherited->invalid_packets;
    values[PFL_FIGURE_FLUSHES] += counted->flushes_requested - inherited->flushes_requested;
    values[PFL_FIGURE_FAILED_FLUSHES] += counted->flushes_failed - inherited->flushes_failed;
}

void pfl_figures_keep_session(struct pfl_figures *gone, const struct pfl_session *session)
{
    add_counters(gone->values, session);
}

void pfl_figures_keep_buffer(struct pfl_figures *gone, const struct pfl_trace_buffer *buffer)
{
    add_buffer(gone->values, buffer, false);
}

static void add_fill(uint64_t *values, const struct pfl_session *session)
{
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        const struct pfl_trace_buffer *ring = session->buffers[i].ring;
        bool is_ring = session->plan->buffers[i].fill_policy == PFL_FILL_RING_BUFFER;
        struct pfl_trace_buffer_stats s;

        if (ring == NULL)
            continue;
        pfl_trace_buffer_stats_get(ring, &s);
        values[is_ring ? PFL_FIGURE_RING_BYTES : PFL_FIGURE_DISCARD_BYTES] += s.buffer_size;
        values[is_ring ? PFL_FIGURE_RING_USED_BYTES : PFL_FIGURE_DISCARD_USED_BYTES] +=
            pfl_trace_buffer_get_used_bytes(ring);
    }
}

void pfl_figures_gather(const struct pfl_service *service, struct pfl_figures *ret_figures)
{
    uint64_t *values = ret_figures->values;
    struct pfl_list *it;

    *ret_figures = service->gone;
    values[PFL_FIGURE_PRODUCERS] = service->producers_len;
    values[PFL_FIGURE_PRODUCERS_SEEN] = service->producers_seen;
    values[PFL_FIGURE_DATA_SOURCES] = service->sources_len;
    values[PFL_FIGURE_CONNECTIONS_REFUSED] = service->connections_refused;
    values[PFL_FIGURE_SESSIONS_SEEN] = service->last_session_id;
    values[PFL_FIGURE_BUFFERS] = service->buffers_len;
    values[PFL_FIGURE_CHUNKS_WITHOUT_BUFFER] = service->commits.chunks_discarded;
    values[PFL_FIGURE_PATCHES_WITHOUT_BUFFER] = service->commits.patches_discarded;
    values[PFL_FIGURE_MISMATCHED_ENTRIES] =
        service->commits.entries_skipped + service->commits.chunks_stuck;
    PFL_LIST_EACH (it, &service->consumers)
        values[PFL_FIGURE_CONSUMERS]++;
    PFL_LIST_EACH (it, &service->producers)
        values[PFL_FIGURE_SHARED_MEMORY_BYTES] +=
            PFL_CONTAINER_OF(it, struct pfl_producer, node)->smb.bytes;
    PFL_LIST_EACH (it, &service->leaving)
        values[PFL_FIGURE_SHARED_MEMORY_BYTES] +=
            PFL_CONTAINER_OF(it, struct pfl_producer, node)->smb.bytes;
    PFL_LIST_EACH (it, &service->copying)
        values[PFL_FIGURE_SHARED_MEMORY_BYTES] +=
            PFL_CONTAINER_OF(it, struct pfl_producer, node)->smb.bytes;
    PFL_LIST_EACH (it, &service->closing) {
        const struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        if (session->is_finishing) /* the others are in `gone` */
            add_counters(values, session);
    }
    PFL_LIST_EACH (it, &service->sessions) {
        const struct pfl_session *session = PFL_CONTAINER_OF(it, struct pfl_session, node);

        add_counters(values, session);
        add_fill(values, session);
    }
    if (service->conf.measure != NULL)
        service->conf.measure(service->conf.user, ret_figures);
}

void pfl_figures_encode(struct pfl_message *m, const struct pfl_figures *figures)
{
    for (uint32_t i = 1; i < PFL_FIGURES; i++)
        pfl_message_varint(m, i, figures->values[i]);
}
