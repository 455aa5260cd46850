/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the service notes in a session's trace: its events and clocks. No failures: without memory
 * something is missing from the trace.
 */
#include "service/session/session_record.h"

#include "perfetto/service_packets.fields.h"

static const enum pfl_clock_id snapshot_clocks[PFL_SESSION_CLOCKS] = {
    PFL_CLOCK_BOOTTIME, PFL_CLOCK_REALTIME_COARSE, PFL_CLOCK_MONOTONIC_COARSE,
    PFL_CLOCK_REALTIME, PFL_CLOCK_MONOTONIC,       PFL_CLOCK_MONOTONIC_RAW,
    PFL_CLOCK_TSC,
};

struct pfl_clock_snapshot pfl_session_read_clocks(const struct pfl_service *service)
{
    struct pfl_clock_snapshot snapshot = {0};

    for (size_t i = 0; i < PFL_SESSION_CLOCKS; i++) {
        uint64_t value = service->conf.now_ns(service->conf.user, snapshot_clocks[i]);

        if (snapshot_clocks[i] == PFL_CLOCK_TSC && value == 0)
            continue;
        snapshot.clocks[snapshot.clocks_len].clock_id = (uint32_t)snapshot_clocks[i];
        snapshot.clocks[snapshot.clocks_len++].value = value;
    }
    return snapshot;
}

void pfl_session_snapshot_clocks(struct pfl_service *service, struct pfl_session *session)
{
    struct pfl_clock_snapshot snapshot;

    if (session->plan->builtin.no_clock_snapshots)
        return;
    snapshot = pfl_session_read_clocks(service);
    pfl_session_events_snapshot(&session->events, &snapshot);
}

void pfl_session_tell_again(struct pfl_service *service, struct pfl_session *session)
{
    session->pending =
        (struct pfl_session_pending){.is_first_pass = true, .sync_marker = true, .stats = true};
    session->infos_sent.len = 0;
    session->clocks_sent.len = 0;
    session->triggers.sent_len = 0;
    if (session->plan->builtin.no_clock_snapshots)
        return;
    /* In order: one that waits in the ring is older, and serves as well. */
    if (session->events.ring_len != 0 || session->events.has_first) {
        pfl_session_snapshot_clocks(service, session);
        return;
    }
    session->events.first = pfl_session_read_clocks(service);
    session->events.has_first = true;
}

void pfl_session_record(struct pfl_service *service, struct pfl_session *session,
                        enum pfl_session_event_kind kind, struct pfl_span payload)
{
    pfl_session_events_record(&session->events, pfl_service_boottime_ns(service), kind, payload);
}

void pfl_session_encode_slow(struct pfl_message *m, const struct pfl_session *session,
                             const struct pfl_instance *instance)
{
    size_t before = m->buf->len;
    size_t entry = pfl_message_begin(m, TRACING_SERVICE_EVENT__DATA_SOURCES__DATA_SOURCE);

    pfl_message_str(m, TRACING_SERVICE_EVENT__DATA_SOURCES__DATA_SOURCE__PRODUCER_NAME,
                    instance->producer_name);
    pfl_message_bytes(m, TRACING_SERVICE_EVENT__DATA_SOURCES__DATA_SOURCE__DATA_SOURCE_NAME,
                      pfl_session_source_of(session, instance)->name);
    pfl_message_end(m, entry);
    if (m->rc != PFL_ELIMIT)
        return;
    m->buf->len = before; /* one with a long name is left out, not all of them */
    m->rc = 0;
}

void pfl_session_record_snapshot(struct pfl_service *service, struct pfl_session *session)
{
    session->pending.sync_marker = true;
    session->pending.stats = true;
    pfl_session_snapshot_clocks(service, session);
}
