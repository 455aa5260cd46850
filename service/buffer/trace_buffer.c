/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A central trace buffer (docs/abi/tracebuffer.md, V2): commits and patches in.
 *
 * Happy path of a commit: measure the fragments in shared memory (only an estimate of how much to
 * copy), make room at the write cursor, copy once into a record, append it to its sequence. Reading
 * is in trace_buffer_read.c.
 * To make room, the buffer reads what it overwrites as its owner would, so that losses are
 * reported. Failures never reach the caller: they are counted in the statistics.
 * The buffer owns the ring, the sequences and the slices of the last returned packet.
 */
#include "service/buffer/trace_buffer.h"

#include <assert.h>

#include "abi/ids.h"
#include "base/mem.h"
#include "service/buffer/smb_map.h"
#include "service/buffer/trace_buffer_inner.h"

const uint32_t pfl_trace_buffer_usage_bounds[PFL_USAGE_BOUNDS] = {8,    32,   128,  512,   1024,
                                                                  2048, 4096, 8192, 12288, 16384};

/*
 * How far back a producer may make us search: a few records each time, and more only from the
 * credit that its chunks earn as they come, for whichever buffer. A writer that is fast leaves a
 * memory full of chunks, each with a patch, in one request: that takes half the square of the
 * chunks. One search has its own bound, some 2 ms; a request's searches take turns (commit_data.h).
 */
#define SEARCH_FREE       64u
#define SEARCH_EARNED     64u
#define SEARCH_CREDIT_MAX 4000000u
#define SEARCH_ONCE_MAX   131072u

/* Likewise for packets that it overwrites: see PFL_ERASER_FREE_LOOKS. */
#define LOOKS_EARNED     4u
#define LOOKS_CREDIT_MAX 16384u

/* Of records that are not overwritten yet, for one chunk. */
#define PASSED_BYTES_MAX (1u << 20)

/* An incoming chunk. */
struct incoming {
    const struct pfl_trace_buffer_chunk *chunk;
    uint32_t valid_bytes;    /* of fragments */
    uint32_t last_fragment;  /* where the data of the last one begins */
    uint32_t reserve_bytes;  /* the record's payload */
    uint32_t skip_bytes;     /* read before, when the chunk is stored again */
    struct pfl_smb_map *map; /* which the payload is in; NULL: none is known */
    uint8_t flags;           /* of the record */
    bool is_dropped;         /* ends in the writer's drop marker */
};

int pfl_trace_buffer_new(const struct pfl_trace_buffer_conf *conf,
                         struct pfl_trace_buffer **ret_buffer)
{
    struct pfl_trace_buffer *self = pfl_mem_zalloc(sizeof(*self));
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    pfl_sequence_table_init(&self->sequences, &conf->hash_key, conf->charged);
    pfl_slices_init(&self->slices);
    rc = pfl_trace_ring_init(&self->ring, conf->size_bytes);
    if (rc != 0) {
        pfl_trace_buffer_free(self);
        return rc;
    }
    self->fill_policy = conf->fill_policy;
    self->stats.buffer_size = self->ring.size_bytes;
    self->pass.is_drained = true;
    *ret_buffer = self;
    return 0;
}

void pfl_trace_buffer_free(struct pfl_trace_buffer *self)
{
    if (self == NULL)
        return;
    pfl_ring_copy_free(self->copy);
    pfl_vm_set_free(self->vms);
    pfl_slices_fini(&self->slices);
    pfl_gather_drop(&self->gather);
    pfl_sequence_table_fini(&self->sequences);
    pfl_trace_ring_fini(&self->ring);
    pfl_mem_free(self);
}

uint64_t pfl_trace_buffer_get_table_bytes(const struct pfl_trace_buffer *self)
{
    return pfl_sequence_table_get_bytes(&self->sequences);
}

static uint32_t oldest_offset(const struct pfl_trace_buffer *self)
{
    return self->ring.write == self->ring.used_bytes ? 0 : self->ring.write;
}

