/* SPDX-License-Identifier: Apache-2.0 */
/* One table of a prime length, again and again: see pattern.h. */
#include "tests/support/pattern.h"

#include <string.h>

#define PERIOD 1048573u

static uint8_t table[PERIOD + PFL_PATTERN_PIECE_BYTES];
static bool is_made;

static void make(void)
{
    uint32_t seed = 1;

    for (size_t i = 0; i < PERIOD; i++) {
        seed = seed * 1664525u + 1013904223u;
        table[i] = (uint8_t)(seed >> 24);
    }
    memcpy(table + PERIOD, table, PFL_PATTERN_PIECE_BYTES);
    is_made = true;
}

const uint8_t *pfl_pattern_get(uint64_t at)
{
    if (!is_made)
        make();
    return table + at % PERIOD;
}

bool pfl_pattern_is(uint64_t at, const uint8_t *data, size_t len)
{
    while (len != 0) {
        size_t piece = len < PFL_PATTERN_PIECE_BYTES ? len : PFL_PATTERN_PIECE_BYTES;

        if (memcmp(pfl_pattern_get(at), data, piece) != 0)
            return false;
        at += piece;
        data += piece;
        len -= piece;
    }
    return true;
}
