/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a consumer reads (docs/abi/service.md section 7).
 *
 * start renders the service's packets that are due in the documented order: clock snapshots,
 * synchronization marker, config, uuid, provenance, system info, events, VMs. The readback sends
 * these, then the buffers, and asks for the rest when all is drained: the event that says so,
 * statistics. The session forgets what was rendered: each is sent once, or once per snapshot
 * period.
 *
 * In a session that filters or compresses, packets go through its pipeline in batches. While the
 * worker has a batch, the results of the previous one are sent; memory is bounded by READ_AHEAD and
 * a batch. For frames a batch is filled in steps, and others are served in between. The statistics
 * follow alone, unfiltered, when the filter has counted everything.
 *
 * Failure: PFL_ENOMEM at the start; then the next read sends it all. Limit: the rendered packets,
 * PACKETS_MAX_BYTES.
 */
#include "service/session/session_read.h"

#include "base/log.h"
#include "perfetto/service_packets.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "proto/packet.h"
#include "service/session/session_file.h"
#include "service/session/session_record.h"
#include "service/session/session_sequences.h"
#include "service/session/session_vms.h"
#include "service/session/stats.h"
#include "service/session/trigger_state.h"

#define PACKETS_MAX_BYTES (8u << 20)
#define STATS_ROOM_BYTES  (2u << 20)    /* of writers, some 45,000 */
#define PROVENANCE_MAX    (512u * 1024) /* bytes, likewise */
#define READ_AHEAD_BYTES  (512u * 1024)
#define FILL_STEP_BYTES   (64u * 1024)

static void encode_clocks(struct pfl_message *m, const struct pfl_service *service,
                          const struct pfl_session *session)
{
    const struct pfl_session_events *events = &session->events;
    uint32_t primary = session->plan->builtin.primary_clock;

    if (events->has_first)
        pfl_service_packet_clocks(m, service->conf.facts, &events->first, primary);
    for (size_t i = 0; i < events->ring_len; i++)
        pfl_service_packet_clocks(m, service->conf.facts, &events->ring[i], primary);
}

struct provenance {
    struct pfl_message *m;
    const struct pfl_service *service;
    struct pfl_session *session;
    size_t max_len;
};

static void encode_sequence(void *user, const struct pfl_trace_buffer_source *source)
{
    struct provenance *p = user;
    uint32_t sequence_id;
    size_t mark;

    if (p->m->buf->len > p->max_len ||
        pfl_session_sequences_get(p->service, p->session, source, &sequence_id) != 0)
        return;
    mark = pfl_message_begin(p->m, TRACE_PROVENANCE__BUFFER__SEQUENCES);
    pfl_message_varint(p->m, TRACE_PROVENANCE__SEQUENCE__ID, sequence_id);
    pfl_message_varint(p->m, TRACE_PROVENANCE__SEQUENCE__PRODUCER_ID, source->producer_id);
    pfl_message_end(p->m, mark);
}

static void encode_provenance(struct pfl_message *m, const struct pfl_service *service,
                              struct pfl_session *session)
{
    struct provenance p = {
        .m = m,
        .service = service,
        .session = session,
        .max_len = m->buf->len + PROVENANCE_MAX,
    };
    size_t packet = pfl_service_packet_begin(m, service->conf.facts);
    size_t content;

    pfl_message_varint(m, TRACE_PACKET__TIMESTAMP, pfl_service_boottime_ns(service));
    content = pfl_message_begin(m, TRACE_PACKET__TRACE_PROVENANCE);
    for (size_t i = 0; i < session->plan->buffers_len; i++) {
        size_t buffer = pfl_message_begin(m, TRACE_PROVENANCE__BUFFERS);

        pfl_trace_buffer_each_source(session->buffers[i].ring, encode_sequence, &p);
        pfl_message_end(m, buffer);
    }
    pfl_message_end(m, content);
    pfl_service_packet_end(m, packet);
}

