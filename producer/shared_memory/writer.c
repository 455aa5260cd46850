/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets into chunks (docs/abi/smb.md sections 2, 3 and 5).
 *
 * Happy path: packet_begin reserves 4 bytes for the fragment's size; the inline encoders write
 * between pos and end; begin/end of a nested message reserve and back-fill 4 bytes; packet_end
 * back-fills the size and raises the chunk's count once more, so that a scraper sees the packet as
 * whole; the next packet uses that slot, or an empty fragment fills it when the chunk goes.
 *
 *   chunk 7: | size | aaaa {size ? bbb |      flag CONTINUES_NEXT, NEEDS_PATCH
 *   chunk 8: | size | bbbb } cc | size | ...  flag CONTINUES_PREV; at "}" a patch for chunk 7
 *
 * A message's patch is sent when the message ends. Messages end innermost first, so the open
 * messages below it in the stack show whether more patches of its chunk will follow: no list is
 * kept.
 *
 * No further chunk: the last fragment's size becomes the drop marker, the chunk is committed, and
 * the packet's rest goes to a scratch area. The next packet that gets a chunk (searched when the
 * scratch area was filled once) has previous_packet_dropped. Ownership: the writer belongs to one
 * thread and holds a reference on its arbiter. Limits: PERFLEET_MAX_NESTING, PERFLEET_MAX_PACKET: a
 * packet beyond them is dropped.
 */
#include "producer/shared_memory/writer.h"

#include <string.h>

#include "abi/fragment.h"
#include "perfetto/trace_packet.fields.h"
#include "producer/platform/fork.h"
#include "producer/platform/heap.h"
#include "producer/platform/reentrancy.h"

#define LOSS_SMB_FULL   (TRACE_PACKET__DATA_LOSS_PRESENT | TRACE_PACKET__DATA_LOSS_SMB_FULL)
#define PACKET_MIN_ROOM 12u  /* a size and 8 bytes */
#define SMALL_ROOM      16   /* a small message begins with this much at least */
#define SMALL_MAX       127u /* what a size of one byte says */
#define SMALL_RESERVE   (PFL_FRAGMENT_SIZE_BYTES - 1)

/* An open nested message. */
struct frame {
    uint8_t *size_field; /* in the chunk at hand; NULL: in an earlier one, or lost */
    uint32_t start;      /* position in the packet of its first byte */
    uint32_t chunk_id;   /* with is_patch: where the size field lies */
    uint32_t offset;
    bool is_patch;
    bool is_small; /* one byte was reserved for the size; three more are, at the chunk's end */
};

struct pfl_trace_writer {
    struct perfleet_writer pub; /* pos == end outside packets: stray writes go nowhere */
    uint8_t *fragment;          /* size field of the current fragment; NULL while losing */
    uintptr_t origin;           /* pos - origin = position in the packet */
    uint8_t *next;              /* between packets: where the next one starts */
    uint8_t *chunk_end;
    struct pfl_arbiter_chunk chunk;
    uint16_t count; /* the header's count */
    bool is_inflated;
    bool is_in_packet;
    bool is_losing;      /* the current packet goes to the scratch area, at least its end */
    bool is_out_of_room; /* the last search found nothing */
    bool has_written;    /* the first packet was written whole */
    bool is_after_loss;
    bool is_reset;
    uint32_t depth;
    uint32_t depth_beyond; /* open messages past the stack: the packet is lost already */
    uint32_t lost_bytes;   /* since the last search */
    uint32_t next_chunk_id;
    uint32_t seen_clears;
    struct pfl_trace_writer_conf conf;
    uint16_t id;
    struct perfleet_writer_stats stats;
    struct frame frames[PERFLEET_MAX_NESTING];
    _Alignas(16) uint8_t scratch[PFL_WRITER_SCRATCH_BYTES];
};

_Static_assert(offsetof(struct pfl_trace_writer, pub) == 0, "the public part comes first");
_Static_assert(sizeof(struct pfl_trace_writer) <= 4096, "a writer is one page");

static struct pfl_trace_writer *self_of(struct perfleet_writer *w)
{
    return (struct pfl_trace_writer *)(void *)w;
}

static uint32_t position(const struct pfl_trace_writer *self)
{
    return (uint32_t)((uintptr_t)self->pub.pos - self->origin);
}

/* Continues at `at`, without changing the position in the packet. */
static void move_to(struct pfl_trace_writer *self, uint8_t *at, uint8_t *end)
{
    uint32_t pos = position(self);

    self->pub.pos = at;
    self->pub.end = end;
    self->origin = (uintptr_t)at - pos;
}

