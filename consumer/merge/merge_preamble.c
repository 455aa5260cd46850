/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets that a merged file begins with: the hosts' identities and clocks.
 *
 *     reference   clock_snapshot {primary BOOTTIME}      its boot clock is the trace's timeline
 *                 system_info {machine_name}
 *     each other  remote_clock_sync, one per clock point
 *                 system_info {machine_name}, with a timestamp on the host's boot clock
 *
 * The packets of a host that joins later precede its first ones. Each further file of a recording
 * begins with them, too: with the last clock point of each host, and with the kept packets of its
 * service. The order matters to Trace Processor: the reference's packet must be first, otherwise
 * the first other host counts as the reference. The timestamp on another host's first packet is
 * converted at once, which prevents that host's own clock snapshots from redefining the timeline.
 *
 * A clock point is written as two equal exchanges, of which Trace Processor takes the mean: exactly
 * the offset. Failures: the sink's, out of memory.
 */
#include "consumer/merge/merge_impl.h"
#include "perfetto/clocks.fields.h"
#include "perfetto/system_info.fields.h"
#include "perfetto/trace_config.fields.h"
#include "perfetto/trace_packet.fields.h"

#include <stdio.h>

#define NAME_MAX_BYTES 512u
#define SMALL_BYTES    128u

static struct pfl_span written(const uint8_t *begin, const struct pfl_writer *w)
{
    return pfl_span_of(begin, (size_t)(w->pos - begin));
}

int pfl_merge_emit(const struct pfl_merge_sink *sink, struct pfl_span packet)
{
    size_t preamble = 1 + pfl_varint_size(packet.len);
    uint8_t *room;
    int rc = sink->reserve(sink->user, preamble + packet.len, &room);

    if (rc != 0)
        return rc;
    room[0] = PFL_TRACE_PACKET_TAG;
    pfl_varint_put(room + 1, packet.len);
    memcpy(room + preamble, packet.data, packet.len);
    sink->commit(sink->user, preamble + packet.len);
    return 0;
}

static int emit(struct pfl_merge *self, struct pfl_span packet)
{
    return pfl_merge_emit(&self->sink, packet);
}

/* A ClockSnapshot of the boot clock alone. */
static void put_snapshot(struct pfl_writer *w, uint32_t id, int64_t ns, bool is_primary)
{
    uint8_t clock[SMALL_BYTES];
    uint8_t snapshot[SMALL_BYTES];
    struct pfl_writer c = pfl_writer_of(clock, sizeof(clock));
    struct pfl_writer s = pfl_writer_of(snapshot, sizeof(snapshot));

    pfl_writer_field_varint(&c, CLOCK_SNAPSHOT__CLOCK__CLOCK_ID, BUILTIN_CLOCK_BOOTTIME);
    pfl_writer_field_varint(&c, CLOCK_SNAPSHOT__CLOCK__TIMESTAMP, (uint64_t)ns);
    if (is_primary)
        pfl_writer_field_varint(&s, CLOCK_SNAPSHOT__PRIMARY_TRACE_CLOCK, BUILTIN_CLOCK_BOOTTIME);
    pfl_writer_field_bytes(&s, CLOCK_SNAPSHOT__CLOCKS, clock, written(clock, &c).len);
    pfl_writer_field_bytes(w, id, snapshot, written(snapshot, &s).len);
}

static void put_ids(struct pfl_writer *w, const struct pfl_merge_host *h)
{
    pfl_writer_field_varint(w, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, PFL_MERGE_OWN_SEQUENCE);
    if (h->machine_id != 0)
        pfl_writer_field_varint(w, TRACE_PACKET__MACHINE_ID, h->machine_id);
}

static int emit_reference_clock(struct pfl_merge *self, const struct pfl_merge_host *h)
{
    uint8_t packet[SMALL_BYTES];
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));

    put_snapshot(&w, TRACE_PACKET__CLOCK_SNAPSHOT, h->points[0].host_ns, true);
    put_ids(&w, h);
    return emit(self, written(packet, &w));
}

static int emit_name(struct pfl_merge *self, const struct pfl_merge_host *h)
{
    uint8_t info[NAME_MAX_BYTES];
    uint8_t packet[NAME_MAX_BYTES + SMALL_BYTES];
    struct pfl_writer i = pfl_writer_of(info, sizeof(info));
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));

    pfl_writer_field_bytes(&i, SYSTEM_INFO__MACHINE_NAME, h->name, strlen(h->name));
    if (h->machine_id != 0 && h->points_len != 0) {
        pfl_writer_field_varint(
            &w, TRACE_PACKET__TIMESTAMP,
            (uint64_t)(self->is_cutting ? h->last_point.host_ns : h->points[0].host_ns));
        pfl_writer_field_varint(&w, TRACE_PACKET__TIMESTAMP_CLOCK_ID, BUILTIN_CLOCK_BOOTTIME);
    }
    pfl_writer_field_bytes(&w, TRACE_PACKET__SYSTEM_INFO, info, written(info, &i).len);
    put_ids(&w, h);
    return emit(self, written(packet, &w));
}

