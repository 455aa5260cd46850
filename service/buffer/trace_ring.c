/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a trace buffer.
 *
 * Mapped anonymous and without reserve: it costs memory as it fills, page by page, and everything
 * is returned by fini. Fails only at init (size out of range, no address space).
 * The ring owns its mapping and nothing else. Limit: 4 GiB - 4096, what 28 bits of places count.
 */
#include "service/buffer/trace_ring.h"

#include <sys/mman.h>

#define PAGE_BYTES 4096u

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
    if (self->base != NULL)
        (void)munmap(self->base, self->size_bytes);
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
