/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments of a chunk: a size, then that many bytes, back to back.
 *
 * Happy path: read the size (one byte, or four with a redundant encoding) and take that many bytes.
 * The chunk's flags and the position in the chunk say which part of a packet they are.
 * Failures: a size that does not end in ten bytes or in the payload, or is larger than what is
 * left, ends the walk as corrupt. The writer's drop marker ends it as dropped. Neither advances the
 * iterator.
 * The walk for a packet loads every byte once, so that it uses what it checked. Measuring loads a
 * size twice, in shared memory too. Its sum stays inside the payload whatever is written meanwhile,
 * and only estimates how much to copy; packets are read from the copy.
 */
#include "service/buffer/fragments.h"

static enum pfl_fragment_kind get_kind(const struct pfl_fragments *self, const uint8_t *next)
{
    bool continues_prev = self->pos == self->begin && (self->flags & PFL_CHUNK_CONTINUES_PREV);
    bool continues_next = next == self->end && (self->flags & PFL_CHUNK_CONTINUES_NEXT);

    if (continues_next)
        return continues_prev ? PFL_FRAGMENT_CONTINUE : PFL_FRAGMENT_BEGIN;
    return continues_prev ? PFL_FRAGMENT_END : PFL_FRAGMENT_WHOLE;
}

/* Reads the size at `pos`; 0 bytes when there is none. */
static inline size_t get_size(const uint8_t *pos, size_t left, uint64_t *ret_size_untrusted)
{
    struct pfl_fragment_head head = {0, 0};

    if (left >= PFL_FRAGMENT_SIZE_BYTES)
        head = pfl_fragment_head_of(pos);
    if (head.size_bytes == 0)
        return pfl_fragment_get_size(pos, left, ret_size_untrusted);
    *ret_size_untrusted = head.bytes;
    return head.size_bytes;
}

enum pfl_fragments_state pfl_fragments_next(struct pfl_fragments *self,
                                            struct pfl_fragment *ret_fragment)
{
    size_t left = (size_t)(self->end - self->pos);
    uint64_t size_untrusted = 0;
    size_t size_bytes;

    if (left == 0)
        return PFL_FRAGMENTS_AT_END;
    size_bytes = get_size(self->pos, left, &size_untrusted);
    if (size_bytes == 0)
        return PFL_FRAGMENTS_CORRUPT;
    if (size_untrusted == PFL_FRAGMENT_DROP)
        return PFL_FRAGMENTS_DROPPED;
    if (size_untrusted > left - size_bytes)
        return PFL_FRAGMENTS_CORRUPT;

    ret_fragment->data = self->pos + size_bytes;
    ret_fragment->bytes = (uint32_t)size_untrusted;
    ret_fragment->bytes_with_size = (uint32_t)(size_bytes + size_untrusted);
    ret_fragment->kind = get_kind(self, ret_fragment->data + size_untrusted);
    self->pos = ret_fragment->data + size_untrusted;
    return PFL_FRAGMENTS_OK;
}

/*
 * How many more fragments, at most `count`, have the size of the one before `pos` in the same
 * spelling (`mask` covers it) and lie whole before `end`. Packets of one writer are often of one
 * size, and a size that is guessed right lets the loads of the next ones begin before this one's
 * has come.
 */
static inline uint32_t count_alike(const uint8_t *pos, const uint8_t *end, uint32_t count,
                                   size_t step, uint32_t mask)
{
    uint32_t word = pfl_fragment_load_word(pos - step) & mask;
    uint32_t alike = 0;

    while (alike < count && (size_t)(end - pos) >= step &&
           (pfl_fragment_load_word(pos) & mask) == word) {
        pos += step;
        alike++;
    }
    return alike;
}

struct pfl_fragments_sum pfl_fragments_measure(const uint8_t *payload, size_t bytes, uint32_t count)
{
    const uint8_t *pos = payload;
    const uint8_t *end = payload + bytes;
    struct pfl_fragments_sum sum = {0};

    for (uint32_t i = 0; i < count; i++) {
        uint64_t size_untrusted = 0;
        size_t size_bytes = pos == end ? 0 : get_size(pos, (size_t)(end - pos), &size_untrusted);
        size_t step = size_bytes + size_untrusted;

        if (size_bytes != 0 && size_untrusted == PFL_FRAGMENT_DROP) {
            sum.is_dropped = true;
            break;
        }
        if (size_bytes == 0 || size_untrusted > (size_t)(end - pos) - size_bytes) {
            sum.is_short = true;
            break;
        }
        pos += step;
        if (step >= sizeof(uint32_t) && (size_bytes == 1 || size_bytes == sizeof(uint32_t))) {
            uint32_t mask = size_bytes == 1 ? 0xffu : UINT32_MAX;
            uint32_t alike = count_alike(pos, end, count - 1 - i, step, mask);

            pos += alike * step;
            i += alike;
        }
        sum.last_fragment = (size_t)(pos - payload) - (size_t)size_untrusted;
    }
    sum.valid_bytes = (size_t)(pos - payload);
    return sum;
}