static void encode_events(struct pfl_message *m, const struct pfl_service *service,
                          const struct pfl_session *session)
{
    const struct pfl_session_events *events = &session->events;

    for (size_t i = 0; i < events->events_len && !session->plan->builtin.no_service_events; i++)
        pfl_service_packet_event(m, service->conf.facts, &events->events[i]);
}

static void encode_first_pass(struct pfl_message *m, struct pfl_service *service,
                              struct pfl_session *session)
{
    pfl_service_packet_uuid(m, service->conf.facts, &session->uuid);
    encode_provenance(m, service, session);
    if (!session->plan->builtin.no_system_info)
        pfl_service_packet_system_info(m, service->conf.facts);
}

static int push_packets(struct pfl_readback *readback, struct pfl_span packets)
{
    struct pfl_reader r = pfl_reader_of(packets);
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        rc = pfl_readback_push(readback, f.bytes);
    return rc;
}

/* Machines without a packet so far: step 4, if they are known at the first pass. */
static void encode_remote_infos(struct pfl_message *m, const struct pfl_service *service,
                                struct pfl_session *session)
{
    if (!session->plan->builtin.no_system_info)
        pfl_remote_machines_encode_infos(&service->relays, m, service->conf.facts,
                                         &session->infos_sent);
}

static void encode_remote_clocks(struct pfl_message *m, const struct pfl_service *service,
                                 struct pfl_session *session)
{
    if (!session->plan->builtin.no_clock_snapshots)
        pfl_remote_machines_encode_clocks(&service->relays, m, service->conf.facts,
                                          &session->clocks_sent);
}

/* Programs and states of VMs, which may be long: in memory of their own. */
static int push_vms(const struct pfl_session_read *self)
{
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);

    pfl_buf_init(&buf, PFL_SESSION_VMS_MAX_BYTES + 1024u);
    pfl_session_vms_encode(&m, self->service, self->session);
    if (m.rc == 0)
        m.rc =
            push_packets(self->source != NULL ? self->source : self->readback, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    return m.rc;
}

