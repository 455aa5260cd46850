/* SPDX-License-Identifier: Apache-2.0 */
/* Corrupt segments: see corrupt_segments.h. Owns nothing; cannot fail. */
#include "collector/pull/corrupt_segments.h"

#include <stdio.h>
#include <string.h>

#include "base/ulid.h"
#include "proto/tunnel/identity.h"

/* Never 0. The names are the host's words: cut, if they are no names. */
static uint64_t hash_of(const struct pfl_corrupt_segments *self,
                        const struct pfl_corrupt_segment_name *name)
{
    char text[PFL_IDENTITY_NAME_BYTES + PFL_ULID_BYTES + 16];

    (void)snprintf(text, sizeof(text), "%u %s %s", name->number, name->incarnation, name->host);
    return pfl_hash_keyed(&self->key, pfl_span_of(text, strlen(text))) | 1;
}

static size_t find(uint64_t hash)
{
    return (hash >> 32) % PFL_CORRUPT_SEGMENTS_MAX;
}

void pfl_corrupt_segments_note(struct pfl_corrupt_segments *self,
                               const struct pfl_corrupt_segment_name *name, uint64_t now_ms)
{
    uint64_t hash = hash_of(self, name);
    struct pfl_corrupt_segment *entry = &self->entries[find(hash)];
    uint64_t wait_ms = PFL_CORRUPT_SEGMENTS_WAIT_MS;

    if (entry->hash == hash)
        wait_ms = entry->wait_ms < PFL_CORRUPT_SEGMENTS_WAIT_MAX_MS / 2
                      ? entry->wait_ms * 2
                      : PFL_CORRUPT_SEGMENTS_WAIT_MAX_MS;
    *entry = (struct pfl_corrupt_segment){hash, now_ms + wait_ms, wait_ms};
}

bool pfl_corrupt_segments_waits(const struct pfl_corrupt_segments *self,
                                const struct pfl_corrupt_segment_name *name, uint64_t now_ms)
{
    uint64_t hash = hash_of(self, name);
    const struct pfl_corrupt_segment *entry = &self->entries[find(hash)];

    return entry->hash == hash && now_ms < entry->due_ms;
}
