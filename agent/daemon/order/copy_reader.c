/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a ring's copy: see copy_reader.h.
 *
 * Happy path: each packet is appended to `out` as a field of a trace, and its time is looked at:
 * its own time stamp, a snapshot of clocks, or the first event of ftrace. The service's own packets
 * are as old as the ring and do not count. Compressed packets are decompressed for their times
 * only. Failures: an error code, and no part of the packet is in `out`. If the service compressed
 * in a way that is not known here, the copy is as old as the ring. Owns the buffers and the
 * decoder. Limits: max_bytes, PFL_COPY_PACKET_BYTES, also for what is decompressed.
 */
#include "agent/daemon/order/copy_reader.h"

#include "base/message.h"
#include "perfetto/clocks.fields.h"
#include "perfetto/ftrace_events.fields.h"
#include "perfetto/trace_packet.fields.h"

#define SERVICE_SEQUENCE 1u
#define OUT_MAX_BYTES    (PFL_COPY_PACKET_BYTES + (4u << 20)) /* and what the caller leaves */
/* A batch of one packet of that size that does not shrink. */
#define SCAN_MAX_BYTES (PFL_COPY_PACKET_BYTES + (128u << 10))

void pfl_copy_reader_init(struct pfl_copy_reader *self, const struct pfl_copy_reader_conf *conf)
{
    memset(self, 0, sizeof(*self));
    pfl_packet_scan_init(&self->scan, SCAN_MAX_BYTES);
    pfl_buf_init(&self->out, OUT_MAX_BYTES);
    pfl_buf_init(&self->decoded, PFL_COPY_PACKET_BYTES);
    self->max_bytes = conf->max_bytes;
    self->ring_ns = conf->ring_ns;
    self->now_ns = conf->now_ns;
}

void pfl_copy_reader_fini(struct pfl_copy_reader *self)
{
    pfl_packet_scan_fini(&self->scan);
    pfl_buf_fini(&self->out);
    pfl_buf_fini(&self->decoded);
    pfl_compressed_decoder_free(self->decoder);
}

/* ---- times ---- */

static void note_time(uint64_t *earliest, uint64_t ns)
{
    if (*earliest == 0 || ns < *earliest)
        *earliest = ns;
}

static uint64_t boot_time_of(struct pfl_span snapshot)
{
    struct pfl_reader r = pfl_reader_of(snapshot);
    struct pfl_field clock;
    struct pfl_field f;

    while (pfl_reader_field(&r, &clock)) {
        struct pfl_reader c = pfl_reader_of(clock.bytes);
        uint64_t id = 0;
        uint64_t ns = 0;

        if (clock.id != CLOCK_SNAPSHOT__CLOCKS || clock.type != PFL_WIRE_BYTES)
            continue;
        while (pfl_reader_field(&c, &f)) {
            if (f.id == CLOCK_SNAPSHOT__CLOCK__CLOCK_ID)
                id = f.value;
            else if (f.id == CLOCK_SNAPSHOT__CLOCK__TIMESTAMP)
                ns = f.value;
        }
        if (id == BUILTIN_CLOCK_BOOTTIME)
            return ns;
    }
    return 0;
}

/* Of the first event; events of a CPU are in the order of time. */
static uint64_t first_event_of(struct pfl_span bundle)
{
    struct pfl_reader r = pfl_reader_of(bundle);
    struct pfl_field event;
    struct pfl_field f;

    while (pfl_reader_field(&r, &event)) {
        struct pfl_reader e = pfl_reader_of(event.bytes);

        if (event.id != FTRACE_EVENT_BUNDLE__EVENT || event.type != PFL_WIRE_BYTES)
            continue;
        while (pfl_reader_field(&e, &f)) {
            if (f.id == FTRACE_EVENT__TIMESTAMP && f.type == PFL_WIRE_VARINT)
                return f.value;
        }
        return 0;
    }
    return 0;
}

static void look_at_time(struct pfl_copy_reader *c, struct pfl_span packet)
{
    struct pfl_reader r = pfl_reader_of(packet);
    struct pfl_field f;
    uint64_t clock = BUILTIN_CLOCK_BOOTTIME;
    uint64_t times[3] = {0}; /* its time stamp, a snapshot, an event */

    while (pfl_reader_field(&r, &f)) {
        if (f.id == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID && f.value == SERVICE_SEQUENCE)
            return;
        if (f.id == TRACE_PACKET__TIMESTAMP && f.type == PFL_WIRE_VARINT)
            times[0] = f.value;
        else if (f.id == TRACE_PACKET__TIMESTAMP_CLOCK_ID)
            clock = f.value;
        else if (f.id == TRACE_PACKET__CLOCK_SNAPSHOT && f.type == PFL_WIRE_BYTES)
            times[1] = boot_time_of(f.bytes);
        else if (f.id == TRACE_PACKET__FTRACE_EVENTS && f.type == PFL_WIRE_BYTES)
            times[2] = first_event_of(f.bytes);
    }
    if (clock != BUILTIN_CLOCK_BOOTTIME)
        times[0] = 0;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        if (times[i] >= c->ring_ns && times[i] <= c->now_ns && times[i] != 0)
            note_time(&c->begin_ns, times[i]);
    }
}

/* The same for all packets of a compressed one. */
static int look_into(struct pfl_copy_reader *c, const struct pfl_field *field)
{
    struct pfl_reader r;
    struct pfl_field f;
    int rc = c->decoder == NULL ? pfl_compressed_decoder_new(&c->decoder) : 0;

    if (rc != 0)
        return rc;
    pfl_buf_clear(&c->decoded);
    rc = pfl_compressed_decode(c->decoder, field, &c->decoded);
    if (rc == PFL_ENOMEM)
        return rc;
    c->is_obscure = c->is_obscure || rc != 0;
    r = pfl_reader_of(pfl_buf_get(&c->decoded));
    while (pfl_reader_field(&r, &f))
        if (f.id == TRACE__PACKET && f.type == PFL_WIRE_BYTES)
            look_at_time(c, f.bytes);
    return 0;
}

/* ---- packets ---- */

static int on_packet(void *user, const struct iovec *slices, int slices_len, size_t bytes)
{
    struct pfl_copy_reader *c = user;
    size_t before = c->out.len;
    struct pfl_span packet;
    struct pfl_field field;
    int rc = pfl_message_append_header(&c->out, TRACE__PACKET, bytes);

    for (int i = 0; rc == 0 && i < slices_len; i++)
        rc = pfl_buf_append(&c->out, slices[i].iov_base, slices[i].iov_len);
    if (rc != 0)
        return rc;
    c->bytes += c->out.len - before;
    if (c->bytes > c->max_bytes)
        return PFL_ELIMIT;
    packet = pfl_span_of(c->out.data + c->out.start + c->out.len - bytes, bytes);
    if (pfl_compressed_find(packet, &field))
        return look_into(c, &field);
    look_at_time(c, packet);
    return 0;
}

int pfl_copy_reader_feed(struct pfl_copy_reader *self, struct pfl_span reply)
{
    return pfl_packet_scan_feed(&self->scan, reply, on_packet, self);
}

uint64_t pfl_copy_reader_get_skipped(const struct pfl_copy_reader *self)
{
    return self->scan.skipped;
}

uint64_t pfl_copy_reader_get_begin_ns(const struct pfl_copy_reader *self)
{
    return self->begin_ns != 0 && !self->is_obscure ? self->begin_ns : self->ring_ns;
}
