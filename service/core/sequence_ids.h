/* SPDX-License-Identifier: Apache-2.0 */
/* The session's packet sequence ids: (producer, writer) -> 2, 3, ... in the order of first use. */
#ifndef PFL_SERVICE_SEQUENCE_IDS_H
#define PFL_SERVICE_SEQUENCE_IDS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"

#define PFL_SEQUENCE_IDS_MAX  (1u << 20)
#define PFL_SEQUENCE_ID_FIRST 2u /* 1 is the service itself */

struct pfl_sequence_ids {
    uint64_t *slots; /* owned: key << 32 | id, 0 is empty; a power of two, open addressing */
    size_t slots_len;
    size_t used;
    struct pfl_hash_key hash_key; /* secret: producers choose writer ids */
};

void pfl_sequence_ids_fini(struct pfl_sequence_ids *self); /* legal on zeroed memory */
/* The id of that writer, assigned if it has none. PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_sequence_ids_get(struct pfl_sequence_ids *self, uint16_t producer_id,
                                      uint16_t writer_id, uint32_t *ret_id);

/* `self` is empty: it gets the same ids as `from`, and assigns others independently. PFL_ENOMEM. */
PFL_MUST_USE int pfl_sequence_ids_copy(struct pfl_sequence_ids *self,
                                       const struct pfl_sequence_ids *from);

#endif
