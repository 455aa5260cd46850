/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's packet sequence ids: writer -> 2, 3, ... in the order of first use. An id is never
 * used again, because what a reader knows of its first writer (names, defaults) would hold for the
 * second one. Users share the numbers; the memory is charged to the writers' users.
 */
#ifndef PFL_SERVICE_SEQUENCE_IDS_H
#define PFL_SERVICE_SEQUENCE_IDS_H

#include "base/hash.h"
#include "base/shares.h"
#include "base/slot_table.h"
#include "service/buffer/trace_buffer.h"

#define PFL_SEQUENCE_ID_FIRST 2u                                   /* 1 is the service itself */
#define PFL_SEQUENCE_IDS_MAX  (UINT32_MAX - PFL_SEQUENCE_ID_FIRST) /* while the session lives */
/* Charged for each writer that has one. The slots are at least a quarter full. */
#define PFL_SEQUENCE_ID_BYTES (4 * sizeof(struct pfl_sequence_id))

struct pfl_sequence_id {
    uint64_t key; /* pfl_sequence_key */
    uint64_t who;
    uint32_t id;
    bool is_kept;
};

struct pfl_sequence_ids {
    struct pfl_slot_table table; /* of pfl_sequence_id; hashes are secret: producers choose ids */
    uint32_t last_id;
    size_t steps_left;          /* until writers are looked for that are gone */
    struct pfl_shares numbers;  /* all that were assigned, by user */
    struct pfl_shares *charged; /* borrowed; NULL: nobody is charged */
};

/* `charged` is borrowed until fini; NULL: nobody is charged. */
void pfl_sequence_ids_init(struct pfl_sequence_ids *self, const struct pfl_hash_key *hash_key,
                           struct pfl_shares *charged);
void pfl_sequence_ids_fini(struct pfl_sequence_ids *self); /* legal on zeroed memory */
/* The id of that writer, assigned if it has none. PFL_ENOMEM, PFL_ELIMIT: its user's share of the
 * numbers or of the memory is used up. */
PFL_MUST_USE int pfl_sequence_ids_get(struct pfl_sequence_ids *self,
                                      const struct pfl_trace_buffer_source *source,
                                      uint32_t *ret_id);
uint64_t pfl_sequence_ids_get_bytes(const struct pfl_sequence_ids *self);

/*
 * Forgets writers that are gone: is_due, keep for each that a buffer knows, forget. Due after as
 * many steps (a number assigned or refused) as were kept the last time, so that a step costs the
 * same at any size.
 */
bool pfl_sequence_ids_is_due(const struct pfl_sequence_ids *self);
void pfl_sequence_ids_keep(struct pfl_sequence_ids *self,
                           const struct pfl_trace_buffer_source *source);
/* Forgets the others, except those of connected producers. `serials`: of these, by their ids; 0:
 * not connected; NULL: there was no memory, and nothing is forgotten. `kept`: the calls of keep. */
void pfl_sequence_ids_forget(struct pfl_sequence_ids *self, const uint32_t *serials, size_t kept);

/* `self` is initialized: it gets the same ids as `from`, and assigns others independently.
 * PFL_ENOMEM. Nobody is charged for them. */
PFL_MUST_USE int pfl_sequence_ids_copy(struct pfl_sequence_ids *self,
                                       const struct pfl_sequence_ids *from);

#endif
