/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets that are repeated at the beginning of each file.
 *
 * Happy path: a packet replaces the previous one of its kind; there are few kinds. Failure: out of
 * memory; the old one is kept. Limits: number and bytes, in kept_packets.h.
 */
#include "consumer/merge/kept_packets.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define CAPACITY_MIN 8u

void pfl_kept_packets_fini(struct pfl_kept_packets *self)
{
    for (size_t i = 0; i < self->len; i++)
        pfl_mem_free(self->list[i].bytes);
    pfl_mem_free(self->list);
    *self = (struct pfl_kept_packets){0};
}

/* Without their hashes, all that are kept would be compared with each packet. */
static bool is_same(const struct pfl_kept_packet *kept, const struct pfl_kept_packet *like)
{
    return kept->len == like->len && kept->hash == like->hash &&
           memcmp(kept->bytes, like->bytes, like->len) == 0;
}

/* Its place; NULL: it has none yet. */
static struct pfl_kept_packet *find(struct pfl_kept_packets *self,
                                    const struct pfl_kept_packet *like, bool is_one)
{
    for (size_t i = 0; i < self->len; i++) {
        struct pfl_kept_packet *k = &self->list[i];

        if (k->kind == like->kind && k->machine == like->machine && (is_one || is_same(k, like)))
            return k;
    }
    return NULL;
}

static int grow(struct pfl_kept_packets *self)
{
    size_t capacity = self->capacity != 0 ? 2 * self->capacity : CAPACITY_MIN;
    struct pfl_kept_packet *list;

    if (self->len < self->capacity)
        return 0;
    list = pfl_mem_realloc(self->list, capacity * sizeof(*list));
    if (list == NULL)
        return PFL_ENOMEM;
    self->list = list;
    self->capacity = capacity;
    return 0;
}

size_t pfl_kept_packets_share(uint64_t file_bytes, size_t hosts)
{
    uint64_t share = file_bytes / PFL_KEPT_PACKETS_PART / (hosts != 0 ? hosts : 1);

    if (file_bytes == 0 || share > PFL_KEPT_PACKETS_BYTES)
        return PFL_KEPT_PACKETS_BYTES;
    return share > PFL_KEPT_PACKETS_BYTES_MIN ? (size_t)share : PFL_KEPT_PACKETS_BYTES_MIN;
}

static bool has_room(const struct pfl_kept_packets *self, const struct pfl_kept_packet *place,
                     size_t len)
{
    size_t freed = place != NULL ? place->len : 0;
    size_t max = self->max_bytes != 0 ? self->max_bytes : PFL_KEPT_PACKETS_BYTES;

    return (place != NULL || self->len < PFL_KEPT_PACKETS_MAX) &&
           len <= max - (self->bytes - freed);
}

int pfl_kept_packets_put(struct pfl_kept_packets *self, uint32_t kind, uint32_t machine,
                         bool is_one, struct pfl_span packet)
{
    static const struct pfl_hash_key key = {{0, 0}}; /* equal hashes cost time alone */
    struct pfl_kept_packet kept = {.kind = kind,
                                   .machine = machine,
                                   .bytes = (uint8_t *)packet.data,
                                   .len = packet.len,
                                   .hash = is_one ? 0 : pfl_hash_keyed(&key, packet)};
    struct pfl_kept_packet *place = find(self, &kept, is_one);

    if (place != NULL && is_same(place, &kept))
        return 0;
    if (!has_room(self, place, packet.len)) {
        self->left_out++;
        return 0;
    }
    kept.bytes = pfl_mem_memdup(packet.data, packet.len);
    if (kept.bytes == NULL || (place == NULL && grow(self) != 0)) {
        pfl_mem_free(kept.bytes);
        return PFL_ENOMEM;
    }
    if (place == NULL) {
        place = &self->list[self->len++];
    } else {
        self->bytes -= place->len;
        pfl_mem_free(place->bytes);
    }
    *place = kept;
    self->bytes += kept.len;
    return 0;
}
