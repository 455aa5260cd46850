/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the packets of one sequence in its order (docs/abi/tracebuffer.md 2, 3, 6).
 *
 * Happy path: a fragment that is a whole packet is consumed and returned in place. One that begins
 * a packet looks ahead over the next records, first to learn whether all is there, then to consume
 * one fragment of each. A record whose fragments are consumed leaves the list. A long packet is
 * gathered in steps (gather.h); then its first fragment is consumed, and each other fragment when
 * the walk reaches its record.
 * Missing data: if the rest of a packet, or its patches, may still come, the sequence stalls for
 * this pass. After a gap of chunk ids, a broken chain or a corrupt fragment, the packet is consumed
 * and dropped, and the next packet carries the reason. An erasing reader never stalls.
 * Everything in a payload is untrusted (a patch may have changed sizes): only fragments inside
 * their record are used. Slices point into the ring. An array of many slices is the only
 * allocation, bounded by PFL_PACKET_SLICES_MAX; if it fails, the packet counts as lost.
 */
#include "service/buffer/packet_reader.h"

#include "abi/ids.h"
#include "base/mem.h"

enum reassembly {
    REASSEMBLY_DONE,
    REASSEMBLY_WAITS,
    REASSEMBLY_LOST,
    REASSEMBLY_IS_LONG, /* to be gathered in steps */
};

/* What looking ahead found. */
struct lookahead {
    enum reassembly result;
    uint32_t reason;  /* of REASSEMBLY_LOST */
    size_t fragments; /* that belong to the packet, with the first */
    size_t looks;     /* at records after the first */
};

/*
 * The stock service drops every packet of several records that is behind a gap of the same walk
 * (docs/compatibility.md, "Buffers"). The differential tests have a perfleetd built that does so
 * too.
 */
#ifdef PFL_READER_KEEPS_GAPS
static bool is_behind_gap;
#define KEEP_GAP(has_gap) (is_behind_gap = (has_gap))
#else
enum { is_behind_gap = 0 };
#define KEEP_GAP(has_gap) ((void)(has_gap))
#endif

void pfl_slices_init(struct pfl_slices *self)
{
    self->iov = self->few;
    self->capacity = PFL_SLICES_INLINE;
    self->len = 0;
    self->bytes = 0;
}

void pfl_slices_fini(struct pfl_slices *self)
{
    if (self->iov != self->few)
        pfl_mem_free(self->iov);
    pfl_slices_init(self);
}

static int reserve_slices(struct pfl_slices *self, size_t len)
{
    struct iovec *iov;

    if (len <= self->capacity)
        return 0;
    if (len > PFL_PACKET_SLICES_MAX)
        return PFL_ELIMIT;
    pfl_slices_fini(self);
    iov = pfl_mem_calloc(len, sizeof(*iov));
    if (iov == NULL)
        return PFL_ENOMEM;
    self->iov = iov;
    self->capacity = len;
    return 0;
}

static void add_slice(struct pfl_slices *self, const struct pfl_fragment *fragment)
{
    self->iov[self->len++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)fragment->data, .iov_len = fragment->bytes};
    self->bytes += fragment->bytes;
}

/* Makes the sequence's first record the current one, and reports a gap of chunk ids before it. */
static void enter_first(struct pfl_packet_reader *self)
{
    const struct pfl_sequence_consumed *last = &self->seq->consumed;

    self->rec = pfl_trace_ring_get(self->ring, self->seq->first);
    self->it = pfl_fragments_of_record(self->rec);
    pfl_trace_ring_keep_header(self->ring, self->rec); /* until it is left */
    /* The gap before a partly read record was reported already; one stored again has none. */
    if (!last->is_known || self->rec->consumed_bytes != 0)
        return;
    if (last->was_incomplete && self->rec->chunk_id == last->chunk_id)
        return;
    if (self->rec->chunk_id != last->chunk_id + 1u)
        pfl_sequence_add_loss(self->seq, PFL_LOSS_READ_GAP);
}

void pfl_packet_reader_start(struct pfl_packet_reader *self, struct pfl_record *target)
{
    self->target = target;
    self->is_paused = false;
    self->is_behind = false;
    self->passed = 0;
    self->seq = pfl_sequence_table_of(self->table, target);
    KEEP_GAP(false);
    enter_first(self);
}

