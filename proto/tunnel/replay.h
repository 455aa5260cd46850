/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of one direction of a stream by their offsets: which were written, sent, and released
 * because the peer has them. Sending can be rewound to any kept offset. Pure; a ring that grows as
 * needed, up to its maximum.
 *
 *     base           next              end
 *      |---- sent ----|---- to send ----|     end - base <= max_bytes
 */
#ifndef PFL_PROTO_TUNNEL_REPLAY_H
#define PFL_PROTO_TUNNEL_REPLAY_H

#include "base/bytes.h"
#include "base/err.h"

/* Allocates rings, for an owner whose rings outlive its process. */
struct pfl_replay_memory {
    uint8_t *(*get)(void *user, size_t capacity); /* a power of two; NULL: no memory */
    /* Releases memory from `get`, when its bytes are copied elsewhere or nothing is kept. */
    void (*give_back)(void *user, uint8_t *data, size_t capacity);
    void *user;
};

struct pfl_replay {
    const struct pfl_replay_memory *memory; /* borrowed until fini */
    uint8_t *data; /* owned; a ring of `capacity` bytes (a power of two), indexed by offset */
    size_t capacity;
    size_t max_bytes;
    uint64_t base;
    uint64_t next;
    uint64_t end;
};

/* `max_bytes` > 0. No allocation. */
void pfl_replay_init(struct pfl_replay *self, size_t max_bytes);
void pfl_replay_fini(struct pfl_replay *self); /* legal on zeroed memory */
/* Sets an allocator instead of base/mem. Call before the first append. */
void pfl_replay_set_memory(struct pfl_replay *self, const struct pfl_replay_memory *memory);
/*
 * Call after init and set_memory: restores a ring of another process, with all of it sent. `data`
 * of `capacity` bytes (both 0: nothing is kept) is what `get` returned there; the ring owns it now.
 * PFL_EPARSE: inconsistent; nothing was taken.
 */
PFL_MUST_USE int pfl_replay_restore(struct pfl_replay *self, uint64_t base, uint64_t end,
                                    uint8_t *data, size_t capacity);

/* PFL_ELIMIT, PFL_ENOMEM; nothing was appended then. */
PFL_MUST_USE int pfl_replay_append(struct pfl_replay *self, const void *data, size_t len);
/* Bytes from `next` on that lie in one piece, at most `max`; empty when there are none. Borrowed
 * until the next call that changes the ring. */
struct pfl_span pfl_replay_peek(const struct pfl_replay *self, size_t max);
/* The same from any `offset` in base .. end, at most `max` bytes. */
struct pfl_span pfl_replay_peek_at(const struct pfl_replay *self, uint64_t offset, size_t max);
/* `next` moves past `len` bytes, which must be there. */
void pfl_replay_skip(struct pfl_replay *self, size_t len);
/* Releases everything before `offset`. PFL_EPROTO outside base .. next. */
PFL_MUST_USE int pfl_replay_release(struct pfl_replay *self, uint64_t offset);
/* Sends again from `offset`. PFL_EPROTO outside base .. next. */
PFL_MUST_USE int pfl_replay_rewind(struct pfl_replay *self, uint64_t offset);

static inline size_t pfl_replay_kept(const struct pfl_replay *self)
{
    return (size_t)(self->end - self->base);
}

static inline size_t pfl_replay_unsent(const struct pfl_replay *self)
{
    return (size_t)(self->end - self->next);
}

#endif