static void move_to_scratch(struct pfl_trace_writer *self)
{
    move_to(self, self->scratch, self->scratch + sizeof(self->scratch));
}

static bool get_chunk(struct pfl_trace_writer *self, uint16_t packets,
                      struct pfl_arbiter_chunk *ret_chunk)
{
    struct pfl_arbiter_want want = {
        .buffer = self->conf.buffer,
        .writer_id = self->id,
        .packets = packets,
        .chunk_id = self->next_chunk_id,
        .policy = self->conf.policy,
        .stalls = &self->stats.stalls,
    };

    if (self->is_out_of_room && want.policy == PERFLEET_STALL_THEN_DROP)
        want.policy = PERFLEET_DROP;
    self->lost_bytes = 0;
    pfl_reentrancy_enter();
    self->is_out_of_room = !pfl_arbiter_get_chunk(self->conf.arbiter, &want, ret_chunk);
    pfl_reentrancy_leave();
    if (self->is_out_of_room)
        return false;
    self->next_chunk_id++;
    self->stats.chunks++;
    return true;
}

static void give_chunk(struct pfl_trace_writer *self)
{
    if (self->is_inflated)
        *self->next = 0; /* the empty fragment of the unused slot */
    self->is_inflated = false;
    pfl_reentrancy_enter();
    pfl_arbiter_give_chunk(self->conf.arbiter, &self->chunk, self->conf.buffer);
    pfl_reentrancy_leave();
}

static void adopt_chunk(struct pfl_trace_writer *self, const struct pfl_arbiter_chunk *chunk)
{
    self->chunk = *chunk;
    self->count =
        pfl_chunk_count(atomic_load_explicit(&chunk->header->packets, memory_order_relaxed));
    self->next = pfl_chunk_payload(chunk->header);
    self->chunk_end = self->next + chunk->payload_bytes;
    self->is_inflated = false;
}

/* --- losing ------------------------------------------------------------------------------ */

/* The current packet cannot be finished: mark it in its chunk and write the rest nowhere. */
static void lose_packet(struct pfl_trace_writer *self)
{
    if (self->fragment != NULL)
        pfl_fragment_put_size4(self->fragment, PFL_FRAGMENT_DROP);
    self->fragment = NULL;
    for (uint32_t i = 0; i < self->depth; i++)
        self->frames[i].size_field = NULL;
    if (self->chunk.header != NULL)
        give_chunk(self);
    self->is_losing = true;
    move_to_scratch(self);
}

/* --- fragments --------------------------------------------------------------------------- */

/* The current chunk is full and the packet continues: writes sizes and flags of the old chunk. */
static void finish_fragment(struct pfl_trace_writer *self)
{
    uint32_t chunk_id = self->next_chunk_id - 2; /* the new chunk has its number already */
    uint8_t *payload = pfl_chunk_payload(self->chunk.header);
    bool has_patches = false;

    pfl_fragment_put_size4(self->fragment,
                           (uint32_t)(self->pub.pos - self->fragment) - PFL_FRAGMENT_SIZE_BYTES);
    for (uint32_t i = 0; i < self->depth; i++) {
        struct frame *f = &self->frames[i];

        if (f->size_field == NULL)
            continue;
        f->is_patch = true;
        f->chunk_id = chunk_id;
        f->offset = (uint32_t)(f->size_field - payload);
        f->size_field = NULL;
        has_patches = true;
    }
    if (has_patches)
        pfl_chunk_set_flag(self->chunk.header, PFL_CHUNK_NEEDS_PATCH);
    pfl_chunk_set_flag(self->chunk.header, PFL_CHUNK_CONTINUES_NEXT);
}

/* The small message at the bottom of the stack needs a size of 4 bytes after all: what follows the
 * size moves into the bytes that were kept for this. */
static void widen(struct pfl_trace_writer *self)
{
    struct frame *f = &self->frames[0];
    uint8_t *from = f->size_field + 1;

    f->is_small = false;
    if (f->size_field == NULL)
        return;
    memmove(from + SMALL_RESERVE, from, (size_t)(self->pub.pos - from));
    self->pub.pos += SMALL_RESERVE;
    self->pub.end += SMALL_RESERVE;
    f->start += SMALL_RESERVE;
    for (uint32_t i = 1; i < self->depth; i++) {
        self->frames[i].size_field += SMALL_RESERVE;
        self->frames[i].start += SMALL_RESERVE;
    }
}