static bool is_erasing(const struct pfl_packet_reader *self)
{
    return self->is_erasing;
}

/* Without it packets are lost without a look. */
static bool is_collecting(const struct pfl_packet_reader *self)
{
    return self->slices != NULL;
}

static void stall(struct pfl_packet_reader *self)
{
    self->seq->stalled_in_pass = self->pass;
}

static void consume(struct pfl_packet_reader *self, struct pfl_record *rec,
                    const struct pfl_fragment *fragment)
{
    uint32_t outer_bytes;

    rec->consumed_bytes = (uint16_t)(rec->consumed_bytes + fragment->bytes_with_size);
    if (rec->consumed_bytes != pfl_record_payload_bytes(rec)) {
        /* The next read position: used by the erasing reader when the next chunk has come. */
        __builtin_prefetch(pfl_record_payload(rec) + rec->consumed_bytes);
        return;
    }
    outer_bytes = pfl_record_outer_bytes(rec->size_bytes);
    if (is_erasing(self)) {
        self->stats->chunks_overwritten++;
        self->stats->bytes_overwritten += outer_bytes;
    } else {
        self->stats->chunks_read++;
        self->stats->bytes_read += outer_bytes;
    }
}

/* Erasing: may the reader continue to another record before the target? */
static bool pay_record(struct pfl_packet_reader *self)
{
    if (++self->passed <= PFL_ERASER_FREE_LOOKS)
        return true;
    if (self->credit == NULL || self->credit->looks == 0)
        return false;
    self->credit->looks--;
    return true;
}

/* Nothing more in the current record. False when reading ends here. */
static bool leave_record(struct pfl_packet_reader *self, enum pfl_fragments_state state)
{
    bool is_target = self->rec == self->target;

    if (state == PFL_FRAGMENTS_CORRUPT)
        pfl_sequence_add_loss(self->seq, PFL_LOSS_CHUNK_CORRUPTED);
    if (!is_erasing(self) && (pfl_record_flags(self->rec) & PFL_RECORD_INCOMPLETE)) {
        stall(self);
        return false;
    }
    pfl_gather_forget(self->gather, self->seq);
    pfl_sequence_erase_first(self->seq, self->ring);
    if (self->seq->first == 0)
        pfl_sequence_table_mark_empty(self->table, self->seq);
    if (is_target || self->seq->first == 0)
        return false;
    if (is_erasing(self) && !pay_record(self)) {
        self->is_behind = true;
        return false;
    }
    enter_first(self);
    KEEP_GAP(is_behind_gap || self->rec->chunk_id != self->seq->consumed.chunk_id + 1u);
    return true;
}

static struct lookahead lost(uint32_t reason, size_t fragments, size_t looks)
{
    return (struct lookahead){REASSEMBLY_LOST, reason, fragments, looks};
}

/* At most PFL_PACKET_SLICES_MAX, because LOOKS_CREDIT_MAX is far less. */
static size_t looks_max(const struct pfl_packet_reader *self)
{
    return PFL_ERASER_FREE_LOOKS + (self->credit != NULL ? self->credit->looks : 0);
}

static void pay_looks(const struct pfl_packet_reader *self, size_t looks)
{
    if (is_erasing(self) && looks > PFL_ERASER_FREE_LOOKS)
        self->credit->looks -= (uint32_t)(looks - PFL_ERASER_FREE_LOOKS);
}

/* Looks for the rest of the packet that begins in the current record; changes nothing. */
static struct lookahead look_ahead(const struct pfl_packet_reader *self)
{
    pfl_place prev = 0;
    pfl_place place = self->seq->first;
    struct pfl_record *rec = self->rec;
    size_t fragments = 1;
    size_t bytes = 0;
    size_t looks = 0;

