/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model of a trace buffer, from the tables of docs/abi/tracebuffer.md. Every question is
 * answered by searching all records. Payloads are at most MODEL_PAYLOAD bytes.
 */
#include "tests/unit/service/buffer/buffer_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"

enum kind { WHOLE, BEGIN, CONTINUE, END };

struct piece {
    const uint8_t *data;
    uint32_t bytes;
    uint32_t with_size;
    enum kind kind;
};

void model_init(struct model *self, uint32_t size, bool is_discard)
{
    memset(self, 0, sizeof(*self));
    self->size = (size + 4095u) / 4096u * 4096u;
    self->is_discard = is_discard;
    self->stats.buffer_size = self->size;
}

void model_fini(struct model *self)
{
    for (size_t i = 0; i < self->records_len; i++)
        pfl_mem_free(self->records[i]);
    self->records_len = 0;
}

static uint32_t outer_of(uint32_t size)
{
    return (16u + size + 15u) / 16u * 16u;
}

static struct model_record *record_at(struct model *self, uint32_t offset)
{
    for (size_t i = 0; i < self->records_len; i++) {
        if (self->records[i]->offset == offset)
            return self->records[i];
    }
    return NULL;
}

static void drop_record(struct model *self, struct model_record *rec)
{
    size_t i = 0;

    while (self->records[i] != rec)
        i++;
    pfl_mem_free(rec);
    memmove(&self->records[i], &self->records[i + 1],
            (self->records_len - i - 1) * sizeof(struct model_record *));
    self->records_len--;
}

static struct model_record *add_record(struct model *self, uint32_t offset, uint32_t size)
{
    struct model_record *rec = pfl_mem_zalloc(sizeof(*rec));

    assert_non_null(rec);
    assert_true(self->records_len < MODEL_RECORDS);
    rec->offset = offset;
    rec->size = size;
    rec->outer = outer_of(size);
    rec->seq = -1;
    self->records[self->records_len++] = rec;
    if (offset + rec->outer > self->used)
        self->used = offset + rec->outer;
    return rec;
}

