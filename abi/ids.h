/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that name writers, chunks and buffers in shared memory (docs/abi/smb.md 1, 4, 5). */
#ifndef PFL_ABI_IDS_H
#define PFL_ABI_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_WRITER_ID_NONE 0u
#define PFL_WRITER_ID_MIN  1u
#define PFL_WRITER_ID_MAX  32767u /* 2^15 - 1 */

/* Chunk ids start here for every writer, go up by one for each chunk, and wrap at 2^32. */
#define PFL_CHUNK_ID_FIRST 0u

/* Central buffers are named by 16 bits; 0 never exists: a commit to it only frees the chunk. */
#define PFL_BUFFER_ID_NONE 0u
#define PFL_BUFFER_ID_MAX  65535u

static inline bool pfl_ids_is_writer(uint32_t writer_id_untrusted)
{
    return writer_id_untrusted >= PFL_WRITER_ID_MIN && writer_id_untrusted <= PFL_WRITER_ID_MAX;
}

/* How far chunk id `a` is ahead of `b`, in the ring of 2^32; negative: behind. */
static inline int32_t pfl_ids_chunk_distance(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b);
}

#endif
