/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few packets that carry sequence ids, names or clocks inside one of their fields.
 *
 *     trace_stats (35)        writer_stats.sequence_id        mapped
 *     trace_provenance (124)  buffers.sequences.id            mapped
 *     system_info (45)        machine_name                    the name the operator knows
 *     service_event (69)      tracing_started                 noted; read_tracing_buffers_completed
 *                                                             is left out: it tells a reader that
 *                                                             all before it is complete, which
 *                                                             holds for one host only
 *     remote_clock_sync (107) host_clocks                     moved to the reference's boot clock
 *
 * Happy path: the packet is copied field by field to the scratch buffer, the one field rebuilt.
 * Failures: malformed inside (PFL_EPARSE, the packet is refused), out of memory. Ids that are too
 * many are left out.
 */
#include "base/message.h"
#include "consumer/merge/merge_impl.h"
#include "perfetto/clocks.fields.h"
#include "perfetto/service_packets.fields.h"
#include "perfetto/system_info.fields.h"
#include "perfetto/trace_packet.fields.h"
#include "perfetto/trace_stats.fields.h"

#define SMALL_MAX (1u << 20) /* a nested message that we rebuild */

struct rewriter {
    struct pfl_merge *merge;
    struct pfl_merge_host *host;
};

/* Copies a message, mapping the sequence id at the end of `path` (field ids, 0-terminated). */
static int map_ids(struct rewriter *rw, struct pfl_span message, const uint32_t *path,
                   struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_buf nested;
    struct pfl_field f;
    uint32_t to;
    int rc = 0;

    pfl_buf_init(&nested, SMALL_MAX);
    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.id == path[0] && path[1] == 0 && f.type == PFL_WIRE_VARINT) {
            rc = pfl_merge_map_sequence(rw->merge, rw->host, PFL_MERGE_NOBODY, (uint32_t)f.value,
                                        &to);
            if (rc == 0)
                rc = pfl_message_append_varint(out, f.id, to);
            else if (rc == PFL_ELIMIT) /* the trace has nothing of it */
                rc = 0;
        } else if (f.id == path[0] && f.type == PFL_WIRE_BYTES) {
            pfl_buf_clear(&nested);
            rc = map_ids(rw, f.bytes, path + 1, &nested);
            if (rc == 0)
                rc = pfl_message_append_bytes(out, f.id, pfl_buf_get(&nested));
        } else {
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
        }
    }
    pfl_buf_fini(&nested);
    return rc == 0 && r.failed ? PFL_EPARSE : rc;
}

static int put_name(struct rewriter *rw, struct pfl_span message, struct pfl_buf *out)
{
    struct pfl_reader r = pfl_reader_of(message);
    const char *name = rw->host->name;
    struct pfl_field f;
    int rc = 0;

    while (rc == 0 && pfl_reader_field(&r, &f))
        if (f.id != SYSTEM_INFO__MACHINE_NAME)
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
    if (rc == 0 && r.failed)
        rc = PFL_EPARSE;
    return rc != 0 ? rc
                   : pfl_message_append_bytes(out, SYSTEM_INFO__MACHINE_NAME,
                                              pfl_span_of(name, strlen(name)));
}

/* One Clock of host_clocks; only the host's boot clock has a known relation to the reference's. */
static int move_clock(struct rewriter *rw, struct pfl_span clock, struct pfl_buf *out)
{
    const struct pfl_clock_point *p = &rw->host->points[0];
    struct pfl_reader r = pfl_reader_of(clock);
    uint64_t id = 0;
    uint64_t ns = 0;
    uint8_t bytes[32];
    struct pfl_writer w = pfl_writer_of(bytes, sizeof(bytes));
    struct pfl_field f;

    while (pfl_reader_field(&r, &f)) {
        if (f.id == CLOCK_SNAPSHOT__CLOCK__CLOCK_ID)
            id = f.value;
        else if (f.id == CLOCK_SNAPSHOT__CLOCK__TIMESTAMP)
            ns = f.value;
    }
    if (r.failed)
        return PFL_EPARSE;
    if (id != BUILTIN_CLOCK_BOOTTIME)
        return 0;
    pfl_writer_field_varint(&w, CLOCK_SNAPSHOT__CLOCK__CLOCK_ID, id);
    pfl_writer_field_varint(&w, CLOCK_SNAPSHOT__CLOCK__TIMESTAMP,
                            ns - (uint64_t)p->host_ns + (uint64_t)p->reference_ns);
    return pfl_message_append_bytes(out, CLOCK_SNAPSHOT__CLOCKS,
                                    pfl_span_of(bytes, sizeof(bytes) - w.left));
}

/* level 0: RemoteClockSync, 1: SyncedClocks, 2: the ClockSnapshot host_clocks. */
static int move_clocks(struct rewriter *rw, struct pfl_span message, unsigned level,
                       struct pfl_buf *out)
{
    static const uint32_t inner[] = {REMOTE_CLOCK_SYNC__SYNCED_CLOCKS,
                                     REMOTE_CLOCK_SYNC__SYNCED_CLOCKS__HOST_CLOCKS,
                                     CLOCK_SNAPSHOT__CLOCKS};
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_buf nested;
    struct pfl_field f;
    int rc = 0;