static int emit_clock_point(const struct pfl_merge_sink *sink, const struct pfl_merge_host *h,
                            const struct pfl_clock_point *p)
{
    uint8_t clocks[SMALL_BYTES];
    uint8_t sync[2 * SMALL_BYTES + 16];
    uint8_t packet[3 * SMALL_BYTES];
    struct pfl_writer c = pfl_writer_of(clocks, sizeof(clocks));
    struct pfl_writer s = pfl_writer_of(sync, sizeof(sync));
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));

    put_snapshot(&c, REMOTE_CLOCK_SYNC__SYNCED_CLOCKS__CLIENT_CLOCKS, p->host_ns, false);
    put_snapshot(&c, REMOTE_CLOCK_SYNC__SYNCED_CLOCKS__HOST_CLOCKS, p->reference_ns, false);
    for (int i = 0; i < 2; i++)
        pfl_writer_field_bytes(&s, REMOTE_CLOCK_SYNC__SYNCED_CLOCKS, clocks,
                               written(clocks, &c).len);
    pfl_writer_field_bytes(&w, TRACE_PACKET__REMOTE_CLOCK_SYNC, sync, written(sync, &s).len);
    put_ids(&w, h);
    return pfl_merge_emit(sink, written(packet, &w));
}

/* TraceAttributes: Trace Processor shows them as metadata `trace_attribute.<key>`. */
static void put_attribute(struct pfl_writer *w, const char *key, const char *host, int64_t value)
{
    char name[NAME_MAX_BYTES];
    uint8_t attribute[NAME_MAX_BYTES + SMALL_BYTES];
    struct pfl_writer a = pfl_writer_of(attribute, sizeof(attribute));

    snprintf(name, sizeof(name), "perfleet.%s.%s", key, host);
    pfl_writer_field_bytes(&a, TRACE_ATTRIBUTES__ATTRIBUTE__KEY, name, strlen(name));
    pfl_writer_field_varint(&a, TRACE_ATTRIBUTES__ATTRIBUTE__LONG_VALUE, (uint64_t)value);
    pfl_writer_field_bytes(w, TRACE_ATTRIBUTES__ATTRIBUTE, attribute, written(attribute, &a).len);
}

static int emit_clock_quality(struct pfl_merge *self, const struct pfl_merge_host *h)
{
    uint8_t attributes[3 * (NAME_MAX_BYTES + 2 * SMALL_BYTES)];
    uint8_t packet[sizeof(attributes) + SMALL_BYTES];
    struct pfl_writer a = pfl_writer_of(attributes, sizeof(attributes));
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));

    put_attribute(&a, "clock_offset_ns", h->name, h->offset_ns);
    put_attribute(&a, "clock_drift_ns", h->name, h->drift_ns);
    put_attribute(&a, "clock_error_ns", h->name, h->error_ns);
    pfl_writer_field_bytes(&w, TRACE_PACKET__TRACE_ATTRIBUTES, attributes,
                           written(attributes, &a).len);
    /* About the trace, not about a machine: no machine id. */
    pfl_writer_field_varint(&w, TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID, PFL_MERGE_OWN_SEQUENCE);
    return emit(self, written(packet, &w));
}

static int emit_name_and_quality(struct pfl_merge *self, const struct pfl_merge_host *h)
{
    int rc = emit_name(self, h);

    return rc == 0 && h->has_clock ? emit_clock_quality(self, h) : rc;
}

static int emit_host(struct pfl_merge *self, const struct pfl_merge_host *h)
{
    int rc = 0;

    if (h->is_same_machine)
        return 0;
    for (size_t i = 0; rc == 0 && i < h->points_len; i++)
        rc = emit_clock_point(&self->sink, h, &h->points[i]);
    return rc != 0 ? rc : emit_name_and_quality(self, h);
}

int pfl_merge_begin(struct pfl_merge *self)
{
    const struct pfl_merge_host *reference;
    int rc;

    if (self->reference == SIZE_MAX)
        return PFL_ESTATE;
    reference = &self->hosts[self->reference];
    rc = emit_reference_clock(self, reference);
    if (rc == 0)
        rc = emit_name(self, reference);
    for (size_t i = 0; rc == 0 && i < self->hosts_len; i++)
        if (i != self->reference)
            rc = emit_host(self, &self->hosts[i]);
    return rc;
}