/* The sequence has something new: if it stalled in this pass, the pass comes back to it. */
static void wake(struct pfl_trace_buffer *self, struct pfl_sequence *seq)
{
    self->pass.has_reader = false;
    if (self->pass.is_walking && seq->stalled_in_pass == self->pass.number) {
        seq->stalled_in_pass = 0;
        self->pass.is_woken = true;
    }
}

static void earn(uint32_t *credit, uint32_t earned, uint32_t max)
{
    *credit = *credit < max - earned ? *credit + earned : max;
}

static void find_chunk(const struct pfl_trace_buffer *self, const struct pfl_sequence *seq,
                       uint32_t chunk_id, struct pfl_trace_buffer_credit *credit,
                       struct pfl_sequence_spot *ret_spot)
{
    uint32_t left = credit != NULL ? SEARCH_CREDIT_MAX - credit->spent : 0;

    ret_spot->steps = SEARCH_FREE + (left < SEARCH_ONCE_MAX ? left : SEARCH_ONCE_MAX);
    pfl_sequence_find(seq, &self->ring, chunk_id, ret_spot);
    if (credit == NULL)
        return;
    credit->searched += ret_spot->steps;
    if (ret_spot->steps > SEARCH_FREE)
        credit->spent += ret_spot->steps - SEARCH_FREE;
}

/* ---- commit ---- */

static void discard(struct pfl_trace_buffer *self)
{
    self->stats.chunks_discarded++;
}

/* What of the chunk is worth storing, and how. False: nothing. */
static bool measure(struct pfl_trace_buffer *self, struct incoming *in)
{
    const struct pfl_trace_buffer_chunk *chunk = in->chunk;
    uint32_t count = chunk->fragments;
    struct pfl_fragments_sum sum;

    in->flags = chunk->flags & PFL_CHUNK_FLAGS_MASK;
    if (!chunk->is_complete) {
        /* The last fragment is being written; these two flags describe it. */
        if (count > 0)
            count--;
        in->flags &= (uint8_t) ~(PFL_CHUNK_CONTINUES_NEXT | PFL_CHUNK_NEEDS_PATCH);
        in->flags |= PFL_RECORD_INCOMPLETE;
    }
    if (chunk->payload_bytes > PFL_RECORD_PAYLOAD_MAX) {
        self->stats.abi_violations++;
        return false;
    }
    sum = pfl_fragments_measure(chunk->payload, chunk->payload_bytes, count);
    if (sum.is_short)
        self->stats.abi_violations++;
    in->is_dropped = sum.is_dropped;
    if (in->is_dropped) /* these two spoke of the fragment that is gone: nothing is to wait for */
        in->flags &= (uint8_t) ~(PFL_CHUNK_CONTINUES_NEXT | PFL_CHUNK_NEEDS_PATCH);
    in->valid_bytes = (uint32_t)sum.valid_bytes;
    in->last_fragment = (uint32_t)sum.last_fragment;
    in->reserve_bytes = chunk->is_complete ? in->valid_bytes : (uint32_t)chunk->payload_bytes;
    if (pfl_record_outer_bytes(in->reserve_bytes) > self->ring.size_bytes) {
        self->stats.abi_violations++;
        return false;
    }
    return true;
}

static void count_usage(struct pfl_trace_buffer_usage *usage, uint32_t used_bytes)
{
    size_t i = 0;

    while (i < PFL_USAGE_BOUNDS && used_bytes > pfl_trace_buffer_usage_bounds[i])
        i++;
    usage->counts[i]++;
    usage->sums[i] += used_bytes;
}

static struct pfl_sequence *get_sequence(struct pfl_trace_buffer *self,
                                         const struct pfl_trace_buffer_chunk *chunk)
{
    uint64_t key = pfl_sequence_key(chunk->producer_serial, chunk->producer_id, chunk->writer_id);
    struct pfl_sequence *seq = pfl_sequence_table_find(&self->sequences, key);
    struct pfl_trace_buffer_source source;

    if (seq != NULL)
        return seq;
    source = (struct pfl_trace_buffer_source){
        .producer_id = chunk->producer_id,
        .writer_id = chunk->writer_id,
        .producer_serial = chunk->producer_serial,
        .producer_uid = chunk->producer_uid,
        .producer_pid = chunk->producer_pid,
        .machine_id = chunk->machine_id,
        .who = chunk->who,
    };
    if (pfl_sequence_table_add(&self->sequences, &source, &seq) != 0)
        return NULL;
    return seq;
}

