/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy on write for the ring of a trace buffer, page by page, without the kernel's help: the writer
 * is our own code, and announces each change.
 *
 * new: notes which part is filled. more, repeatedly: copies the next pages. keep, called by the
 * ring's writers: copies a page before it changes. Each page is copied once; a bitmap records
 * which. A ring that is freed first leaves its mapping to the copy, which unmaps each part as soon
 * as it is copied.
 * Failures: only in new. Limits: a bit per page; a change costs at most one copy of the pages that
 * it touches, once. Owns the bits, and the mapping of a ring that is freed.
 */
#include "service/buffer/ring_copy.h"

#include <assert.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "service/buffer/retired_rings.h"

#define PAGE_BYTES 4096u

struct pfl_ring_copy {
    struct pfl_trace_ring *from; /* borrowed; NULL once it is gone */
    uint8_t *src;                /* its mapping; owned once it is gone */
    uint32_t src_bytes;          /* of the mapping */
    uint32_t src_used_bytes;     /* of it, once it is owned */
    uint8_t *dst;                /* borrowed: the other ring's mapping */
    uint32_t filled_bytes;       /* the range to copy */
    uint32_t at;                 /* all before is copied */
    uint64_t *is_copied;         /* owned: a bit for each page */
};

int pfl_ring_copy_new(struct pfl_trace_ring *from, struct pfl_trace_ring *to,
                      struct pfl_ring_copy **ret_copy)
{
    struct pfl_ring_copy *self;

    assert(to->size_bytes == from->size_bytes && to->used_bytes == 0);
    if (from->copy != NULL)
        return PFL_ESTATE;
    self = pfl_mem_zalloc(sizeof(*self));
    if (self == NULL)
        return PFL_ENOMEM;
    self->is_copied =
        pfl_mem_calloc(from->used_bytes / PAGE_BYTES / 64 + 1, sizeof(self->is_copied[0]));
    if (self->is_copied == NULL) {
        pfl_mem_free(self);
        return PFL_ENOMEM;
    }
    self->from = from;
    self->src = from->base;
    self->src_bytes = from->size_bytes;
    self->dst = to->base;
    self->filled_bytes = from->used_bytes;
    from->copy = self;
    to->used_bytes = from->used_bytes;
    to->write = from->write;
    *ret_copy = self;
    return 0;
}

void pfl_ring_copy_free(struct pfl_ring_copy *self)
{
    if (self == NULL)
        return;
    if (self->from != NULL)
        self->from->copy = NULL;
    else
        pfl_retired_rings_add(self->src, self->src_bytes, self->src_used_bytes);
    pfl_mem_free(self->is_copied);
    pfl_mem_free(self);
}

/* Bytes that were copied: 0 when the page is copied already. */
static uint32_t copy_page(struct pfl_ring_copy *self, uint32_t page)
{
    uint64_t bit = 1ull << (page % 64);
    uint32_t offset = page * PAGE_BYTES;
    uint32_t left = self->filled_bytes - offset;
    uint32_t bytes = left < PAGE_BYTES ? left : PAGE_BYTES;

    if (self->is_copied[page / 64] & bit)
        return 0;
    memcpy(self->dst + offset, self->src + offset, bytes);
    self->is_copied[page / 64] |= bit;
    return bytes;
}

bool pfl_ring_copy_more(struct pfl_ring_copy *self, uint32_t *budget_bytes)
{
    uint32_t page = self->at / PAGE_BYTES;
    uint32_t begin = page * PAGE_BYTES;

    while (self->at < self->filled_bytes && *budget_bytes != 0) {
        uint32_t bytes = copy_page(self, page++);

        *budget_bytes -= bytes < *budget_bytes ? bytes : *budget_bytes;
        self->at =
            page > (self->filled_bytes - 1) / PAGE_BYTES ? self->filled_bytes : page * PAGE_BYTES;
    }
    if (self->from == NULL && page * (uint64_t)PAGE_BYTES > begin)
        (void)madvise(self->src + begin, page * (uint64_t)PAGE_BYTES - begin, MADV_DONTNEED);
    return self->at == self->filled_bytes;
}

void pfl_ring_copy_keep(struct pfl_ring_copy *self, uint32_t offset, uint32_t bytes)
{
    uint64_t end = (uint64_t)offset + bytes;

    if (end > self->filled_bytes)
        end = self->filled_bytes;
    for (uint64_t at = offset & ~(uint64_t)(PAGE_BYTES - 1); at < end; at += PAGE_BYTES)
        (void)copy_page(self, (uint32_t)(at / PAGE_BYTES));
}

void pfl_ring_copy_follow(struct pfl_ring_copy *self, struct pfl_trace_ring *from)
{
    self->from = from;
}

void pfl_ring_copy_adopt(struct pfl_ring_copy *self)
{
    self->src_used_bytes = self->from->used_bytes;
    self->from = NULL;
}