static int32_t ahead(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

/* The record of the sequence with the lowest id above `after` (any when NULL). */
static struct model_record *next_in_seq(struct model *self, int seq,
                                        const struct model_record *after)
{
    struct model_record *best = NULL;

    for (size_t i = 0; i < self->records_len; i++) {
        struct model_record *rec = self->records[i];

        if (rec->seq != seq || (after != NULL && ahead(rec->chunk_id, after->chunk_id) <= 0))
            continue;
        if (best == NULL || ahead(rec->chunk_id, best->chunk_id) < 0)
            best = rec;
    }
    return best;
}

/* 1: a piece; 0: none left; -1: corrupt; -2: the drop marker. */
static int parse(const uint8_t *payload, uint32_t total, uint32_t at, uint8_t flags,
                 struct piece *ret)
{
    uint64_t size = 0;
    uint32_t i = 0;

    if (at >= total)
        return 0;
    for (;; i++) {
        if (at + i >= total || i == 10)
            return -1;
        size |= (uint64_t)(payload[at + i] & 0x7f) << (7 * i);
        if (payload[at + i] < 0x80)
            break;
    }
    i++;
    if (size == 0x0fffffff)
        return -2;
    if (size > total - at - i)
        return -1;
    ret->data = payload + at + i;
    ret->bytes = (uint32_t)size;
    ret->with_size = i + (uint32_t)size;
    if (at + ret->with_size == total && (flags & 2))
        ret->kind = at == 0 && (flags & 1) ? CONTINUE : BEGIN;
    else
        ret->kind = at == 0 && (flags & 1) ? END : WHOLE;
    return 1;
}

static int parse_record(const struct model_record *rec, struct piece *ret)
{
    return parse(rec->payload, rec->payload_bytes, rec->consumed, rec->flags, ret);
}

static void consume(struct model *self, struct model_record *rec, const struct piece *piece,
                    bool is_erasing)
{
    rec->consumed += piece->with_size;
    if (rec->consumed != rec->payload_bytes)
        return;
    if (is_erasing) {
        self->stats.chunks_overwritten++;
        self->stats.bytes_overwritten += rec->outer;
    } else {
        self->stats.chunks_read++;
        self->stats.bytes_read += rec->outer;
    }
}

static void lose(struct model_seq *seq, uint32_t reason)
{
    seq->loss |= 1u | reason;
}

static void erase(struct model *self, struct model_record *rec)
{
    struct model_seq *seq = &self->seqs[rec->seq];

    seq->has_last = true;
    seq->last_id = rec->chunk_id;
    seq->last_payload = rec->payload_bytes;
    seq->was_last_incomplete = rec->is_incomplete;
    rec->seq = -1;
}

static void check_gap(struct model_seq *seq, const struct model_record *first)
{
    if (!seq->has_last || first->consumed != 0)
        return;
    if (seq->was_last_incomplete && first->chunk_id == seq->last_id)
        return;
    if (first->chunk_id != seq->last_id + 1)
        lose(seq, 2);
}

/* Puts a packet together that begins in `first`. 1 packet, 0 lost, -1 stalls. */
static int assemble(struct model *self, struct model_record *first, const struct piece *begin,
                    bool is_erasing, struct kit_packet *out)
{
    struct model_record *recs[MODEL_RECORDS];
    struct piece pieces[MODEL_RECORDS];
    struct model_seq *seq = &self->seqs[first->seq];
    struct model_record *rec = first;
    uint32_t reason = 0;
    size_t n = 1;
    int result = -1;

    recs[0] = first;
    pieces[0] = *begin;
    while (result == -1 && !(rec->flags & 4)) {
        struct model_record *next = next_in_seq(self, first->seq, rec);
        int found;

        if (next == NULL || (next->flags & 4))
            break;
        result = 0;
        if (next->chunk_id != rec->chunk_id + 1) {
            reason = 16;
            break;
        }
        rec = next;
        found = parse_record(rec, &pieces[n]);
        if (found == -1)
            reason = 4;
        else if (found != 1)
            result = -1;
        else if (pieces[n].kind == WHOLE || pieces[n].kind == BEGIN)
            reason = 32;
        else {
            result = pieces[n].kind == END ? 1 : -1;
            recs[n++] = rec;
        }
    }
    if (result == 1)
        self->stats.readaheads_succeeded++;
    else
        self->stats.readaheads_failed++;
    if (result == -1 && !is_erasing)
        return -1;
    for (size_t i = 0; i < n; i++) {
        consume(self, recs[i], &pieces[i], is_erasing);
        if (result == 1) {
            memcpy(out->data + out->bytes, pieces[i].data, pieces[i].bytes);
            out->bytes += pieces[i].bytes;
        }
    }
    if (result == -1)
        lose(seq, 64);
    else if (result == 0)
        lose(seq, reason);
    return result == 1;
}

/* The next packet of `target`'s sequence up to it; false: none, continue elsewhere. */
static bool next_packet(struct model *self, int s, struct model_record *target, bool is_erasing,
                        struct kit_packet *out)
{
    struct model_seq *seq = &self->seqs[s];

    out->bytes = 0;
    while (out->bytes == 0) {
        struct model_record *first = next_in_seq(self, s, NULL);
        struct piece piece;
        int found = first != NULL ? parse_record(first, &piece) : 0;

        if (first == NULL || (seq->is_stalled && !is_erasing))
            return false;
        if (found != 1) {
            if (found == -1)
                lose(seq, 4);
            if (first->is_incomplete && !is_erasing) {
                seq->is_stalled = true;
                return false;
            }
            erase(self, first);
            if (first == target)
                return false;
            first = next_in_seq(self, s, NULL);
            if (first != NULL)
                check_gap(seq, first);
        } else if (piece.kind == WHOLE) {
            consume(self, first, &piece, is_erasing);
            memcpy(out->data, piece.data, piece.bytes);
            out->bytes = piece.bytes;
        } else if (piece.kind != BEGIN) {
            lose(seq, 8);
            consume(self, first, &piece, is_erasing);
        } else {
            int result = assemble(self, first, &piece, is_erasing, out);

            if (result == 1)
                return true;
            if (result == -1 && !is_erasing) {
                seq->is_stalled = true;
                return false;
            }
        }
    }
    return true;
}

void model_read(struct model *self, bool (*each)(void *user, const struct kit_packet *packet),
                void *user)
{
    static struct kit_packet packet;
    uint32_t at = self->write == self->used ? 0 : self->write;

    for (size_t i = 0; i < MODEL_SEQS; i++)
        self->seqs[i].is_stalled = false;
    while (self->used != 0) {
        struct model_record *rec = record_at(self, at);
        int s = rec->seq;

        if (s != -1)
            check_gap(&self->seqs[s], next_in_seq(self, s, NULL));
        while (s != -1 && next_packet(self, s, rec, false, &packet)) {
            packet.producer_id = 1;
            packet.writer_id = self->seqs[s].writer_id;
            packet.loss_reasons = self->seqs[s].loss;
            self->seqs[s].loss = 0;
            if (!each(user, &packet))
                return;
        }
        at += rec->outer;
        if (at == self->write)
            return;
        if (at >= self->used)
            at = 0;
    }
}

/* `keeps`: the records stay as padding, because nothing is written over them yet. */
static void clear_ahead(struct model *self, uint32_t bytes, bool keeps)
{
    static struct kit_packet packet;
    uint32_t end = self->write + bytes;
    uint32_t at = self->write;

    while (at < end && at < self->used) {
        struct model_record *rec = record_at(self, at);
        uint32_t next = at + rec->outer;
        int s = rec->seq;
        bool has_lost = false;

        if (s == -1) {
            self->stats.padding_bytes_cleared += rec->outer;
        } else {
            check_gap(&self->seqs[s], next_in_seq(self, s, NULL));
            while (rec->seq != -1 && next_packet(self, s, rec, true, &packet))
                has_lost = true;
            if (has_lost)
                lose(&self->seqs[s], 64);
        }
        if (!keeps)
            drop_record(self, rec);
        if (next > end) {
            add_record(self, end, next - end - 16);
            self->stats.padding_bytes_written += next - end;
        }
        at = next;
    }
}

static int seq_of(struct model *self, uint16_t writer_id, bool adds)
{
    for (int i = 0; i < (int)MODEL_SEQS; i++) {
        if (self->seqs[i].writer_id == writer_id)
            return i;
        if (self->seqs[i].writer_id == 0) {
            if (!adds)
                return -1;
            self->seqs[i].writer_id = writer_id;
            return i;
        }
    }
    fail_msg("too many writers for the model");
    return -1;
}

static struct model_record *find(struct model *self, int s, uint32_t chunk_id)
{
    for (size_t i = 0; i < self->records_len; i++) {
        if (self->records[i]->seq == s && self->records[i]->chunk_id == chunk_id)
            return self->records[i];
    }
    return NULL;
}

/* True when the stored copy takes the commit; false when the chunk must be stored again. */
static bool recommit(struct model *self, struct model_record *rec,
                     const struct pfl_trace_buffer_chunk *c, uint32_t valid, uint8_t flags)
{
    if (valid < rec->payload_bytes || valid > rec->size || (rec->flags & ~flags & 7)) {
        self->stats.abi_violations++;
        return true;
    }
    if (rec->is_incomplete && rec->consumed == rec->payload_bytes && c->is_complete &&
        valid > rec->payload_bytes && next_in_seq(self, rec->seq, NULL) == rec &&
        !self->is_discard) {
        self->stats.chunks_relocated++;
        erase(self, rec);
        return false;
    }
    if (c->is_complete)
        rec->is_incomplete = false;
    if (valid == rec->payload_bytes)
        return true;
    rec->payload_bytes = valid;
    memcpy(rec->payload, c->payload, valid);
    rec->flags |= flags;
    if (!c->is_complete)
        rec->is_incomplete = true;
    self->stats.chunks_rewritten++;
    return true;
}

static void store(struct model *self, int s, const struct pfl_trace_buffer_chunk *c,
                  const struct model_record *like)
{
    struct model_record *rec;

    if (like->outer > self->size - self->write) {
        if (self->is_discard) {
            self->is_sealed = true;
            self->stats.chunks_discarded++;
            return;
        }
        clear_ahead(self, self->size - self->write, true);
        self->write = 0;
        self->stats.write_wrap_count++;
    }
    clear_ahead(self, like->outer, false);
    rec = add_record(self, self->write, like->size);
    rec->seq = s;
    rec->chunk_id = c->chunk_id;
    rec->payload_bytes = like->payload_bytes;
    rec->consumed = like->consumed;
    rec->flags = like->flags;
    rec->is_incomplete = !c->is_complete;
    memcpy(rec->payload, c->payload, like->payload_bytes);
    if (next_in_seq(self, s, rec) != NULL)
        self->stats.chunks_committed_out_of_order++;
    self->write += rec->outer;
    self->stats.chunks_written++;
    self->stats.bytes_written += rec->outer;
}

void model_commit(struct model *self, const struct pfl_trace_buffer_chunk *c)
{
    uint32_t count = c->is_complete || c->fragments == 0 ? c->fragments : c->fragments - 1u;
    struct model_record like = {.flags = c->is_complete ? c->flags : c->flags & 1u};
    struct model_record *stored;
    struct piece piece;
    struct model_seq *seq;
    uint32_t valid = 0;
    int result = 1;
    int s;

    if (self->is_sealed) {
        self->stats.chunks_discarded++;
        return;
    }
    for (uint32_t i = 0; i < count && result == 1; i++) {
        result = parse(c->payload, (uint32_t)c->payload_bytes, valid, 0, &piece);
        if (result == 1)
            valid += piece.with_size;
    }
    if (result == 0 || result == -1)
        self->stats.abi_violations++;
    if (result == -2)
        like.flags &= 1;
    like.size = c->is_complete ? valid : (uint32_t)c->payload_bytes;
    like.outer = outer_of(like.size);
    like.payload_bytes = valid;
    if (like.outer > self->size) {
        self->stats.abi_violations++;
        return;
    }
    s = seq_of(self, c->writer_id, true);
    seq = &self->seqs[s];
    if (result == -2) {
        self->stats.trace_writer_packet_loss++;
        lose(seq, 128);
    }
    if (seq->has_last && ahead(c->chunk_id, seq->last_id) <= 0) {
        if (c->chunk_id != seq->last_id || !seq->was_last_incomplete ||
            seq->last_payload >= valid) {
            self->stats.chunks_discarded++;
            return;
        }
        like.consumed = seq->last_payload;
    }
    stored = find(self, s, c->chunk_id);
    if (stored != NULL) {
        uint32_t read_before = stored->payload_bytes;

        if (recommit(self, stored, c, valid, like.flags))
            return;
        like.consumed = read_before;
    }
    store(self, s, c, &like);
}

void model_patch(struct model *self, const struct pfl_trace_buffer_patches *batch)
{
    int s = seq_of(self, batch->writer_id, false);
    struct model_record *rec = s == -1 ? NULL : find(self, s, batch->chunk_id);

    if (rec == NULL) {
        self->stats.patches_failed++;
        return;
    }
    for (size_t i = 0; i < batch->patches_len; i++) {
        if ((uint64_t)batch->patches[i].offset_untrusted + 4 > rec->payload_bytes) {
            self->stats.patches_failed++;
            return;
        }
        memcpy(rec->payload + batch->patches[i].offset_untrusted, batch->patches[i].data, 4);
    }
    self->stats.patches_succeeded += batch->patches_len;
    if (!batch->has_more_patches)
        rec->flags &= (uint8_t)~4u;
}