/*
 * A chunk that left the sequence already is not stored again, unless it left incomplete and now has
 * more: then the part that was read is skipped.
 */
static bool is_stale(const struct pfl_sequence *seq, struct incoming *in)
{
    const struct pfl_sequence_consumed *last = &seq->consumed;
    int32_t distance;

    if (!last->is_known)
        return false;
    distance = pfl_ids_chunk_distance(in->chunk->chunk_id, last->chunk_id);
    if (distance == 0 && last->was_incomplete && last->payload_bytes < in->valid_bytes) {
        in->skip_bytes = last->payload_bytes;
        return false;
    }
    return distance <= 0;
}

static void rewrite_in_place(struct pfl_trace_buffer *self, struct pfl_record *rec,
                             const struct incoming *in)
{
    uint8_t flags = pfl_record_flags(rec);

    pfl_trace_ring_keep_record(&self->ring, rec);
    if (in->chunk->is_complete)
        flags &= (uint8_t)~PFL_RECORD_INCOMPLETE;
    pfl_record_set_flags(rec, flags);
    if (in->valid_bytes == pfl_record_payload_bytes(rec))
        return;
    pfl_record_set_payload_bytes(rec, in->valid_bytes);
    pfl_record_set_flags(rec, flags | in->flags);
    pfl_smb_map_resume_touch(in->map);
    memcpy(pfl_record_payload(rec), in->chunk->payload, in->valid_bytes);
    (void)pfl_smb_map_pause_touch();
    if (rec->consumed_bytes != 0)
        pfl_record_set_resized(rec); /* reading continues where another copy had a fragment's end */
    self->stats.chunks_rewritten++;
}

/* A scraped copy that was read to its end is better stored again: at its old place it may be
 * overwritten before the next read. */
static bool wants_relocation(const struct pfl_trace_buffer *self, const struct pfl_sequence *seq,
                             struct pfl_record *rec, const struct incoming *in)
{
    uint32_t payload_bytes = pfl_record_payload_bytes(rec);

    return (pfl_record_flags(rec) & PFL_RECORD_INCOMPLETE) &&
           rec->consumed_bytes == payload_bytes && in->chunk->is_complete &&
           in->valid_bytes > payload_bytes && pfl_trace_ring_get(&self->ring, seq->first) == rec &&
           self->fill_policy == PFL_FILL_RING_BUFFER;
}

/* The chunk is stored already. False: its copy was removed, store it again. */
static bool recommit(struct pfl_trace_buffer *self, struct pfl_sequence *seq,
                     struct pfl_record *rec, struct incoming *in)
{
    uint8_t old_flags = pfl_record_flags(rec) & PFL_CHUNK_FLAGS_MASK;

    if (in->valid_bytes < pfl_record_payload_bytes(rec) || in->valid_bytes > rec->size_bytes ||
        (old_flags & in->flags) != old_flags) {
        self->stats.abi_violations++;
        return true;
    }
    if (!wants_relocation(self, seq, rec, in)) {
        rewrite_in_place(self, rec, in);
        pfl_sequence_recent_of(seq, rec->chunk_id)->last_fragment = UINT32_MAX;
        return true;
    }
    in->skip_bytes = pfl_record_payload_bytes(rec);
    self->stats.chunks_relocated++;
    pfl_trace_ring_keep_header(&self->ring, rec);
    pfl_gather_forget(&self->gather, seq);
    pfl_sequence_erase_first(seq, &self->ring);
    if (seq->first == 0)
        pfl_sequence_table_mark_empty(&self->sequences, seq);
    return false;
}