    pfl_buf_init(&nested, SMALL_MAX);
    while (rc == 0 && pfl_reader_field(&r, &f)) {
        if (f.id != inner[level] || f.type != PFL_WIRE_BYTES) {
            rc = pfl_buf_append(out, f.raw.data, f.raw.len);
        } else if (level == 2) {
            rc = move_clock(rw, f.bytes, out);
        } else {
            pfl_buf_clear(&nested);
            rc = move_clocks(rw, f.bytes, level + 1, &nested);
            if (rc == 0)
                rc = pfl_message_append_bytes(out, f.id, pfl_buf_get(&nested));
        }
    }
    pfl_buf_fini(&nested);
    return rc == 0 && r.failed ? PFL_EPARSE : rc;
}

static int note_event(struct rewriter *rw, const struct pfl_merge_special *special,
                      struct pfl_span event, bool *ret_is_wanted)
{
    struct pfl_reader r = pfl_reader_of(event);
    struct pfl_field f;

    *ret_is_wanted = true;
    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACING_SERVICE_EVENT__READ_TRACING_BUFFERS_COMPLETED)
            *ret_is_wanted = false;
        if (f.id == TRACING_SERVICE_EVENT__TRACING_STARTED && special->machine == 0)
            rw->host->stats.started_ns = special->timestamp_ns;
        if (f.id == TRACING_SERVICE_EVENT__CLONE_STARTED && special->machine == 0)
            rw->host->stats.cloned_ns = special->timestamp_ns;
    }
    return r.failed ? PFL_EPARSE : 0;
}

static int rewrite_payload(struct rewriter *rw, const struct pfl_merge_special *special,
                           struct pfl_span payload, struct pfl_buf *out)
{
    static const uint32_t stats_path[] = {TRACE_STATS__WRITER_STATS,
                                          TRACE_STATS__WRITER_STATS__SEQUENCE_ID, 0};
    static const uint32_t provenance_path[] = {TRACE_PROVENANCE__BUFFERS,
                                               TRACE_PROVENANCE__BUFFER__SEQUENCES,
                                               TRACE_PROVENANCE__SEQUENCE__ID, 0};

    switch (special->id) {
    case TRACE_PACKET__TRACE_STATS:
        return map_ids(rw, payload, stats_path, out);
    case TRACE_PACKET__TRACE_PROVENANCE:
        return map_ids(rw, payload, provenance_path, out);
    case TRACE_PACKET__SYSTEM_INFO:
        if (special->machine == 0)
            return put_name(rw, payload, out);
        return pfl_buf_append(out, payload.data, payload.len);
    case TRACE_PACKET__REMOTE_CLOCK_SYNC:
        if (rw->host->machine_id != 0)
            return move_clocks(rw, payload, 0, out);
        return pfl_buf_append(out, payload.data, payload.len);
    default:
        return pfl_buf_append(out, payload.data, payload.len);
    }
}

static int rewrite_field(struct rewriter *rw, const struct pfl_merge_special *special,
                         const struct pfl_field *f, bool *ret_is_wanted)
{
    struct pfl_buf payload;
    int rc = 0;

    if (f->type != PFL_WIRE_BYTES)
        return PFL_EPARSE;
    *ret_is_wanted = true;
    if (special->id == TRACE_PACKET__SERVICE_EVENT)
        rc = note_event(rw, special, f->bytes, ret_is_wanted);
    pfl_buf_init(&payload, rw->merge->scratch.max_bytes);
    if (rc == 0)
        rc = rewrite_payload(rw, special, f->bytes, &payload);
    if (rc == 0)
        rc = pfl_message_append_bytes(&rw->merge->scratch, f->id, pfl_buf_get(&payload));
    pfl_buf_fini(&payload);
    return rc;
}

int pfl_merge_rewrite(struct pfl_merge *self, struct pfl_merge_host *h,
                      const struct pfl_merge_special *special, struct pfl_span packet)
{
    struct rewriter rw = {self, h};
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;
    bool is_wanted = true;
    int rc = 0;

    pfl_buf_clear(&self->scratch);
    if (special->id == TRACE_PACKET__REMOTE_CLOCK_SYNC && h->machine_id != 0 && h->points_len == 0)
        return 0;
    while (rc == 0 && is_wanted && pfl_reader_field(&r, &f)) {
        if (f.id == special->id)
            rc = rewrite_field(&rw, special, &f, &is_wanted);
        else
            rc = pfl_buf_append(&self->scratch, f.raw.data, f.raw.len);
    }
    if (rc != 0 || !is_wanted)
        pfl_buf_clear(&self->scratch);
    /* Nested messages are bounded tighter than packets: past it the packet is nonsense. */
    return rc == PFL_ELIMIT ? PFL_EPARSE : rc;
}
