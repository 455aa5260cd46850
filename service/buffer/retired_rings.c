/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Releases large mappings in turns: see retired_rings.h.
 *
 * add: releases a small mapping, and any part that was never written to, at once. The first page of
 * a large mapping becomes a node of the list. release: unmaps the end of the oldest mapping, again
 * and again, until only its first page is left. Turns grow with the amount that waits, so that
 * memory is never filled faster than it is released. Owns the mappings. No failures: no memory is
 * needed.
 */
#include "service/buffer/retired_rings.h"

#include <sys/mman.h>

#include "base/list.h"

#define PAGE_BYTES      4096u
#define HUGE_PAGE_BYTES (2u << 20)

/* At the beginning of its mapping. */
struct retired {
    struct pfl_list node;
    size_t bytes;
};

static struct pfl_list retired = {&retired, &retired};
static uint64_t waiting_bytes;

void pfl_retired_rings_add(void *base, size_t bytes, size_t used_bytes)
{
    size_t kept = (used_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct retired *self = base;

    if (kept <= PFL_RETIRED_TURN_BYTES) {
        (void)munmap(base, bytes);
        return;
    }
    if (kept < bytes)
        (void)munmap((uint8_t *)base + kept, bytes - kept);
    self->bytes = kept;
    pfl_list_append(&retired, &self->node);
    waiting_bytes += kept;
}

/* So much of its end, or a little more: a huge page is not split. Returns how much. */
static size_t release_end(struct retired *self, size_t bytes)
{
    uintptr_t base = (uintptr_t)self;
    uintptr_t end = base + self->bytes;
    uintptr_t new_end = bytes < self->bytes ? (end - bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES : 0;

    if (new_end <= base) {
        pfl_list_remove(&self->node);
        bytes = self->bytes;
        (void)munmap(self, bytes);
        return bytes;
    }
    self->bytes = new_end - base;
    (void)munmap((uint8_t *)self + self->bytes, end - new_end);
    return end - new_end;
}

void pfl_retired_rings_release(void)
{
    uint64_t wanted = waiting_bytes / PFL_RETIRED_TURNS;
    uint64_t released = 0;

    if (wanted < PFL_RETIRED_TURN_BYTES)
        wanted = PFL_RETIRED_TURN_BYTES;
    while (released < wanted && !pfl_list_is_empty(&retired))
        released += release_end(PFL_CONTAINER_OF(retired.next, struct retired, node),
                                (size_t)(wanted - released));
    waiting_bytes -= released;
}

void pfl_retired_rings_release_all(void)
{
    while (waiting_bytes != 0)
        pfl_retired_rings_release();
}

uint64_t pfl_retired_rings_get_bytes(void)
{
    return waiting_bytes;
}
