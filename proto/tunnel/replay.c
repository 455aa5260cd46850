/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of bytes by their offsets: see replay.h.
 *
 * Happy path: append at `end`, take from `next`, release up to the peer's credit. The ring is a
 * power of two, so an offset's low bits are its index; growing copies the kept bytes to the indices
 * of the same offsets in a larger one. Failures: PFL_ELIMIT, PFL_ENOMEM, PFL_EPROTO and PFL_EPARSE
 * change nothing. Ownership: the ring's memory is from base/mem or the owner; the old one is
 * released once all kept bytes are in the new one. Limits: max_bytes kept; an emptied ring of more
 * than IDLE_BYTES releases its memory.
 */
#include "proto/tunnel/replay.h"

#include <assert.h>

#include "base/mem.h"

#define FIRST_CAPACITY 4096u
#define IDLE_BYTES     (4u << 20)

static uint8_t *get_from_mem(void *user, size_t capacity)
{
    (void)user;
    return pfl_mem_alloc(capacity);
}

static void give_back_to_mem(void *user, uint8_t *data, size_t capacity)
{
    (void)user;
    (void)capacity;
    pfl_mem_free(data);
}

static const struct pfl_replay_memory mem = {.get = get_from_mem, .give_back = give_back_to_mem};

static void give_back(const struct pfl_replay *r)
{
    if (r->data != NULL)
        r->memory->give_back(r->memory->user, r->data, r->capacity);
}

void pfl_replay_init(struct pfl_replay *self, size_t max_bytes)
{
    assert(max_bytes > 0 && max_bytes <= SIZE_MAX / 4);
    *self = (struct pfl_replay){.memory = &mem, .max_bytes = max_bytes};
}

void pfl_replay_fini(struct pfl_replay *self)
{
    give_back(self);
    *self = (struct pfl_replay){.memory = self->memory, .max_bytes = self->max_bytes};
}

void pfl_replay_set_memory(struct pfl_replay *self, const struct pfl_replay_memory *memory)
{
    assert(self->data == NULL);
    self->memory = memory;
}

int pfl_replay_restore(struct pfl_replay *self, uint64_t base, uint64_t end, uint8_t *data,
                       size_t capacity)
{
    assert(self->data == NULL);
    if (end < base || end - base > self->max_bytes || end - base > capacity ||
        (capacity & (capacity - 1)) != 0 || (capacity == 0) != (data == NULL))
        return PFL_EPARSE;
    self->data = data;
    self->capacity = capacity;
    self->base = base;
    self->next = self->end = end;
    return 0;
}

/* The bytes from `offset` on that lie in one piece. */
static size_t piece_at(const struct pfl_replay *r, uint64_t offset)
{
    return r->capacity - (size_t)(offset & (r->capacity - 1));
}

static void copy_in(struct pfl_replay *r, uint64_t offset, const uint8_t *data, size_t len)
{
    size_t first;

    if (len == 0)
        return;
    first = piece_at(r, offset);
    if (first > len)
        first = len;
    memcpy(r->data + (offset & (r->capacity - 1)), data, first);
    if (first < len)
        memcpy(r->data, data + first, len - first);
}

static int grow(struct pfl_replay *r, size_t need)
{
    struct pfl_replay larger = *r;
    uint64_t at = r->base;

    larger.capacity = r->capacity != 0 ? r->capacity : FIRST_CAPACITY;
    while (larger.capacity < need)
        larger.capacity *= 2;
    larger.data = r->memory->get(r->memory->user, larger.capacity);
    if (larger.data == NULL)
        return PFL_ENOMEM;
    while (at < r->end) {
        size_t len = piece_at(r, at);

        if (len > r->end - at)
            len = (size_t)(r->end - at);
        copy_in(&larger, at, r->data + (at & (r->capacity - 1)), len);
        at += len;
    }
    give_back(r);
    *r = larger;
    return 0;
}

int pfl_replay_append(struct pfl_replay *self, const void *data, size_t len)
{
    size_t kept = pfl_replay_kept(self);
    int rc;

    if (len > self->max_bytes - kept)
        return PFL_ELIMIT;
    if (kept + len > self->capacity) {
        rc = grow(self, kept + len);
        if (rc != 0)
            return rc;
    }
    copy_in(self, self->end, data, len);
    self->end += len;
    return 0;
}

struct pfl_span pfl_replay_peek_at(const struct pfl_replay *self, uint64_t offset, size_t max)
{
    size_t len = (size_t)(self->end - offset);

    assert(offset >= self->base && offset <= self->end);
    if (len > max)
        len = max;
    if (len == 0)
        return pfl_span_of(NULL, 0);
    if (len > piece_at(self, offset))
        len = piece_at(self, offset);
    return pfl_span_of(self->data + (offset & (self->capacity - 1)), len);
}

struct pfl_span pfl_replay_peek(const struct pfl_replay *self, size_t max)
{
    return pfl_replay_peek_at(self, self->next, max);
}

void pfl_replay_skip(struct pfl_replay *self, size_t len)
{
    assert(len <= pfl_replay_unsent(self));
    self->next += len;
}

int pfl_replay_release(struct pfl_replay *self, uint64_t offset)
{
    if (offset < self->base || offset > self->next)
        return PFL_EPROTO;
    self->base = offset;
    if (self->base == self->end && self->capacity > IDLE_BYTES) {
        give_back(self);
        self->data = NULL;
        self->capacity = 0;
    }
    return 0;
}

int pfl_replay_rewind(struct pfl_replay *self, uint64_t offset)
{
    if (offset < self->base || offset > self->next)
        return PFL_EPROTO;
    self->next = offset;
    return 0;
}
