/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fragments: the payload of a chunk is `count` of them, back to back (docs/abi/smb.md 2).
 *
 *   +---------------+--------------+---------------+--------------+---
 *   | size (varint) | packet bytes | size (varint) | packet bytes | ...
 *   +---------------+--------------+---------------+--------------+---
 *
 * Writers reserve 4 bytes for a size and fill them in later with a varint that may be longer than
 * necessary ("redundant"): 0x80|b0, 0x80|b1, 0x80|b2, b3. Size 0 is legal and holds no packet.
 */
#ifndef PFL_ABI_FRAGMENT_H
#define PFL_ABI_FRAGMENT_H

#include <stddef.h>
#include <stdint.h>

#define PFL_FRAGMENT_SIZE_BYTES 4u
#define PFL_FRAGMENT_SIZE_MAX   0x0fffffffu /* 2^28 - 1, the capacity of four bytes */
/* In the size of a chunk's last fragment: the writer lost data; drop this packet. */
#define PFL_FRAGMENT_DROP       0x0fffffffu
#define PFL_FRAGMENT_VARINT_MAX 10u /* the most that a reader accepts */

/* The redundant 4-byte varint of `size`, which is at most PFL_FRAGMENT_SIZE_MAX. */
static inline void pfl_fragment_put_size4(uint8_t *dst, uint32_t size)
{
    dst[0] = (uint8_t)(size | 0x80u);
    dst[1] = (uint8_t)((size >> 7) | 0x80u);
    dst[2] = (uint8_t)((size >> 14) | 0x80u);
    dst[3] = (uint8_t)((size >> 21) & 0x7fu);
}

/*
 * Reads a size from `left` bytes at `src`. Returns how many bytes it took, 0 when the varint runs
 * past the end or past 10 bytes. The size is untrusted: compare it with what is left.
 */
static inline size_t pfl_fragment_get_size(const uint8_t *src, size_t left,
                                           uint64_t *ret_size_untrusted)
{
    uint64_t size = 0;

    for (size_t i = 0; i < left && i < PFL_FRAGMENT_VARINT_MAX; i++) {
        size |= (uint64_t)(src[i] & 0x7fu) << (7 * i);
        if (src[i] < 0x80u) {
            *ret_size_untrusted = size;
            return i + 1;
        }
    }
    return 0;
}

#endif