int pfl_merge_join(struct pfl_merge *self, size_t host)
{
    return emit_host(self, &self->hosts[host]);
}

int pfl_merge_add_points(struct pfl_merge *self, size_t host, const struct pfl_clock_point *points,
                         size_t points_len)
{
    struct pfl_merge_host *h = &self->hosts[host];
    int rc = 0;

    for (size_t i = 0; rc == 0 && host != self->reference && i < points_len; i++) {
        if (self->is_cutting) /* both files need it */
            rc = emit_clock_point(&self->before, h, &points[i]);
        if (rc == 0)
            rc = emit_clock_point(&self->sink, h, &points[i]);
        h->last_point = points[i];
    }
    return rc;
}

/* Of one host, in the order in which their kinds came first. */
static int emit_kept(struct pfl_merge *self, const struct pfl_merge_host *h)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < h->kept.len; i++) {
        const struct pfl_kept_packet *k = &h->kept.list[i];
        struct pfl_span packet = pfl_span_of(k->bytes, k->len);

        rc = emit(self, packet);
        if (rc == 0 && k->kind == TRACE_PACKET__REMOTE_CLOCK_SYNC)
            rc = pfl_merge_emit_pin(self, packet);
    }
    return rc;
}

int pfl_merge_begin_again(struct pfl_merge *self)
{
    const struct pfl_merge_host *reference;
    int rc;

    if (self->reference == SIZE_MAX)
        return PFL_ESTATE;
    reference = &self->hosts[self->reference];
    rc = emit_reference_clock(self, reference);
    if (rc == 0)
        rc = emit_name(self, reference);
    for (size_t i = 0; rc == 0 && i < self->hosts_len; i++) {
        const struct pfl_merge_host *h = &self->hosts[i];

        if (h != reference && h->points_len != 0 && !h->is_same_machine)
            rc = emit_clock_point(&self->sink, h, &h->last_point);
        if (rc == 0 && h != reference && !h->is_same_machine)
            rc = emit_name_and_quality(self, h);
    }
    for (size_t i = 0; rc == 0 && i < self->hosts_len; i++)
        rc = emit_kept(self, &self->hosts[i]);
    return rc;
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The latest boot clock reading in a message that nests like RemoteClockSync; `path` is
 * the field ids down to its clocks, 0-terminated. 0: there is none. */
static uint64_t find_boot_ns(struct pfl_span message, const uint32_t *path)
{
    struct pfl_reader r = pfl_reader_of(message);
    struct pfl_field f;
    uint64_t clock = 0;
    uint64_t ns = 0;

    while (pfl_reader_field(&r, &f)) {
        if (path[0] == 0 && f.id == CLOCK_SNAPSHOT__CLOCK__CLOCK_ID)
            clock = f.value;
        else if (path[0] == 0 && f.id == CLOCK_SNAPSHOT__CLOCK__TIMESTAMP)
            ns = f.value;
        else if (path[0] != 0 && f.id == path[0])
            ns = later_of(ns, find_boot_ns(f.bytes, path + 1));
    }
    return path[0] != 0 || clock == BUILTIN_CLOCK_BOOTTIME ? ns : 0;
}

int pfl_merge_emit_pin(struct pfl_merge *self, struct pfl_span sync_packet)
{
    static const uint32_t path[] = {
        TRACE_PACKET__REMOTE_CLOCK_SYNC, REMOTE_CLOCK_SYNC__SYNCED_CLOCKS,
        REMOTE_CLOCK_SYNC__SYNCED_CLOCKS__CLIENT_CLOCKS, CLOCK_SNAPSHOT__CLOCKS, 0};
    uint64_t ns = find_boot_ns(sync_packet, path);
    struct pfl_merge_host machine = {0};
    struct pfl_reader r = pfl_reader_of(sync_packet);
    uint8_t packet[SMALL_BYTES];
    struct pfl_writer w = pfl_writer_of(packet, sizeof(packet));
    struct pfl_field f;

    while (pfl_reader_field(&r, &f))
        if (f.id == TRACE_PACKET__MACHINE_ID)
            machine.machine_id = (uint32_t)f.value;
    if (ns == 0 || machine.machine_id == 0)
        return 0;
    pfl_writer_field_varint(&w, TRACE_PACKET__TIMESTAMP, ns);
    pfl_writer_field_varint(&w, TRACE_PACKET__TIMESTAMP_CLOCK_ID, BUILTIN_CLOCK_BOOTTIME);
    put_ids(&w, &machine);
    return emit(self, written(packet, &w));
}