    for (; (pfl_record_flags(rec) & PFL_CHUNK_NEEDS_PATCH) == 0; looks++) {
        pfl_place next = pfl_sequence_after(self->ring, prev, place);
        uint32_t chunk_id = rec->chunk_id;
        struct pfl_fragments it;
        struct pfl_fragment fragment;
        enum pfl_fragments_state state;

        if (next == 0)
            break;
        if (is_erasing(self) && looks == looks_max(self))
            return lost(PFL_LOSS_OVERWRITE, fragments, looks); /* its rest when that is */
        if (!is_erasing(self) &&
            (looks == PFL_LONG_PACKET_FRAGMENTS || bytes >= PFL_LONG_PACKET_BYTES))
            return (struct lookahead){REASSEMBLY_IS_LONG, 0, fragments, looks};
        prev = place;
        place = next;
        rec = pfl_trace_ring_get(self->ring, place);
        if (pfl_record_flags(rec) & PFL_CHUNK_NEEDS_PATCH)
            break;
        if (is_behind_gap || rec->chunk_id != chunk_id + 1u)
            return lost(PFL_LOSS_REASSEMBLY_GAP, fragments, looks);
        it = pfl_fragments_of_record(rec);
        state = pfl_fragments_next(&it, &fragment);
        if (state == PFL_FRAGMENTS_CORRUPT)
            return lost(PFL_LOSS_CHUNK_CORRUPTED, fragments, looks);
        if (state != PFL_FRAGMENTS_OK)
            continue; /* an empty chunk in the middle */
        if (fragment.kind != PFL_FRAGMENT_CONTINUE && fragment.kind != PFL_FRAGMENT_END)
            return lost(PFL_LOSS_REASSEMBLY_BROKEN_CHAIN, fragments, looks);
        fragments++;
        bytes += fragment.bytes;
        if (fragment.kind == PFL_FRAGMENT_END)
            return (struct lookahead){REASSEMBLY_DONE, 0, fragments, looks};
    }
    return (struct lookahead){REASSEMBLY_WAITS, 0, fragments, looks};
}

/* Consumes what look_ahead counted; the packet's bytes go to the slices when it is complete. */
static void take_fragments(struct pfl_packet_reader *self, const struct pfl_fragment *first,
                           const struct lookahead *found)
{
    bool is_wanted = found->result == REASSEMBLY_DONE && is_collecting(self);
    pfl_place prev = 0;
    pfl_place place = self->seq->first;
    struct pfl_fragment fragment = *first;
    struct pfl_record *rec = self->rec;
    size_t taken = 0;

    for (;;) {
        pfl_place next;
        struct pfl_fragments it;

        consume(self, rec, &fragment);
        if (is_wanted && fragment.bytes != 0)
            add_slice(self->slices, &fragment);
        if (++taken == found->fragments)
            return;
        do {
            next = pfl_sequence_after(self->ring, prev, place);
            prev = place;
            place = next;
            rec = pfl_trace_ring_get(self->ring, place);
            it = pfl_fragments_of_record(rec);
        } while (pfl_fragments_next(&it, &fragment) != PFL_FRAGMENTS_OK);
        pfl_trace_ring_keep_header(self->ring, rec);
    }
}

/* One step of a long packet that begins at `first`. False: the sequence stalls, or the reader is
 * paused. */
static bool gather(struct pfl_packet_reader *self, const struct pfl_fragment *first,
                   bool *ret_is_packet)
{
    uint32_t reason;
    enum pfl_gather_result result =
        pfl_gather_step(self->gather, self->ring, self->seq, first, &reason);

    *ret_is_packet = result == PFL_GATHER_DONE;
    if (result == PFL_GATHER_MORE) {
        self->is_paused = true;
        return false;
    }
    if (result == PFL_GATHER_DONE)
        self->stats->readaheads_succeeded++;
    else
        self->stats->readaheads_failed++;
    if (result == PFL_GATHER_WAITS) {
        stall(self);
        return false;
    }
    consume(self, self->rec, first);
    self->seq->has_passed = true;
    self->seq->passed_chunk_id = self->gather->last_chunk_id;
    if (result == PFL_GATHER_LOST)
        pfl_sequence_add_loss(self->seq, reason);
    else if (self->gather->packet.bytes != 0)
        add_slice(self->slices,
                  &(struct pfl_fragment){.data = self->gather->packet.base,
                                         .bytes = (uint32_t)self->gather->packet.bytes});
    return true;
}