/* 1 to 8 of the documented order. */
static int push_head(struct pfl_session_read *self)
{
    struct pfl_service *service = self->service;
    struct pfl_session *session = self->session;
    const struct pfl_plan_builtin *builtin = &session->plan->builtin;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    size_t infos_sent = session->infos_sent.len;
    size_t clocks_sent = session->clocks_sent.len;

    pfl_buf_init(&buf, PACKETS_MAX_BYTES);
    encode_clocks(&m, service, session);
    if (session->pending.sync_marker)
        pfl_service_packet_sync_marker(&m, service->conf.facts);
    if (session->pending.is_first_pass && !builtin->no_trace_config)
        pfl_service_packet_config(&m, service->conf.facts,
                                  pfl_session_plan_get_config(session->plan));
    if (session->pending.is_first_pass && !builtin->no_trace_config &&
        session->clone_trigger != NULL)
        pfl_message_raw(&m, pfl_span_of(session->clone_trigger, session->clone_trigger_len));
    if (!builtin->no_trace_config)
        pfl_trigger_encode(&m, service->conf.facts, session);
    if (session->pending.is_first_pass)
        encode_first_pass(&m, service, session);
    encode_remote_infos(&m, service, session);
    encode_events(&m, service, session);
    pfl_message_raw(&m, pfl_buf_get(&session->concurrent.packets));
    encode_remote_clocks(&m, service, session);
    if (m.rc == 0)
        m.rc =
            push_packets(self->source != NULL ? self->source : self->readback, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    if (m.rc == 0 && session->pending.is_first_pass)
        m.rc = push_vms(self);
    if (m.rc != 0) {
        session->infos_sent.len = infos_sent;
        session->clocks_sent.len = clocks_sent;
        return m.rc;
    }
    session->pending.is_first_pass = false;
    session->pending.sync_marker = false;
    pfl_trigger_set_sent(session);
    pfl_session_events_clear(&session->events);
    pfl_concurrent_clear(&session->concurrent);
    pfl_session_events_clear_snapshots(&session->events);
    return 0;
}

static void tell_of_no_id(struct pfl_session *session, const struct pfl_trace_buffer_source *source)
{
    if (session->has_told_of_no_id)
        return;
    session->has_told_of_no_id = true;
    pfl_log_warn("sequence-without-id",
                 "session=%llu uid=%u remedy=\"this user's producers have too many writers; their "
                 "packets are dropped and counted as invalid\"",
                 (unsigned long long)session->id, source->producer_uid);
}

static void on_new_source(void *user, struct pfl_trace_buffer_source *source)
{
    struct pfl_session_read *self = user;
    struct pfl_packet_trusted trusted = {
        .uid = source->producer_uid,
        .pid = source->producer_pid,
        .machine_id = source->machine_id,
    };
    uint32_t sequence_id;

    if (pfl_session_sequences_get(self->service, self->session, source, &sequence_id) != 0) {
        tell_of_no_id(self->session, source);
        return;
    }
    trusted.sequence_id = sequence_id;
    source->packet_sequence_id = sequence_id;
    source->trusted_len = (uint8_t)pfl_packet_encode_trusted(source->trusted, &trusted);
}

static void encode_stats(struct pfl_message *m, const struct pfl_service *service,
                         struct pfl_session *session)
{
    size_t packet = pfl_service_packet_begin(m, service->conf.facts);
    size_t content = pfl_message_begin(m, TRACE_PACKET__TRACE_STATS);

    pfl_stats_encode(m, service, session, STATS_ROOM_BYTES);
    pfl_message_end(m, content);
    pfl_service_packet_end(m, packet);
}

/* 10 and 11 of the documented order; behind a pipeline the statistics come later. */
static void on_drained(void *user, struct pfl_readback *readback)
{
    struct pfl_session_read *self = user;
    struct pfl_service *service = self->service;
    struct pfl_session *session = self->session;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    bool has_stats = session->pending.stats && session->output == NULL;

    session->counters.invalid_packets += pfl_readback_take_invalid_packets(readback);
    pfl_buf_init(&buf, PACKETS_MAX_BYTES);
    pfl_session_record(service, session, PFL_EVENT_READ_COMPLETED, (struct pfl_span){0});
    encode_events(&m, service, session);
    if (has_stats)
        encode_stats(&m, service, session);
    if (m.rc == 0)
        m.rc = push_packets(readback, pfl_buf_get(&buf));
    pfl_buf_fini(&buf);
    if (m.rc != 0) {
        pfl_log_warn("last-packets-lost", "session=%llu reason=\"%s\"",
                     (unsigned long long)session->id, pfl_err_str(m.rc));
        return;
    }
    pfl_session_events_clear(&session->events);
    if (has_stats)
        session->pending.stats = false;
}

/* ---- through the pipeline ---- */

static bool is_for_file(const struct pfl_session_read *self)
{
    return self->session->file != NULL && self == &self->session->file->read;
}

static void on_back(void *user)
{
    const struct pfl_session_read *self = user;
    const struct pfl_consumer *consumer = self->session->consumer;

    if (self->on_ready != NULL)
        self->on_ready(self->user);
    else if (consumer->ops->on_read_ready != NULL)
        consumer->ops->on_read_ready(consumer->port);
}

/* A file with segments needs whole packets to sort them. */
static size_t get_part_bytes(const struct pfl_session_read *self)
{
    bool is_cut = is_for_file(self) && self->session->file->rotation != NULL;

    return is_cut ? SIZE_MAX : PFL_READBACK_PART_BYTES;
}

/* The next result, or a part of a long one. A malformed packet becomes an empty one in a file, and
 * nothing for a reader on a socket. */
static int take_result(struct pfl_session_read *self)
{
    struct pfl_span *result = &self->result;
    size_t part = get_part_bytes(self);
    int rc;

    if (result->len == 0 && !pfl_pipeline_next(self->session->output->pipeline, result)) {
        self->has_results = false;
        return 0;
    }
    if (result->len == 0)
        return result->data != NULL || is_for_file(self) ? pfl_readback_push_empty(self->readback)
                                                         : 0;
    part = result->len < part ? result->len : part;
    rc =
        pfl_readback_push_part(self->readback, pfl_span_of(result->data, part), result->len - part);
    *result = pfl_span_of(result->data + part, result->len - part);
    return rc;
}

/* Takes results up to the read-ahead limit; has_results says whether more are left. */
static int take_results(struct pfl_session_read *self)
{
    int rc = 0;

    while (rc == 0 && self->has_results &&
           pfl_readback_get_pending_bytes(self->readback) < READ_AHEAD_BYTES)
        rc = take_result(self);
    return rc;
}

/* A packet, or a part of one. */
static int add_packet(struct pfl_session_read *self, const struct pfl_readback_packet *packet)
{
    struct pfl_pipeline *pipeline = self->session->output->pipeline;
    int rc = 0;

    if (!pfl_pipeline_is_in_packet(pipeline)) {
        if (self->on_packet != NULL)
            self->on_packet(self->user, packet);
        if (packet->more == 0)
            return pfl_pipeline_add(pipeline, packet->slices, packet->slices_len, packet->tail,
                                    packet->buffer);
        rc = pfl_pipeline_begin_packet(pipeline, packet->bytes + packet->more, packet->buffer);
    }
    if (rc == 0)
        pfl_pipeline_add_part(pipeline, packet->tail); /* all bytes of a part are in its tail */
    return rc;
}

/* Fills the batch by a step; the source's end is the end of this phase. */
static int fill_batch(struct pfl_session_read *self)
{
    struct pfl_pipeline *pipeline = self->session->output->pipeline;
    struct pfl_readback_packet packet;
    size_t filled = 0;
    int rc = 0;

    while (rc == 0 && !pfl_pipeline_is_full(pipeline) && filled < FILL_STEP_BYTES) {
        rc = pfl_readback_next_packet(self->source, &packet);
        if (rc == PFL_EEOF)
            self->phase = PFL_READ_STATISTICS;
        if (rc == PFL_EEOF || rc == PFL_EAGAIN) /* or it is paused */
            return 0;
        if (rc == 0)
            rc = add_packet(self, &packet);
        filled += packet.bytes;
    }
    return rc;
}

static int add_stats(struct pfl_session_read *self)
{
    struct pfl_session *session = self->session;
    struct pfl_buf buf;
    struct pfl_message m = pfl_message_of(&buf);
    struct pfl_reader r;
    struct pfl_field f;

    self->phase = PFL_READ_END;
    if (!session->pending.stats)
        return 0;
    pfl_buf_init(&buf, PACKETS_MAX_BYTES);
    encode_stats(&m, self->service, session);
    r = pfl_reader_of(pfl_buf_get(&buf));
    if (m.rc == 0 && pfl_reader_field(&r, &f))
        m.rc = pfl_pipeline_add(session->output->pipeline, NULL, 0, f.bytes, PFL_PIPELINE_RAW);
    pfl_buf_fini(&buf);
    session->pending.stats = m.rc != 0;
    return m.rc;
}

/* Results of the batch that is back, then a step of the next batch; the pipeline is idle. */
static int turn_pipeline(struct pfl_session_read *self)
{
    struct pfl_pipeline_job *job = self->session->output;
    int rc = take_results(self);

    if (rc != 0 || self->has_results)
        return rc;
    if (self->phase == PFL_READ_PACKETS)
        rc = fill_batch(self);
    else if (self->phase == PFL_READ_STATISTICS)
        rc = add_stats(self);
    if (rc != 0 || (self->phase == PFL_READ_PACKETS && !pfl_pipeline_is_full(job->pipeline)))
        return rc;
    if (!pfl_pipeline_is_empty(job->pipeline)) {
        self->has_results = true;
        return pfl_pipeline_job_start(job);
    }
    if (self->phase == PFL_READ_END)
        pfl_readback_hold(self->readback, false);
    return 0;
}

bool pfl_session_read_can_proceed(const struct pfl_session_read *self)
{
    return self->source != NULL && !self->session->output->is_running &&
           pfl_readback_is_held(self->readback) &&
           pfl_readback_get_pending_bytes(self->readback) < READ_AHEAD_BYTES;
}

bool pfl_session_read_is_paused(const struct pfl_session_read *self)
{
    return pfl_readback_is_paused(self->source != NULL ? self->source : self->readback);
}

int pfl_session_read_next_frame(struct pfl_session_read *self, struct pfl_readback_frame *ret_frame)
{
    int rc = pfl_session_read_can_proceed(self) ? turn_pipeline(self) : 0;

    return rc != 0 ? rc : pfl_readback_next_frame(self->readback, ret_frame);
}

int pfl_session_read_next_packet(struct pfl_session_read *self,
                                 struct pfl_readback_packet *ret_packet)
{
    int rc = 0;

    while (rc == 0 && pfl_session_read_can_proceed(self)) {
        rc = turn_pipeline(self);
        if (pfl_session_read_is_paused(self))
            break;
    }
    return rc != 0 ? rc : pfl_readback_next_packet(self->readback, ret_packet);
}

/* The readback becomes the source, a held one takes its place. */
static int put_pipeline_between(struct pfl_session_read *self, uint64_t request_id)
{
    const struct pfl_readback_conf conf = {.request_id = request_id};

    self->source = self->readback;
    self->readback = NULL;
    if (pfl_readback_new(&conf, &self->readback) != 0)
        return PFL_ENOMEM;
    pfl_readback_hold(self->readback, true);
    self->has_results = true; /* maybe of the reader before this one */
    self->session->output->on_back = on_back;
    self->session->output->user = self;
    return 0;
}

int pfl_session_read_start(struct pfl_session_read *self, struct pfl_service *service,
                           struct pfl_session *session, uint64_t request_id)
{
    struct pfl_trace_buffer *buffers[PFL_PLAN_MAX_BUFFERS];
    const struct pfl_readback_conf conf = {
        .request_id = request_id,
        .buffers = buffers,
        .buffers_len = session->plan->buffers_len,
        .on_new_source = on_new_source,
        .on_drained = on_drained,
        .user = self,
    };
    int rc;

    for (size_t i = 0; i < session->plan->buffers_len; i++)
        buffers[i] = session->buffers[i].ring;
    self->service = service;
    self->session = session;
    rc = pfl_readback_new(&conf, &self->readback);
    if (rc != 0) {
        self->readback = NULL;
        return rc;
    }
    if (session->output != NULL)
        rc = put_pipeline_between(self, request_id);
    if (rc == 0)
        rc = push_head(self);
    if (rc != 0)
        pfl_session_read_stop(self);
    return rc;
}

static void end_pipeline(struct pfl_pipeline_job *job)
{
    pfl_pipeline_job_abandon(job);
    if (!job->is_running)
        pfl_pipeline_drop_packet(job->pipeline);
}

void pfl_session_read_stop(struct pfl_session_read *self)
{
    struct pfl_readback *reader = self->source != NULL ? self->source : self->readback;

    if (reader != NULL && self->session != NULL)
        self->session->counters.invalid_packets += pfl_readback_take_invalid_packets(reader);
    if (self->source != NULL && self->session != NULL)
        end_pipeline(self->session->output);
    pfl_readback_free(self->source);
    pfl_readback_free(self->readback);
    *self = (struct pfl_session_read){0};
}
