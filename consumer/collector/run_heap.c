/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A binary heap in an array: the children of entry i are 2i + 1 and 2i + 2, and none is before its
 * parent. So the first is at 0, and the second is one of its children. A step costs the logarithm
 * of their number. Failures: out of memory, at init alone. Limits: the maximum given there.
 */
#include "consumer/collector/run_heap.h"

#include <assert.h>
#include <stdbool.h>

#include "base/mem.h"

int pfl_run_heap_init(struct pfl_run_heap *self, size_t max)
{
    self->entries = pfl_mem_calloc(max, sizeof(*self->entries));
    self->max = max;
    return self->entries != NULL ? 0 : PFL_ENOMEM;
}

void pfl_run_heap_fini(struct pfl_run_heap *self)
{
    pfl_mem_free(self->entries);
    *self = (struct pfl_run_heap){0};
}

static bool is_before(const struct pfl_run_heap_entry *a, const struct pfl_run_heap_entry *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->run < b->run;
}

static void swap(struct pfl_run_heap *heap, size_t a, size_t b)
{
    struct pfl_run_heap_entry entry = heap->entries[a];

    heap->entries[a] = heap->entries[b];
    heap->entries[b] = entry;
}

void pfl_run_heap_add(struct pfl_run_heap *self, size_t run, uint64_t at_ns)
{
    size_t at = self->len++;

    assert(self->len <= self->max);
    self->entries[at] = (struct pfl_run_heap_entry){.at_ns = at_ns, .run = run};
    for (; at != 0 && is_before(&self->entries[at], &self->entries[(at - 1) / 2]);
         at = (at - 1) / 2)
        swap(self, at, (at - 1) / 2);
}

/* The earlier child; `len`: it has none. */
static size_t find_child(const struct pfl_run_heap *heap, size_t parent)
{
    size_t child = 2 * parent + 1;

    if (child >= heap->len)
        return heap->len;
    if (child + 1 < heap->len && is_before(&heap->entries[child + 1], &heap->entries[child]))
        child++;
    return child;
}

static void sink_first(struct pfl_run_heap *heap)
{
    size_t at = 0;
    size_t child = find_child(heap, at);

    while (child != heap->len && is_before(&heap->entries[child], &heap->entries[at])) {
        swap(heap, at, child);
        at = child;
        child = find_child(heap, at);
    }
}

size_t pfl_run_heap_get_first(const struct pfl_run_heap *self)
{
    return self->len != 0 ? self->entries[0].run : SIZE_MAX;
}

uint64_t pfl_run_heap_get_second_ns(const struct pfl_run_heap *self)
{
    size_t second = find_child(self, 0);

    return second < self->len ? self->entries[second].at_ns : UINT64_MAX;
}

void pfl_run_heap_move_first(struct pfl_run_heap *self, uint64_t at_ns)
{
    assert(self->len != 0 && at_ns >= self->entries[0].at_ns);
    self->entries[0].at_ns = at_ns;
    sink_first(self);
}

void pfl_run_heap_remove_first(struct pfl_run_heap *self)
{
    assert(self->len != 0);
    self->entries[0] = self->entries[--self->len];
    sink_first(self);
}
