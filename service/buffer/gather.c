/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers long packets in steps: see gather.h.
 *
 *   IDLE --step--> LOOKING --end found--> COPYING --end reached--> READY --taken--> IDLE
 *
 * Happy path: the sequence's records are walked twice, from the record that the packet begins in.
 * The first walk reads headers only, and finds the packet's end and size. The second copies the
 * fragments and validates the copy. The packet is consumed when it is READY.
 * Chunks may be committed, patched and overwritten between two steps. Only the first record of a
 * list is ever erased, and no record is inserted between two consecutive chunk ids. So the visited
 * records stay in the list until pfl_gather_forget. If a producer changes a record after it was
 * copied, the packet has the old content.
 * Failures: without memory, or beyond the largest size, the packet is lost. Limits: a step costs
 * 1024 records or 256 KiB; one packet at a time. Owns the mapping.
 */
#include "service/buffer/gather.h"

#include <sys/mman.h>

#include "service/buffer/retired_rings.h"

#define PAGE_BYTES ((size_t)4096)

static uint64_t all_bytes;

uint64_t pfl_long_packets_get_bytes(void)
{
    return all_bytes;
}

void pfl_long_packet_fini(struct pfl_long_packet *self)
{
    all_bytes -= self->mapped_bytes;
    if (self->base != NULL)
        pfl_retired_rings_add(self->base, self->mapped_bytes, self->mapped_bytes);
    *self = (struct pfl_long_packet){0};
}

void pfl_long_packet_release(struct pfl_long_packet *self, size_t begin, size_t end)
{
    begin &= ~(PAGE_BYTES - 1);
    end &= ~(PAGE_BYTES - 1);
    if (begin < end)
        (void)madvise(self->base + begin, end - begin, MADV_DONTNEED);
}

void pfl_gather_drop(struct pfl_gather *self)
{
    pfl_long_packet_fini(&self->packet);
    self->phase = PFL_GATHER_IDLE;
    self->seq = NULL;
}

static int map(struct pfl_long_packet *packet, size_t bytes)
{
    void *base;

    bytes += PFL_LONG_PACKET_TAIL;
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED)
        return PFL_ENOMEM;
    *packet = (struct pfl_long_packet){.base = base, .mapped_bytes = bytes};
    all_bytes += bytes;
    return 0;
}

static enum pfl_gather_result lose(uint32_t reason, uint32_t *ret_reason)
{
    *ret_reason = reason;
    return PFL_GATHER_LOST;
}

/* False: the packet is too large, or has grown since its size was found. */
static bool add(struct pfl_gather *self, const struct pfl_fragment *fragment)
{
    struct pfl_long_packet *packet = &self->packet;

    self->bytes += fragment->bytes;
    if (self->phase == PFL_GATHER_LOOKING)
        return self->bytes <= PFL_LONG_PACKET_MAX_BYTES;
    if (self->bytes + PFL_LONG_PACKET_TAIL > packet->mapped_bytes)
        return false;
    memcpy(packet->base + packet->bytes, fragment->data, fragment->bytes);
    packet->bytes = self->bytes;
    self->is_valid =
        self->is_valid &&
        pfl_packet_walk_piece(&self->walk, packet->base + packet->bytes - fragment->bytes,
                              fragment->bytes);
    return true;
}

static bool begin(struct pfl_gather *self, const struct pfl_sequence *seq,
                  const struct pfl_trace_ring *ring, const struct pfl_fragment *first,
                  enum pfl_gather_phase phase)
{
    self->phase = phase;
    self->seq = seq;
    self->first = self->place = seq->first;
    self->prev = 0;
    self->last_chunk_id = pfl_trace_ring_get(ring, seq->first)->chunk_id;
    self->bytes = 0;
    self->is_valid = true;
    self->walk = (struct pfl_packet_walk){0};
    return add(self, first);
}

/* Visits the next record. DONE: the packet ends in it. */
static enum pfl_gather_result look_at_next(struct pfl_gather *self,
                                           const struct pfl_trace_ring *ring, uint32_t *ret_reason)
{
    struct pfl_record *rec = pfl_trace_ring_get(ring, self->place);
    pfl_place next = pfl_sequence_after(ring, self->prev, self->place);
    uint32_t chunk_id = rec->chunk_id;
    struct pfl_fragments it;
    struct pfl_fragment fragment;
    enum pfl_fragments_state state;

    if ((pfl_record_flags(rec) & PFL_CHUNK_NEEDS_PATCH) != 0 || next == 0)
        return PFL_GATHER_WAITS;
    rec = pfl_trace_ring_get(ring, next);
    if (pfl_record_flags(rec) & PFL_CHUNK_NEEDS_PATCH)
        return PFL_GATHER_WAITS;
    if (rec->chunk_id != chunk_id + 1u)
        return lose(PFL_LOSS_REASSEMBLY_GAP, ret_reason);
    self->prev = self->place;
    self->place = next;
    it = pfl_fragments_of_record(rec);
    state = pfl_fragments_next(&it, &fragment);
    if (state == PFL_FRAGMENTS_CORRUPT)
        return lose(PFL_LOSS_CHUNK_CORRUPTED, ret_reason);
    if (state != PFL_FRAGMENTS_OK)
        return PFL_GATHER_MORE; /* an empty chunk in the middle */
    if (fragment.kind != PFL_FRAGMENT_CONTINUE && fragment.kind != PFL_FRAGMENT_END)
        return lose(PFL_LOSS_REASSEMBLY_BROKEN_CHAIN, ret_reason);
    self->last_chunk_id = rec->chunk_id;
    if (!add(self, &fragment))
        return lose(PFL_LOSS_PRESENT, ret_reason);
    return fragment.kind == PFL_FRAGMENT_END ? PFL_GATHER_DONE : PFL_GATHER_MORE;
}

static enum pfl_gather_result look_on(struct pfl_gather *self, const struct pfl_trace_ring *ring,
                                      uint32_t *ret_reason)
{
    enum pfl_gather_result result = PFL_GATHER_MORE;
    size_t most = self->bytes + PFL_GATHER_STEP_BYTES;

    for (uint32_t i = 0; i < PFL_GATHER_STEP_RECORDS && result == PFL_GATHER_MORE; i++) {
        if (self->phase == PFL_GATHER_COPYING && self->bytes >= most)
            break;
        result = look_at_next(self, ring, ret_reason);
    }
    return result;
}

enum pfl_gather_result pfl_gather_step(struct pfl_gather *self, const struct pfl_trace_ring *ring,
                                       const struct pfl_sequence *seq,
                                       const struct pfl_fragment *first, uint32_t *ret_reason)
{
    enum pfl_gather_result result;

    if (!pfl_gather_is_at(self, seq)) {
        pfl_gather_drop(self);
        (void)begin(self, seq, ring, first, PFL_GATHER_LOOKING); /* one fragment is not too large */
    }
    result = look_on(self, ring, ret_reason);
    if (result == PFL_GATHER_DONE && self->phase == PFL_GATHER_LOOKING) {
        size_t bytes = self->bytes;

        if (map(&self->packet, bytes) != 0 || !begin(self, seq, ring, first, PFL_GATHER_COPYING))
            result = lose(PFL_LOSS_PRESENT, ret_reason);
        else
            result = PFL_GATHER_MORE;
    }
    if (result == PFL_GATHER_DONE) {
        self->phase = PFL_GATHER_READY;
        self->seq = NULL;
        self->is_valid = self->is_valid && pfl_packet_walk_is_whole(&self->walk);
    } else if (result != PFL_GATHER_MORE) {
        pfl_gather_drop(self);
    }
    return result;
}
