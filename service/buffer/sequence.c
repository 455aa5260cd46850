/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of a sequence's records, in the ring, in the order of chunk ids.
 *
 * Happy path: a chunk is appended after the last record; the reader removes the first one. A chunk
 * that comes late is inserted at its place, searched from the newest on. Chunk ids wrap at 2^32, so
 * "later" is the sign of their difference. Nothing can fail; a search gives up after as many
 * records as its caller allows. The list owns nothing: records live in the ring.
 *
 * A record's link is XOR(place before, place after): a change of a neighbour XORs the link with the
 * old and the new place.
 */
#include "service/buffer/sequence.h"

#include "abi/ids.h"

static void change_neighbour(const struct pfl_trace_ring *ring, pfl_place place, pfl_place from,
                             pfl_place to)
{
    pfl_trace_ring_keep_header(ring, pfl_trace_ring_get(ring, place));
    pfl_trace_ring_get(ring, place)->link ^= from ^ to;
}

void pfl_sequence_find(const struct pfl_sequence *self, const struct pfl_trace_ring *ring,
                       uint32_t chunk_id, struct pfl_sequence_spot *spot)
{
    pfl_place before = self->last;
    pfl_place after = 0;
    int32_t distance = 1;
    uint32_t steps = 0;

    while (before != 0) {
        pfl_place prev;

        distance = pfl_ids_chunk_distance(chunk_id, pfl_trace_ring_get(ring, before)->chunk_id);
        if (distance >= 0 || steps == spot->steps)
            break;
        prev = pfl_sequence_after(ring, after, before);
        after = before;
        before = prev;
        steps++;
    }
    spot->steps = steps;
    spot->before = before;
    spot->after = after;
    spot->is_match = before != 0 && distance == 0;
    spot->is_lost = before != 0 && distance < 0;
}

void pfl_sequence_insert(struct pfl_sequence *self, const struct pfl_trace_ring *ring,
                         const struct pfl_sequence_spot *spot, pfl_place place)
{
    struct pfl_record *rec = pfl_trace_ring_get(ring, place);

    self->recent[rec->chunk_id % PFL_SEQUENCE_RECENT] =
        (struct pfl_sequence_recent){.place = place, .last_fragment = UINT32_MAX};
    rec->link = (rec->link & ~PFL_RECORD_LINK_MASK) | (spot->before ^ spot->after);
    if (spot->before != 0)
        change_neighbour(ring, spot->before, spot->after, place);
    else
        self->first = place;
    if (spot->after != 0)
        change_neighbour(ring, spot->after, spot->before, place);
    else
        self->last = place;
}

void pfl_sequence_erase_first(struct pfl_sequence *self, const struct pfl_trace_ring *ring)
{
    pfl_place place = self->first;
    pfl_place next = pfl_sequence_after(ring, 0, place);
    struct pfl_record *rec = pfl_trace_ring_get(ring, place);

    self->consumed = (struct pfl_sequence_consumed){
        .chunk_id = rec->chunk_id,
        .payload_bytes = (uint16_t)pfl_record_payload_bytes(rec),
        .is_known = true,
        .was_incomplete = (pfl_record_flags(rec) & PFL_RECORD_INCOMPLETE) != 0,
    };
    if (self->recent[rec->chunk_id % PFL_SEQUENCE_RECENT].place == place)
        self->recent[rec->chunk_id % PFL_SEQUENCE_RECENT].place = 0;
    self->first = next;
    if (next != 0)
        change_neighbour(ring, next, place, 0);
    else
        self->last = 0;
    *rec = (struct pfl_record){.size_bytes = rec->size_bytes};
}
