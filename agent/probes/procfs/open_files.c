/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of pairs of process and descriptor, and a list of pairs to look up.
 *
 * Happy path: the page reader calls meet with the results of open, socket and dup; process_stats
 * looks up the list's entries, writes the paths, and adds them to the set. Failure: no memory or a
 * full set leaves a file out, and its path is written again later. Limits: PFL_OPEN_FILES_MAX, at
 * most half of the slots (4 MiB).
 */
#include "agent/probes/procfs/open_files.h"

#include <string.h>

#include "base/mem.h"

#define FIRST_SLOTS 1024u

void pfl_open_files_init(struct pfl_open_files *self, const struct pfl_hash_key *hash_key)
{
    *self = (struct pfl_open_files){.hash_key = *hash_key};
}

void pfl_open_files_fini(struct pfl_open_files *self)
{
    pfl_mem_free(self->slots);
    pfl_mem_free(self->fresh);
    memset(self, 0, sizeof(*self));
}

/* Not 0: no process has the number 0. */
static uint64_t make_key(struct pfl_open_file file)
{
    return (uint64_t)(uint32_t)file.id << 32 | (uint32_t)file.fd;
}

/* Where the key is, or the free slot where it would be. */
static size_t find_slot(const struct pfl_open_files *self, const uint64_t *slots, size_t count,
                        uint64_t key)
{
    struct pfl_span bytes = pfl_span_of((const uint8_t *)&key, sizeof(key));
    size_t at = (size_t)pfl_hash_keyed(&self->hash_key, bytes) & (count - 1);

    while (slots[at] != 0 && slots[at] != key)
        at = (at + 1) & (count - 1);
    return at;
}

bool pfl_open_files_has(const struct pfl_open_files *self, struct pfl_open_file file)
{
    uint64_t key = make_key(file);

    return self->slots != NULL &&
           self->slots[find_slot(self, self->slots, self->slot_count, key)] == key;
}

static bool grow(struct pfl_open_files *self)
{
    size_t count = self->slots == NULL ? FIRST_SLOTS : 2 * self->slot_count;
    uint64_t *slots = pfl_mem_calloc(count, sizeof(*slots));

    if (slots == NULL)
        return false;
    for (size_t i = 0; self->slots != NULL && i < self->slot_count; i++) {
        if (self->slots[i] != 0)
            slots[find_slot(self, slots, count, self->slots[i])] = self->slots[i];
    }
    pfl_mem_free(self->slots);
    self->slots = slots;
    self->slot_count = count;
    return true;
}

void pfl_open_files_add(struct pfl_open_files *self, struct pfl_open_file file)
{
    uint64_t key = make_key(file);
    size_t at;

    if (file.id <= 0 || file.fd < 0 || self->used == PFL_OPEN_FILES_MAX)
        return;
    if (2 * (self->used + 1) > self->slot_count && !grow(self))
        return;
    at = find_slot(self, self->slots, self->slot_count, key);
    if (self->slots[at] == 0)
        self->used++;
    self->slots[at] = key;
}

void pfl_open_files_meet(struct pfl_open_files *self, int32_t tid, int64_t result)
{
    if (tid <= 0 || result < 0 || result > INT32_MAX ||
        self->fresh_count == PFL_OPEN_FILES_FRESH_MAX)
        return;
    if (self->fresh == NULL)
        self->fresh = pfl_mem_calloc(PFL_OPEN_FILES_FRESH_MAX, sizeof(*self->fresh));
    if (self->fresh == NULL)
        return;
    self->fresh[self->fresh_count++] = (struct pfl_open_file){tid, (int32_t)result};
}

void pfl_open_files_clear_fresh(struct pfl_open_files *self)
{
    self->fresh_count = 0;
}

void pfl_open_files_clear(struct pfl_open_files *self)
{
    if (self->slots != NULL)
        memset(self->slots, 0, self->slot_count * sizeof(*self->slots));
    self->used = 0;
}

void pfl_file_turn_begin(struct pfl_file_turn *self, uint32_t max)
{
    self->left = max;
    self->from = self->next;
    self->next = 0;
}

uint32_t pfl_file_turn_get(const struct pfl_file_turn *self, int32_t pid)
{
    return pid < self->from ? 0 : self->left;
}

uint32_t pfl_file_turn_take(struct pfl_file_turn *self, int32_t pid, uint32_t wanted)
{
    uint32_t taken = wanted < self->left ? wanted : self->left;

    if (taken != 0 && taken == self->left)
        self->next = taken < wanted ? pid : pid + 1;
    self->left -= taken;
    return taken;
}