/* Makes room in the middle of a packet: the next chunk, or the scratch area. */
static void make_room(struct pfl_trace_writer *self)
{
    struct pfl_arbiter_chunk chunk;
    uint16_t packets = pfl_chunk_packets_of(1, PFL_CHUNK_CONTINUES_PREV);

    if (self->is_losing) {
        self->lost_bytes += PFL_WRITER_SCRATCH_BYTES;
        move_to_scratch(self);
        return;
    }
    if (self->depth > 0 && self->frames[0].is_small)
        widen(self);
    if (position(self) > PERFLEET_MAX_PACKET - PFL_PAGE_MAX_BYTES ||
        !get_chunk(self, packets, &chunk)) {
        lose_packet(self);
        return;
    }
    finish_fragment(self);
    give_chunk(self);
    adopt_chunk(self, &chunk);
    self->fragment = self->next;
    move_to(self, self->next + PFL_FRAGMENT_SIZE_BYTES, self->chunk_end);
}

void perfleet_raw(struct perfleet_writer *w, const void *data, size_t bytes)
{
    struct pfl_trace_writer *self = self_of(w);
    const uint8_t *from = data;

    if (!self->is_in_packet)
        return;
    while (bytes > 0) {
        size_t n = (size_t)(w->end - w->pos);

        if (self->is_losing) {
            self->lost_bytes += (uint32_t)(bytes < UINT16_MAX ? bytes : UINT16_MAX);
            return;
        }
        if (n == 0) {
            make_room(self);
            continue;
        }
        n = n < bytes ? n : bytes;
        memcpy(w->pos, from, n);
        w->pos += n;
        from += n;
        bytes -= n;
    }
}

/* --- nested messages --------------------------------------------------------------------- */

void perfleet_begin(struct perfleet_writer *w, uint32_t field)
{
    struct pfl_trace_writer *self = self_of(w);
    struct frame *f;
    uint8_t tag[8];

    if (!self->is_in_packet)
        return;
    if (self->depth == PERFLEET_MAX_NESTING) {
        if (!self->is_losing)
            lose_packet(self);
        self->depth_beyond++;
        return;
    }
    if (__builtin_expect(w->end - w->pos >= (ptrdiff_t)(sizeof(tag) + PFL_FRAGMENT_SIZE_BYTES), 1))
        w->pos = perfleet_put_tag_(w->pos, field, 2);
    else
        perfleet_raw(w, tag, (size_t)(perfleet_put_tag_(tag, field, 2) - tag));
    if ((size_t)(w->end - w->pos) < PFL_FRAGMENT_SIZE_BYTES)
        make_room(self);
    f = &self->frames[self->depth++];
    f->size_field = self->is_losing ? NULL : w->pos;
    f->is_patch = false;
    f->is_small = false;
    w->pos += PFL_FRAGMENT_SIZE_BYTES;
    f->start = position(self);
}

void pfl_trace_writer_begin_small(struct perfleet_writer *w, uint32_t field)
{
    struct pfl_trace_writer *self = self_of(w);
    struct frame *f = &self->frames[0];

    if (self->depth != 0 || self->is_losing || w->end - w->pos < SMALL_ROOM) {
        perfleet_begin(w, field);
        return;
    }
    w->pos = perfleet_put_tag_(w->pos, field, 2);
    f->size_field = w->pos++;
    f->is_patch = false;
    f->is_small = true;
    f->start = position(self);
    w->end -= SMALL_RESERVE;
    self->depth = 1;
}

/* The end of a small message: its size in one byte, or in four after all. */
static void end_small(struct pfl_trace_writer *self, struct frame *f, uint32_t size)
{
    if (__builtin_expect(size > SMALL_MAX, 0)) {
        widen(self);
        pfl_fragment_put_size4(f->size_field, size);
        return;
    }
    *f->size_field = (uint8_t)size;
    self->pub.end += SMALL_RESERVE;
}

/* Is another size field of the same chunk still open? Called after the frame was popped. */
static bool has_more_patches(const struct pfl_trace_writer *self, uint32_t chunk_id)
{
    for (uint32_t i = 0; i < self->depth; i++) {
        if (self->frames[i].is_patch && self->frames[i].chunk_id == chunk_id)
            return true;
    }
    return false;
}

