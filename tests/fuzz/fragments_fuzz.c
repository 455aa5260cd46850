/* SPDX-License-Identifier: Apache-2.0 */
/* A chunk's payload: flags, count, bytes. Fragments never leave it, and both walks agree. */
#include <stdlib.h>

#include "service/buffer/fragments.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pfl_fragments it;
    struct pfl_fragment fragment;
    struct pfl_fragments_sum sum;
    uint32_t count;
    uint32_t walked = 0;

    if (size < 3)
        return 0;
    count = ((uint32_t)data[1] << 8 | data[2]) & PFL_CHUNK_COUNT_MAX;
    it = pfl_fragments_of(data + 3, size - 3, data[0]);
    sum = pfl_fragments_measure(data + 3, size - 3, count);
    if (sum.valid_bytes > size - 3 || (sum.is_short && sum.is_dropped))
        abort();
    while (walked < count && pfl_fragments_next(&it, &fragment) == PFL_FRAGMENTS_OK) {
        if (fragment.data < it.begin || fragment.bytes > (size_t)(it.end - fragment.data))
            abort();
        walked++;
    }
    if ((size_t)(it.pos - it.begin) != sum.valid_bytes)
        abort();
    return 0;
}
