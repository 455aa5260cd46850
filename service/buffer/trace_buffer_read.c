/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A central trace buffer: packets out (docs/abi/tracebuffer.md, V2).
 *
 * Happy path: walk the records from the oldest on; at each, read its sequence up to it. If a record
 * has only whole packets ahead, the reader may take them directly (a stretch). A long packet is
 * gathered in steps; the pass pauses between two of them (gather.h).
 * The read position survives commits between two packets; if its record is overwritten, it moves to
 * the oldest one left. The next pass starts at the first record that still holds data, so that many
 * passes cost no more than what they read.
 * Failures never reach the caller: they are counted in the statistics, and the next packet reports
 * them.
 */
#include <assert.h>

#include "service/buffer/trace_buffer_inner.h"

#define LOOKS_MAX 1024u /* at records, in one read: of fragments, at most 2^20 */

void pfl_trace_buffer_begin_read(struct pfl_trace_buffer *self)
{
    struct pfl_trace_buffer_pass *pass = &self->pass;

    pass->number++;
    pass->has_reader = false;
    pass->is_woken = false;
    pass->is_walking = !pass->is_drained;
    if (pass->has_unread)
        pass->at = pass->unread;
    pass->has_unread = false;
    pfl_slices_fini(&self->slices);
    pfl_gather_drop(&self->gather);
}

void pfl_trace_buffer_end_read(struct pfl_trace_buffer *self)
{
    pfl_gather_drop(&self->gather);
}

static void begin_record(struct pfl_trace_buffer *self, struct pfl_record *rec)
{
    struct pfl_packet_reader *reader = &self->reader;

    reader->ring = &self->ring;
    reader->table = &self->sequences;
    reader->stats = &self->stats;
    reader->slices = &self->slices;
    reader->gather = &self->gather;
    reader->pass = self->pass.number;
    pfl_packet_reader_start(reader, rec);
    self->pass.has_reader = true;
}

/* The walk met the write cursor. False: the pass is over. */
static bool go_round(struct pfl_trace_buffer_pass *pass)
{
    if (pass->is_woken && pass->has_unread) {
        pass->is_woken = false;
        pass->has_unread = false;
        pass->at = pass->unread;
        return true;
    }
    pass->is_walking = false;
    pass->is_drained = !pass->has_unread;
    return false;
}

/* On to the next record in the order of writing. False: the pass is over. */
static bool advance(struct pfl_trace_buffer *self)
{
    struct pfl_trace_buffer_pass *pass = &self->pass;
    const struct pfl_record *rec = pfl_trace_ring_at(&self->ring, pass->at);
    uint32_t next = pass->at + pfl_record_outer_bytes(rec->size_bytes);

    if (!pass->has_unread && !pfl_record_is_padding(rec)) {
        pass->has_unread = true;
        pass->unread = pass->at;
    }
    if (next == self->ring.write)
        return go_round(pass);
    pass->at = next >= self->ring.used_bytes ? 0 : next;
    return true;
}

bool pfl_trace_buffer_is_paused(const struct pfl_trace_buffer *self)
{
    return self->pass.is_walking;
}

bool pfl_trace_buffer_read(struct pfl_trace_buffer *self,
                           struct pfl_trace_buffer_packet *ret_packet)
{
    struct pfl_trace_buffer_pass *pass = &self->pass;

    if (self->gather.phase == PFL_GATHER_READY)
        pfl_gather_drop(&self->gather);
    for (uint32_t looks = 0; looks < LOOKS_MAX && pass->is_walking; looks++) {
        struct pfl_record *rec = pfl_trace_ring_at(&self->ring, pass->at);
        struct pfl_sequence *seq;

        if (!pass->has_reader && !pfl_record_is_padding(rec))
            begin_record(self, rec);
        if (pass->has_reader && (pfl_packet_reader_take_inner(&self->reader) ||
                                 pfl_packet_reader_next(&self->reader))) {
            seq = self->reader.seq;
            ret_packet->slices = self->slices.iov;
            ret_packet->slices_len = self->slices.len;
            ret_packet->bytes = self->slices.bytes;
            ret_packet->loss_reasons = seq->loss_reasons;
            ret_packet->source = &seq->source;
            ret_packet->is_long = self->gather.phase == PFL_GATHER_READY;
            ret_packet->is_valid = self->gather.is_valid;
            seq->loss_reasons = 0;
            return true;
        }
        if (pass->has_reader && self->reader.is_paused) {
            pass->has_reader = false;
            return false;
        }
        pass->has_reader = false;
        (void)advance(self);
    }
    return false;
}

void pfl_trace_buffer_take_long(struct pfl_trace_buffer *self, struct pfl_long_packet *ret_packet)
{
    assert(self->gather.phase == PFL_GATHER_READY);
    *ret_packet = self->gather.packet;
    self->gather.packet = (struct pfl_long_packet){0};
    pfl_gather_drop(&self->gather);
}

struct pfl_trace_buffer_stretch pfl_trace_buffer_get_stretch(const struct pfl_trace_buffer *self)
{
    const struct pfl_packet_reader *reader = &self->reader;

    if (!self->pass.is_walking || !self->pass.has_reader || reader->it.pos == reader->it.begin ||
        reader->seq->loss_reasons != 0)
        return (struct pfl_trace_buffer_stretch){0};
    return (struct pfl_trace_buffer_stretch){
        .source = &reader->seq->source, .pos = reader->it.pos, .end = reader->it.end};
}

void pfl_trace_buffer_take_stretch(struct pfl_trace_buffer *self, const uint8_t *pos)
{
    struct pfl_packet_reader *reader = &self->reader;

    assert(pos >= reader->it.pos && pos < reader->it.end);
    reader->rec->consumed_bytes = (uint16_t)(reader->rec->consumed_bytes + (pos - reader->it.pos));
    reader->it.pos = pos;
}