/* The fragment continues a long packet that was read or lost, or one whose beginning is missing. */
static void pass_continuation(struct pfl_packet_reader *self, const struct pfl_fragment *fragment)
{
    struct pfl_sequence *seq = self->seq;

    seq->has_passed =
        seq->has_passed && pfl_ids_chunk_distance(seq->passed_chunk_id, self->rec->chunk_id) >= 0;
    if (!seq->has_passed)
        pfl_sequence_add_loss(seq, PFL_LOSS_ORPHAN_CONTINUATION);
    consume(self, self->rec, fragment);
}

/* A packet begins at `first` and continues in later records. False: the sequence stalls, or the
 * reader is paused. */
static bool reassemble(struct pfl_packet_reader *self, const struct pfl_fragment *first,
                       bool *ret_is_packet)
{
    struct lookahead found;

    if (!is_erasing(self) && pfl_gather_is_at(self->gather, self->seq))
        return gather(self, first, ret_is_packet);
    found = look_ahead(self);
    pay_looks(self, found.looks);
    if (found.result == REASSEMBLY_IS_LONG)
        return gather(self, first, ret_is_packet);
    *ret_is_packet = false;
    if (found.result == REASSEMBLY_DONE && is_collecting(self) &&
        reserve_slices(self->slices, found.fragments) != 0)
        found = lost(PFL_LOSS_PRESENT, found.fragments, found.looks);

    if (found.result == REASSEMBLY_DONE)
        self->stats->readaheads_succeeded++;
    else
        self->stats->readaheads_failed++;

    if (found.result == REASSEMBLY_WAITS) {
        if (!is_erasing(self)) {
            stall(self);
            return false;
        }
        pfl_sequence_add_loss(self->seq, PFL_LOSS_OVERWRITE);
    }
    take_fragments(self, first, &found);
    if (found.result == REASSEMBLY_LOST)
        pfl_sequence_add_loss(self->seq, found.reason);
    *ret_is_packet = found.result == REASSEMBLY_DONE; /* even of no byte at all */
    return true;
}

/*
 * Erasing without a reader, and a packet is lost: the rest of the record is lost without a look,
 * because the sizes that were measured when the record was stored hold. Only a last fragment that
 * continues has consequences elsewhere.
 */
static void lose_rest(struct pfl_packet_reader *self, struct pfl_fragment *fragment)
{
    bool is_packet;

    fragment->bytes_with_size = pfl_record_payload_bytes(self->rec) - self->rec->consumed_bytes;
    self->it.pos = self->it.end;
    if (pfl_record_flags(self->rec) & PFL_CHUNK_CONTINUES_NEXT)
        (void)reassemble(self, fragment, &is_packet);
    else
        consume(self, self->rec, fragment);
}

static bool take_whole(struct pfl_packet_reader *self, struct pfl_fragment *fragment)
{
    if (!is_collecting(self) && fragment->bytes != 0 && !pfl_record_is_resized(self->rec)) {
        lose_rest(self, fragment);
        return true;
    }
    consume(self, self->rec, fragment);
    if (fragment->bytes == 0)
        return false;
    if (is_collecting(self))
        add_slice(self->slices, fragment);
    return true;
}

bool pfl_packet_reader_next(struct pfl_packet_reader *self)
{
    if (!is_erasing(self) && self->seq->stalled_in_pass == self->pass)
        return false;
    if (is_collecting(self)) {
        self->slices->len = 0;
        self->slices->bytes = 0;
    }
    for (;;) {
        struct pfl_fragment fragment;
        enum pfl_fragments_state state = pfl_fragments_next(&self->it, &fragment);
        bool is_packet = false;

        if (state != PFL_FRAGMENTS_OK) {
            if (!leave_record(self, state))
                return false;
            continue;
        }
        switch (fragment.kind) {
        case PFL_FRAGMENT_WHOLE:
            is_packet = take_whole(self, &fragment);
            break;
        case PFL_FRAGMENT_CONTINUE:
        case PFL_FRAGMENT_END:
            pass_continuation(self, &fragment);
            break;
        case PFL_FRAGMENT_BEGIN:
            if (!reassemble(self, &fragment, &is_packet))
                return false;
            break;
        }
        if (is_packet)
            return true;
    }
}
