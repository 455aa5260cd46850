/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a trace buffer.
 *
 * Mapped anonymous and without reserve: it costs memory as it fills, page by page. fini releases
 * all of it, a large mapping in turns of the loop (retired_rings.c). Fails only at init (size out
 * of range, no address space). The ring owns its mapping and nothing else. If the ring is freed
 * while it is being copied, the copy gets the mapping. Limit: 4 GiB - 4096, the range of 28 bits of
 * places.
 */
#include "service/buffer/trace_ring.h"

#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "service/buffer/retired_rings.h"
#include "service/buffer/ring_copy.h"

#define PAGE_BYTES 4096u
/* From these sizes on a copy goes past the caches. */
#define PAST_CACHE_RING_BYTES (16u * 1024 * 1024)
#define PAST_CACHE_BYTES      512u

int pfl_trace_ring_init(struct pfl_trace_ring *self, uint64_t size_bytes)
{
    void *base;

    memset(self, 0, sizeof(*self));
    if (size_bytes == 0 || size_bytes > PFL_TRACE_RING_MAX_BYTES)
        return PFL_ELIMIT;
    size_bytes = (size_bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    base = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return PFL_ENOMEM;
    self->base = base;
    self->size_bytes = (uint32_t)size_bytes;
    return 0;
}

void pfl_trace_ring_fini(struct pfl_trace_ring *self)
{
    if (self->copy != NULL)
        pfl_ring_copy_adopt(self->copy);
    else if (self->base != NULL)
        pfl_retired_rings_add(self->base, self->size_bytes, self->used_bytes);
    memset(self, 0, sizeof(*self));
}

struct pfl_record *pfl_trace_ring_place(struct pfl_trace_ring *self, uint32_t offset,
                                        uint32_t size_bytes)
{
    struct pfl_record *rec = pfl_trace_ring_at(self, offset);
    uint32_t end = offset + pfl_record_outer_bytes(size_bytes);

    if (end > self->used_bytes)
        self->used_bytes = end;
    *rec = (struct pfl_record){.size_bytes = (uint16_t)size_bytes};
    return rec;
}

void pfl_trace_ring_keep_for_copy(const struct pfl_trace_ring *self, uint32_t offset,
                                  uint32_t bytes)
{
    pfl_ring_copy_keep(self->copy, offset, bytes);
}

#ifdef __SSE2__
/* Whole cache lines, to an aligned place: their old content is not fetched first. */
static void copy_lines(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(src + i));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(src + i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(src + i + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(src + i + 48));

        _mm_stream_si128((__m128i *)(void *)(dst + i), a);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 16), b);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 32), c);
        _mm_stream_si128((__m128i *)(void *)(dst + i + 48), d);
    }
}
#else
/* arm64 processors detect that whole lines are written in order, and do not fetch them first. STNP
 * only hints at that. */
static void copy_lines(uint8_t *dst, const uint8_t *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}
#endif

void pfl_trace_ring_copy(const struct pfl_trace_ring *self, uint8_t *dst, const uint8_t *src,
                         size_t bytes)
{
    size_t head = (0u - (uintptr_t)dst) % 64;

    if (self->size_bytes < PAST_CACHE_RING_BYTES || bytes < PAST_CACHE_BYTES) {
        memcpy(dst, src, bytes);
        return;
    }
    memcpy(dst, src, head);
    copy_lines(dst + head, src + head, (bytes - head) & ~(size_t)63);
    head += (bytes - head) & ~(size_t)63;
    memcpy(dst + head, src + head, bytes - head);
}