/* True when nothing remains to be stored: stale, stored already, or not to be placed. */
static bool settle_known_chunk(struct pfl_trace_buffer *self, struct pfl_sequence *seq,
                               struct incoming *in)
{
    struct pfl_sequence_spot spot;

    if (is_stale(seq, in)) {
        discard(self);
        return true;
    }
    find_chunk(self, seq, in->chunk->chunk_id, in->chunk->credit, &spot);
    if (spot.is_lost) {
        discard(self);
        return true;
    }
    if (!spot.is_match)
        return false;
    return recommit(self, seq, pfl_trace_ring_get(&self->ring, spot.before), in);
}

/*
 * Takes what a record still holds as lost, but for the VMs, and makes it padding. What comes before
 * it in its sequence is lost first. False: that was too much, and the record stays: it is newer
 * than what follows it in the ring.
 */
static bool overwrite_record(struct pfl_trace_buffer *self, struct pfl_record *rec,
                             struct pfl_trace_buffer_credit *credit)
{
    struct pfl_packet_reader eraser = {.ring = &self->ring,
                                       .table = &self->sequences,
                                       .stats = &self->stats,
                                       .slices = self->vms != NULL ? &self->slices : NULL,
                                       .gather = &self->gather,
                                       .credit = credit,
                                       .is_erasing = true};
    bool has_lost = false;

    pfl_packet_reader_start(&eraser, rec);
    while (pfl_packet_reader_next(&eraser)) {
        has_lost = true;
        if (self->vms != NULL)
            pfl_vm_set_apply(self->vms, eraser.seq->source.producer_id, self->slices.iov,
                             self->slices.len);
    }
    if (has_lost)
        pfl_sequence_add_loss(eraser.seq, PFL_LOSS_OVERWRITE);
    assert(eraser.is_behind || pfl_record_is_padding(rec));
    return !eraser.is_behind;
}

/* Empties `bytes` from the write cursor on; what a cut record leaves behind becomes padding. 0, or
 * the end of the first record that stays. */
static uint64_t clear_ahead(struct pfl_trace_buffer *self, uint32_t bytes,
                            struct pfl_trace_buffer_credit *credit)
{
    struct pfl_trace_ring *ring = &self->ring;
    uint64_t clear_end = (uint64_t)ring->write + bytes;
    uint64_t offset = ring->write;

    while (offset < clear_end && offset < ring->used_bytes) {
        struct pfl_record *rec = pfl_trace_ring_at(ring, (uint32_t)offset);
        uint64_t end = offset + pfl_record_outer_bytes(rec->size_bytes);

        if (pfl_record_is_padding(rec))
            self->stats.padding_bytes_cleared += end - offset;
        else if (!overwrite_record(self, rec, credit))
            return end;
        if (end > clear_end) {
            pfl_trace_ring_keep(ring, (uint32_t)clear_end, PFL_RECORD_ALIGN);
            (void)pfl_trace_ring_place(ring, (uint32_t)clear_end,
                                       (uint32_t)(end - clear_end) - PFL_RECORD_ALIGN);
            self->stats.padding_bytes_written += end - clear_end;
        }
        offset = end;
    }
    return 0;
}

/* Moves the reader's marks in [begin, begin + bytes) to the oldest record now. */
static void move_marks(struct pfl_trace_buffer *self, uint32_t begin, uint32_t bytes)
{
    struct pfl_trace_buffer_pass *pass = &self->pass;

    if (pass->at - begin < bytes)
        pass->at = oldest_offset(self);
    if (pass->has_unread && pass->unread - begin < bytes)
        pass->unread = oldest_offset(self);
}

/* A record of `outer_bytes` does not fit before the end. False: DISCARD and full. */
static bool wrap(struct pfl_trace_buffer *self, struct pfl_trace_buffer_credit *credit)
{
    uint32_t tail = self->ring.write;
    uint32_t to_end = self->ring.size_bytes - tail;

    if (self->fill_policy == PFL_FILL_DISCARD) {
        self->is_sealed = true;
        return false;
    }
    if (to_end > 0)
        (void)clear_ahead(self, to_end, credit);
    self->ring.write = 0;
    self->stats.write_wrap_count++;
    move_marks(self, tail, to_end);
    return true;
}

