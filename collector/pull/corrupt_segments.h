/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments whose bytes were not those of their SHA-256: they stay at the host, which lists them
 * again and again, and are read again only after a while, longer each time. A table of hashes with
 * a secret; where two segments share an entry, the newer has it, and the other may be read once
 * more. Pure; time is an argument.
 */
#ifndef PFL_COLLECTOR_PULL_CORRUPT_SEGMENTS_H
#define PFL_COLLECTOR_PULL_CORRUPT_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

#define PFL_CORRUPT_SEGMENTS_MAX         4096u
#define PFL_CORRUPT_SEGMENTS_WAIT_MS     600000u   /* the first time; then twice as long, */
#define PFL_CORRUPT_SEGMENTS_WAIT_MAX_MS 86400000u /* up to this */

/* Zeroed but for the key. */
struct pfl_corrupt_segments {
    struct pfl_hash_key key; /* random */
    struct pfl_corrupt_segment {
        uint64_t hash; /* 0: none */
        uint64_t due_ms;
        uint64_t wait_ms;
    } entries[PFL_CORRUPT_SEGMENTS_MAX];
};

struct pfl_corrupt_segment_name {
    const char *host;
    const char *incarnation;
    uint32_t number;
};

/* It was read, and its bytes were others. */
void pfl_corrupt_segments_note(struct pfl_corrupt_segments *self,
                               const struct pfl_corrupt_segment_name *name, uint64_t now_ms);
/* It is not to be read yet. */
bool pfl_corrupt_segments_waits(const struct pfl_corrupt_segments *self,
                                const struct pfl_corrupt_segment_name *name, uint64_t now_ms);

#endif