static void send_patch(struct pfl_trace_writer *self, const struct frame *f, uint32_t size)
{
    struct pfl_arbiter_patch patch = {
        .chunk_id = f->chunk_id,
        .writer_id = self->id,
        .buffer = self->conf.buffer,
        .offset = f->offset,
        .has_more = has_more_patches(self, f->chunk_id),
    };

    pfl_fragment_put_size4(patch.data, size);
    pfl_reentrancy_enter();
    pfl_arbiter_add_patch(self->conf.arbiter, &patch);
    pfl_reentrancy_leave();
}

void perfleet_end(struct perfleet_writer *w)
{
    struct pfl_trace_writer *self = self_of(w);
    struct frame *f;
    uint32_t size;

    if (!self->is_in_packet)
        return;
    if (self->depth_beyond > 0) {
        self->depth_beyond--;
        return;
    }
    if (self->depth == 0)
        return;
    f = &self->frames[--self->depth];
    size = position(self) - f->start;
    if (f->is_small && f->size_field != NULL)
        end_small(self, f, size);
    else if (__builtin_expect(f->size_field != NULL, 1))
        pfl_fragment_put_size4(f->size_field, size);
    else if (f->is_patch)
        send_patch(self, f, self->is_losing ? 0 : size);
}

/* --- packets ----------------------------------------------------------------------------- */

/* Between packets: gets a chunk with room for a packet. False: none is available. */
static bool renew_chunk(struct pfl_trace_writer *self)
{
    struct pfl_arbiter_chunk chunk;

    if (self->is_out_of_room && self->lost_bytes < PFL_WRITER_SCRATCH_BYTES)
        return false;
    if (self->chunk.header != NULL)
        give_chunk(self);
    if (!get_chunk(self, 0, &chunk))
        return false;
    adopt_chunk(self, &chunk);
    return true;
}

static bool has_room_for_packet(const struct pfl_trace_writer *self)
{
    return self->chunk.header != NULL &&
           (size_t)(self->chunk_end - self->next) >= PACKET_MIN_ROOM &&
           self->count < PFL_CHUNK_PACKETS_MAX + self->is_inflated;
}

static void begin_losing(struct pfl_trace_writer *self)
{
    self->fragment = NULL;
    self->is_losing = true;
    self->pub.pos = self->scratch;
    self->pub.end = self->scratch + sizeof(self->scratch);
    self->origin = (uintptr_t)self->pub.pos;
}

static void write_sequence_fields(struct pfl_trace_writer *self)
{
    uint8_t *p = self->pub.pos;

    if (!self->has_written)
        p = perfleet_put_varint_(perfleet_put_tag_(p, TRACE_PACKET__FIRST_PACKET_ON_SEQUENCE, 0),
                                 1);
    if (self->is_after_loss)
        p = perfleet_put_varint_(perfleet_put_tag_(p, TRACE_PACKET__PREVIOUS_PACKET_DROPPED, 0),
                                 LOSS_SMB_FULL);
    self->pub.pos = p;
}

void perfleet_packet_begin(struct perfleet_writer *w)
{
    struct pfl_trace_writer *self = self_of(w);

    if (__builtin_expect(self->is_in_packet, 0))
        perfleet_packet_end(w);
    self->is_in_packet = true;
    if (__builtin_expect(!has_room_for_packet(self), 0) && !renew_chunk(self)) {
        begin_losing(self);
        return;
    }
    if (!self->is_inflated)
        self->count = pfl_chunk_add_packet(self->chunk.header);
    self->is_inflated = false;
    self->fragment = self->next;
    w->pos = self->next + PFL_FRAGMENT_SIZE_BYTES;
    w->end = self->chunk_end;
    self->origin = (uintptr_t)w->pos;
    if (__builtin_expect(!self->has_written || self->is_after_loss, 0))
        write_sequence_fields(self);
}

static void end_lost_packet(struct pfl_trace_writer *self)
{
    self->lost_bytes += (uint32_t)(self->pub.pos - self->scratch) + PFL_FRAGMENT_SIZE_BYTES;
    self->stats.dropped++;
    self->is_losing = false;
    self->is_after_loss = true;
    self->is_reset = true;
}

void perfleet_packet_end(struct perfleet_writer *w)
{
    struct pfl_trace_writer *self = self_of(w);

    if (!self->is_in_packet)
        return;
    self->depth_beyond = 0;
    while (self->depth > 0)
        perfleet_end(w);
    self->is_in_packet = false;
    if (__builtin_expect(self->is_losing, 0)) {
        end_lost_packet(self);
    } else {
        self->next = w->pos;
        pfl_fragment_put_size4(self->fragment,
                               (uint32_t)(w->pos - self->fragment) - PFL_FRAGMENT_SIZE_BYTES);
        self->has_written = true;
        self->is_after_loss = false;
        self->stats.packets += position(self) > 0; /* an empty one is no packet to readers */
        if (__builtin_expect(self->next == self->chunk_end, 0)) {
            give_chunk(self);
        } else {
            self->count = pfl_chunk_add_packet(self->chunk.header);
            self->is_inflated = true;
        }
    }
    w->pos = NULL;
    w->end = NULL;
}