/* Room for a record of `outer_bytes` at the write cursor, behind records that stay. False: the
 * chunk is discarded. */
static bool make_room(struct pfl_trace_buffer *self, uint32_t outer_bytes,
                      struct pfl_trace_buffer_credit *credit)
{
    uint64_t passed_bytes = 0;

    while (passed_bytes <= PASSED_BYTES_MAX) {
        uint32_t begin;
        uint64_t end;

        if (outer_bytes > self->ring.size_bytes - self->ring.write && !wrap(self, credit))
            break;
        begin = self->ring.write;
        end = clear_ahead(self, outer_bytes, credit);
        if (end == 0)
            return true;
        self->ring.write = (uint32_t)end;
        move_marks(self, begin, (uint32_t)end - begin);
        passed_bytes += end - begin;
    }
    discard(self);
    return false;
}

static void store(struct pfl_trace_buffer *self, struct pfl_sequence *seq,
                  const struct incoming *in)
{
    struct pfl_trace_ring *ring = &self->ring;
    uint32_t outer_bytes = pfl_record_outer_bytes(in->reserve_bytes);
    struct pfl_sequence_spot spot;
    struct pfl_record *rec;
    uint32_t offset;

    if (!make_room(self, outer_bytes, in->chunk->credit))
        return;
    offset = ring->write;
    pfl_trace_ring_keep(ring, offset, outer_bytes);
    rec = pfl_trace_ring_place(ring, offset, in->reserve_bytes);
    rec->chunk_id = in->chunk->chunk_id;
    rec->owner = seq->slot + 1u;
    rec->consumed_bytes = (uint16_t)in->skip_bytes;
    pfl_record_set_flags(rec, in->flags);
    pfl_record_set_payload_bytes(rec, in->valid_bytes);
    if (in->skip_bytes != 0)
        pfl_record_set_resized(rec); /* as in rewrite_in_place */
    pfl_smb_map_resume_touch(in->map);
    pfl_trace_ring_copy(ring, pfl_record_payload(rec), in->chunk->payload, in->valid_bytes);
    (void)pfl_smb_map_pause_touch();

    spot.steps = UINT32_MAX; /* it was searched for already, and paid */
    pfl_sequence_find(seq, ring, rec->chunk_id, &spot);
    if (spot.after != 0)
        self->stats.chunks_committed_out_of_order++;
    if (seq->first == 0)
        pfl_sequence_table_mark_filled(&self->sequences, seq);
    pfl_sequence_insert(seq, ring, &spot, pfl_place_of(offset));
    pfl_sequence_recent_of(seq, rec->chunk_id)->last_fragment = in->last_fragment;

    ring->write = offset + outer_bytes;
    pfl_trace_ring_prefetch(ring, outer_bytes);
    self->stats.chunks_written++;
    self->stats.bytes_written += outer_bytes;
    if (self->pass.is_drained) {
        self->pass.is_drained = false;
        self->pass.at = offset;
    } else {
        move_marks(self, offset, outer_bytes);
    }
    pfl_sequence_table_trim(&self->sequences);
}

static void commit_measured(struct pfl_trace_buffer *self, struct incoming *in)
{
    const struct pfl_trace_buffer_chunk *chunk = in->chunk;
    struct pfl_sequence *seq = get_sequence(self, chunk);

    if (seq == NULL) {
        discard(self);
        return;
    }
    count_usage(&seq->source.usage, in->valid_bytes);
    if (in->is_dropped) {
        self->stats.trace_writer_packet_loss++;
        pfl_sequence_add_loss(seq, PFL_LOSS_WRITER_ABORT);
    }
    wake(self, seq);
    if (chunk->credit != NULL) {
        chunk->credit->spent -=
            chunk->credit->spent < SEARCH_EARNED ? chunk->credit->spent : SEARCH_EARNED;
        earn(&chunk->credit->looks, LOOKS_EARNED, LOOKS_CREDIT_MAX);
    }
    if (!settle_known_chunk(self, seq, in))
        store(self, seq, in);
}

