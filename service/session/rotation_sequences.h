/* SPDX-License-Identifier: Apache-2.0 */
/* What a segment knows of each packet sequence: a small number, 0 of those that it has not seen. */
#ifndef PFL_SERVICE_ROTATION_SEQUENCES_H
#define PFL_SERVICE_ROTATION_SEQUENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slot_table.h"

#define PFL_ROTATION_SEQUENCES (1u << 20) /* in one segment */

struct pfl_rotation_sequence {
    uint32_t id;
    uint8_t state;
};

/* Zero-initialized. */
struct pfl_rotation_sequences {
    struct pfl_slot_table table; /* of pfl_rotation_sequence */
};

void pfl_rotation_sequences_fini(struct pfl_rotation_sequences *self); /* legal on zeroed memory */
uint8_t pfl_rotation_sequences_get(const struct pfl_rotation_sequences *self, uint32_t id);
/* PFL_ELIMIT, PFL_ENOMEM: it has no state, and keeps 0. `id` is not 0. */
PFL_MUST_USE int pfl_rotation_sequences_set(struct pfl_rotation_sequences *self, uint32_t id,
                                            uint8_t state);
/* The next segment begins: sequences in state `from` are in state `to`, all others in state 0,
 * which frees their room if there is memory to do so. */
void pfl_rotation_sequences_turn(struct pfl_rotation_sequences *self, uint8_t from, uint8_t to);

#endif