/* --- the writer -------------------------------------------------------------------------- */

static size_t mapped_bytes(const struct pfl_state *state)
{
    return sizeof(struct pfl_trace_writer) + (state == NULL ? 0 : state->thread_bytes);
}

int pfl_trace_writer_new(const struct pfl_trace_writer_conf *conf,
                         struct pfl_trace_writer **ret_writer)
{
    size_t bytes = mapped_bytes(conf->state);
    struct pfl_trace_writer *self = pfl_heap_map(bytes);
    int rc;

    if (self == NULL)
        return PFL_ENOMEM;
    pfl_reentrancy_enter();
    rc = pfl_arbiter_open_writer(conf->arbiter, conf->buffer, &self->id);
    pfl_reentrancy_leave();
    if (rc != 0) {
        pfl_heap_unmap(self, bytes);
        return rc;
    }
    self->conf = *conf;
    self->conf.state = pfl_state_ref(conf->state);
    pfl_arbiter_ref(conf->arbiter);
    self->next_chunk_id = PFL_CHUNK_ID_FIRST;
    self->is_reset = true;
    self->seen_clears = atomic_load_explicit(conf->clears, memory_order_relaxed);
    *ret_writer = self;
    return 0;
}

void pfl_trace_writer_free(struct pfl_trace_writer *self)
{
    struct pfl_state *state = self == NULL ? NULL : self->conf.state;

    if (self == NULL || pfl_fork_is_child())
        return;
    pfl_reentrancy_enter();
    perfleet_writer_flush(&self->pub);
    pfl_arbiter_close_writer(self->conf.arbiter, self->id, self->conf.buffer);
    pfl_arbiter_unref(self->conf.arbiter);
    if (state != NULL && state->thread_bytes != 0 && state->on_thread_end != NULL)
        state->on_thread_end(state->user, perfleet_thread_state(&self->pub));
    pfl_heap_unmap(self, mapped_bytes(state));
    pfl_state_unref(state);
    pfl_reentrancy_leave();
}

void *perfleet_session_state(struct perfleet_writer *writer)
{
    struct pfl_state *state = self_of(writer)->conf.state;

    return state != NULL && state->session_bytes != 0 ? state->session : NULL;
}

/* Behind the writer. */
void *perfleet_thread_state(struct perfleet_writer *writer)
{
    const struct pfl_state *state = self_of(writer)->conf.state;

    return state != NULL && state->thread_bytes != 0 ? self_of(writer) + 1 : NULL;
}

struct perfleet_writer *pfl_trace_writer_get_public(struct pfl_trace_writer *self)
{
    return &self->pub;
}

const bool *pfl_trace_writer_get_reset(const struct pfl_trace_writer *self)
{
    return &self->is_reset;
}

uint64_t pfl_trace_writer_generation(const struct pfl_trace_writer *self)
{
    return self->conf.generation;
}

void perfleet_writer_close(struct perfleet_writer *writer)
{
    if (writer != NULL)
        pfl_trace_writer_free(self_of(writer));
}

void perfleet_writer_flush(struct perfleet_writer *writer)
{
    struct pfl_trace_writer *self = self_of(writer);

    perfleet_packet_end(writer);
    if (self->chunk.header != NULL)
        give_chunk(self);
}

bool perfleet_writer_take_reset(struct perfleet_writer *writer)
{
    struct pfl_trace_writer *self = self_of(writer);
    uint32_t clears = atomic_load_explicit(self->conf.clears, memory_order_relaxed);
    bool is_reset = self->is_reset || clears != self->seen_clears;

    self->is_reset = false;
    self->seen_clears = clears;
    return is_reset;
}

uint32_t perfleet_writer_instance(const struct perfleet_writer *writer)
{
    return ((const struct pfl_trace_writer *)(const void *)writer)->conf.instance;
}

void perfleet_writer_stats_get(const struct perfleet_writer *writer,
                               struct perfleet_writer_stats *ret_stats)
{
    *ret_stats = ((const struct pfl_trace_writer *)(const void *)writer)->stats;
}
