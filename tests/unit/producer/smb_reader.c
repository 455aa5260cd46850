/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits into chunks, chunks into packets. Every rule of docs/abi/smb.md section 2 that a writer
 * must keep is an assertion here. Test code: it asserts and never returns errors.
 */
#include "tests/unit/producer/smb_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "abi/fragment.h"
#include "producer/platform/heap.h"

void smb_reader_init(struct smb_reader *self, uint32_t page_bytes, uint32_t pages)
{
    struct pfl_arbiter_conf conf = {.page_bytes = page_bytes,
                                    .smb_bytes = (size_t)page_bytes * pages,
                                    .wake_fd = -1,
                                    .connection_fd = -1};

    memset(self, 0, sizeof(*self));
    conf.base =
        mmap(NULL, conf.smb_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(conf.base != MAP_FAILED);
    assert_int_equal(pfl_arbiter_new(&conf, &self->arbiter), 0);
}

void smb_reader_clear(struct smb_reader *self)
{
    for (size_t i = 0; i < self->chunks_len; i++)
        pfl_heap_free(self->chunks[i].payload);
    for (size_t i = 0; i < self->packets_len; i++)
        pfl_heap_free(self->packets[i].data);
    self->chunks_len = 0;
    self->packets_len = 0;
}

void smb_reader_fini(struct smb_reader *self)
{
    smb_reader_clear(self);
    pfl_heap_free(self->chunks);
    pfl_heap_free(self->packets);
    pfl_arbiter_batch_fini(&self->batch);
    pfl_arbiter_unref(self->arbiter);
}

/* Room for one more; sizes are powers of two. */
static void *grow(void *items, size_t len, size_t item_bytes)
{
    void *grown = items;

    if (len == 0 || (len & (len - 1)) == 0)
        grown = pfl_heap_resize(items, len == 0 ? 1 : 2 * len, item_bytes);
    assert_non_null(grown);
    return grown;
}

static void take_chunk(struct smb_reader *self, const struct pfl_arbiter_move *move)
{
    struct pfl_page_header *page = pfl_smb_page(&self->arbiter->smb, move->page);
    struct pfl_chunk_header *chunk;
    struct pfl_chunk_view view;
    struct smb_chunk *c;
    uint32_t bitmap = 0;

    assert_int_equal(pfl_state_begin_read(page, move->chunk, &bitmap), PFL_STATE_DONE);
    chunk = pfl_smb_chunk(&self->arbiter->smb, move->page, bitmap, move->chunk);
    view = pfl_chunk_look(chunk);
    self->chunks = grow(self->chunks, self->chunks_len, sizeof(*self->chunks));
    c = &self->chunks[self->chunks_len++];
    *c = (struct smb_chunk){.writer_id = view.writer_id,
                            .chunk_id = view.chunk_id,
                            .buffer = move->buffer,
                            .flags = view.flags,
                            .count = view.count};
    c->payload_bytes = pfl_page_payload_bytes(self->arbiter->smb.page_bytes, bitmap);
    c->payload = (uint8_t *)pfl_heap_copy(pfl_chunk_payload(chunk), c->payload_bytes);
    assert_non_null(c->payload);
    c->patches_open = (view.flags & PFL_CHUNK_NEEDS_PATCH) != 0;
    assert_int_equal(pfl_state_end_read(page, move->chunk, chunk), PFL_STATE_DONE);
}

static void apply_patch(struct smb_reader *self, const struct pfl_arbiter_patch *patch)
{
    for (size_t i = self->chunks_len; i-- > 0;) {
        struct smb_chunk *c = &self->chunks[i];

        if (c->writer_id != patch->writer_id || c->chunk_id != patch->chunk_id)
            continue;
        assert_int_equal(c->buffer, patch->buffer);
        assert_true(c->patches_open);
        assert_true(patch->offset + 4 <= c->payload_bytes);
        assert_true(patch->data[0] != 0);
        memcpy(c->payload + patch->offset, patch->data, 4);
        c->patches_open = patch->has_more;
        return;
    }
    fail_msg("a patch for a chunk that was not committed");
}

void smb_reader_take(struct smb_reader *self)
{
    pfl_arbiter_take(self->arbiter, &self->batch);
    for (size_t i = 0; i < self->batch.moves.len; i++)
        take_chunk(self, &self->batch.moves.items[i]);
    for (size_t i = 0; i < self->batch.patches.len; i++)
        apply_patch(self, &self->batch.patches.items[i]);
    for (size_t i = 0; i < self->batch.writers.len; i++) {
        self->opened += !self->batch.writers.items[i].is_closed;
        self->closed += self->batch.writers.items[i].is_closed;
    }
    if (self->batch.flush_id > self->flush_id)
        self->flush_id = self->batch.flush_id;
    pfl_arbiter_batch_clear(&self->batch);
}

/* --- packets ----------------------------------------------------------------------------- */

/* One writer's stream while its chunks go by. */
struct stream {
    uint32_t next_chunk_id;
    bool is_open; /* a packet waits for its next fragment */
    struct smb_packet packet;
};

static void append(struct stream *s, const uint8_t *data, size_t len)
{
    uint8_t *grown = pfl_heap_resize(s->packet.data, s->packet.len + len + 1, 1);

    assert_non_null(grown);
    s->packet.data = grown;
    memcpy(grown + s->packet.len, data, len);
    s->packet.len += len;
}

static void emit(struct smb_reader *self, struct stream *s)
{
    self->packets = grow(self->packets, self->packets_len, sizeof(*self->packets));
    self->packets[self->packets_len++] = s->packet;
    s->packet = (struct smb_packet){0};
    s->is_open = false;
}

static void discard(struct stream *s)
{
    pfl_heap_free(s->packet.data);
    s->packet = (struct smb_packet){0};
    s->is_open = false;
}

static void read_fragment(struct smb_reader *self, struct stream *s, const struct smb_chunk *c,
                          uint32_t index, size_t *at)
{
    bool is_last = index + 1 == c->count;
    bool proceeds = is_last && (c->flags & PFL_CHUNK_CONTINUES_NEXT) != 0;
    bool is_rest = index == 0 && (c->flags & PFL_CHUNK_CONTINUES_PREV) != 0;
    uint64_t size = 0;
    size_t head = pfl_fragment_get_size(c->payload + *at, c->payload_bytes - *at, &size);

    assert_true(head > 0 && head <= 4);
    *at += head;
    assert_int_equal(is_rest, s->is_open);
    if (size == PFL_FRAGMENT_DROP) {
        assert_true(is_last && !proceeds);
        self->drop_markers++;
        discard(s);
        return;
    }
    assert_true(size <= c->payload_bytes - *at);
    if (size == 0) { /* only the slot that nobody used */
        assert_true(is_last && !proceeds && head == 1);
        return;
    }
    s->packet.writer_id = c->writer_id;
    append(s, c->payload + *at, size);
    *at += size;
    s->is_open = true;
    if (!proceeds)
        emit(self, s);
}

static void read_writer(struct smb_reader *self, uint16_t writer_id)
{
    struct stream s = {0};

    for (size_t i = 0; i < self->chunks_len; i++) {
        const struct smb_chunk *c = &self->chunks[i];
        size_t at = 0;

        if (c->writer_id != writer_id)
            continue;
        assert_int_equal(c->chunk_id, s.next_chunk_id);
        s.next_chunk_id++;
        assert_false(c->patches_open);
        assert_true(c->count >= 1);
        for (uint32_t f = 0; f < c->count; f++)
            read_fragment(self, &s, c, f, &at);
    }
    assert_false(s.is_open);
}

void smb_reader_assemble(struct smb_reader *self)
{
    uint32_t last_writer = 0;

    smb_reader_take(self);
    for (size_t i = 0; i < self->chunks_len; i++) {
        assert_true(pfl_ids_is_writer(self->chunks[i].writer_id));
        if (self->chunks[i].writer_id > last_writer)
            last_writer = self->chunks[i].writer_id;
    }
    for (uint32_t w = 1; w <= last_writer; w++)
        read_writer(self, (uint16_t)w);
}