void pfl_trace_buffer_commit(struct pfl_trace_buffer *self,
                             const struct pfl_trace_buffer_chunk *chunk)
{
    struct incoming in = {.chunk = chunk};

    if (self->is_sealed) {
        discard(self);
        return;
    }
    if (!measure(self, &in))
        return;
    in.map = pfl_smb_map_pause_touch(); /* searches, and VMs of what is overwritten, take long */
    commit_measured(self, &in);
    pfl_smb_map_resume_touch(in.map);
}

/* ---- patch ---- */

static struct pfl_record *find_patched(const struct pfl_trace_buffer *self,
                                       struct pfl_sequence *seq,
                                       const struct pfl_trace_buffer_patches *batch)
{
    uint32_t chunk_id = batch->chunk_id;
    pfl_place place = pfl_sequence_recent_of(seq, chunk_id)->place;
    struct pfl_sequence_spot spot;

    if (place != 0 && pfl_trace_ring_get(&self->ring, place)->chunk_id == chunk_id)
        return pfl_trace_ring_get(&self->ring, place);
    find_chunk(self, seq, chunk_id, batch->credit, &spot);
    return spot.is_match ? pfl_trace_ring_get(&self->ring, spot.before) : NULL;
}

/* A patch from there on leaves the sizes of the record's fragments alone. */
static uint32_t known_sizes_end(struct pfl_trace_buffer *self, struct pfl_sequence *seq,
                                const struct pfl_record *rec)
{
    const struct pfl_sequence_recent *recent = pfl_sequence_recent_of(seq, rec->chunk_id);

    if (recent->place == 0 || pfl_trace_ring_get(&self->ring, recent->place) != rec)
        return UINT32_MAX;
    return recent->last_fragment;
}

void pfl_trace_buffer_patch(struct pfl_trace_buffer *self,
                            const struct pfl_trace_buffer_patches *batch)
{
    uint64_t key = pfl_sequence_key(batch->producer_serial, batch->producer_id, batch->writer_id);
    struct pfl_sequence *seq =
        self->copy == NULL ? pfl_sequence_table_find(&self->sequences, key) : NULL;
    struct pfl_record *rec = seq != NULL ? find_patched(self, seq, batch) : NULL;
    uint32_t payload_bytes;
    uint32_t sizes_end;

    if (rec == NULL) {
        self->stats.patches_failed++;
        return;
    }
    wake(self, seq);
    pfl_trace_ring_keep_record(&self->ring, rec);
    payload_bytes = pfl_record_payload_bytes(rec);
    sizes_end = known_sizes_end(self, seq, rec);
    for (size_t i = 0; i < batch->patches_len; i++) {
        const struct pfl_trace_buffer_patch *patch = &batch->patches[i];

        if (payload_bytes < sizeof(patch->data) ||
            patch->offset_untrusted > payload_bytes - sizeof(patch->data)) {
            self->stats.patches_failed++;
            return;
        }
        if (patch->offset_untrusted < sizes_end)
            pfl_record_set_resized(rec);
        memcpy(pfl_record_payload(rec) + patch->offset_untrusted, patch->data, sizeof(patch->data));
    }
    self->stats.patches_succeeded += batch->patches_len;
    if (!batch->has_more_patches)
        pfl_record_set_flags(rec, pfl_record_flags(rec) & (uint8_t)~PFL_CHUNK_NEEDS_PATCH);
}

/* ---- queries ---- */

void pfl_trace_buffer_stats_get(const struct pfl_trace_buffer *self,
                                struct pfl_trace_buffer_stats *ret_stats)
{
    *ret_stats = self->stats;
}

uint64_t pfl_trace_buffer_get_used_bytes(const struct pfl_trace_buffer *self)
{
    return self->ring.used_bytes;
}

void pfl_trace_buffer_each_source(const struct pfl_trace_buffer *self,
                                  void (*each)(void *user, const struct pfl_trace_buffer_source *s),
                                  void *user)
{
    pfl_sequence_table_each(&self->sequences, each, user);
}
