/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A producer's program and its packets: u8 memory in units of 256 bytes, u16 length and the
 * program, then packets, u16 length and bytes each. Whatever they are, the state is no longer than
 * its memory allows, a copy is the same, and nothing is left at the end.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "service/vm/vm.h"
#include "tests/support/fuzz_note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PACKETS_MAX 64u

static struct pfl_span take(struct pfl_reader *r)
{
    size_t len = pfl_reader_u16(r);

    return pfl_reader_bytes(r, len < r->left ? len : r->left);
}

static void encode(const struct pfl_vm *vm, struct pfl_buf *buf)
{
    pfl_buf_init(buf, pfl_vm_get_state_max_bytes(vm) + 1);
    if (pfl_vm_encode_state(vm, buf) != 0)
        abort();
}

static void check(const struct pfl_vm *vm, size_t memory_bytes)
{
    struct pfl_vm *copy;
    struct pfl_buf state;
    struct pfl_buf same;

    if (pfl_vm_get_state_max_bytes(vm) > memory_bytes)
        abort();
    encode(vm, &state);
    note_message("state", pfl_buf_get(&state));
    note("at most %zu bytes", pfl_vm_get_state_max_bytes(vm));
    if (pfl_vm_freeze(vm, &copy) != 0)
        abort();
    encode(copy, &same);
    if (state.len != same.len ||
        (state.len != 0 &&
         memcmp(pfl_buf_get(&state).data, pfl_buf_get(&same).data, state.len) != 0))
        abort();
    pfl_buf_fini(&state);
    pfl_buf_fini(&same);
    pfl_vm_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_reader r = pfl_reader_of(pfl_span_of(data, size));
    size_t memory_bytes = 256u * (size_t)pfl_reader_u8(&r);
    struct pfl_mem_stats stats;
    struct pfl_vm *vm;

    if (pfl_vm_new(take(&r), memory_bytes, &vm) == 0) {
        for (unsigned i = 0; i < PACKETS_MAX && r.left != 0 && !r.failed; i++)
            note("packet: %d", (int)pfl_vm_apply(vm, take(&r)));
        check(vm, memory_bytes);
        pfl_vm_free(vm);
    }
    pfl_mem_stats_get(&stats);
    if (stats.live_blocks != 0)
        abort();
    return 0;
}
