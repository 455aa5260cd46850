/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of pids in two levels: 64 blocks of 65536 bits, allocated when a pid of theirs is met.
 *
 * Happy path: add sets the bit and puts the pid on the list of fresh ones; process_stats looks
 * those up in /proc and clears the list.
 * Failure: no memory or a full list leaves the pid out; the next event of it tries again.
 */
#include "agent/probes/procfs/pid_set.h"

#include <string.h>

#include "base/mem.h"

#define BLOCK_BITS  65536
#define BLOCK_BYTES (BLOCK_BITS / 8)

void pfl_pid_set_fini(struct pfl_pid_set *self)
{
    for (size_t i = 0; i < PFL_PID_BLOCKS; i++)
        pfl_mem_free(self->blocks[i]);
    pfl_mem_free(self->fresh);
    memset(self, 0, sizeof(*self));
}

static bool get_bit(const struct pfl_pid_set *self, int32_t pid)
{
    const uint64_t *block = self->blocks[pid / BLOCK_BITS];
    int32_t bit = pid % BLOCK_BITS;

    return block != NULL && (block[bit / 64] >> (bit % 64) & 1) != 0;
}

static bool is_legal(int32_t pid)
{
    return pid > 0 && pid < PFL_PID_MAX;
}

bool pfl_pid_set_has(const struct pfl_pid_set *self, int32_t pid)
{
    return is_legal(pid) && get_bit(self, pid);
}

bool pfl_pid_set_add(struct pfl_pid_set *self, int32_t pid)
{
    uint64_t **block;
    int32_t bit = pid % BLOCK_BITS;

    if (!is_legal(pid) || get_bit(self, pid) || self->fresh_count == PFL_PID_FRESH_MAX)
        return false;
    block = &self->blocks[pid / BLOCK_BITS];
    if (*block == NULL)
        *block = pfl_mem_zalloc(BLOCK_BYTES);
    if (self->fresh == NULL)
        self->fresh = pfl_mem_calloc(PFL_PID_FRESH_MAX, sizeof(*self->fresh));
    if (*block == NULL || self->fresh == NULL)
        return false;
    (*block)[bit / 64] |= UINT64_C(1) << (bit % 64);
    self->fresh[self->fresh_count++] = pid;
    return true;
}

void pfl_pid_set_remove(struct pfl_pid_set *self, int32_t pid)
{
    if (pfl_pid_set_has(self, pid))
        self->blocks[pid / BLOCK_BITS][pid % BLOCK_BITS / 64] &= ~(UINT64_C(1) << (pid % 64));
}

void pfl_pid_set_clear_fresh(struct pfl_pid_set *self)
{
    self->fresh_count = 0;
}

void pfl_pid_set_clear(struct pfl_pid_set *self)
{
    for (size_t i = 0; i < PFL_PID_BLOCKS; i++) {
        if (self->blocks[i] != NULL)
            memset(self->blocks[i], 0, BLOCK_BYTES);
    }
    self->fresh_count = 0;
}
