/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a TLS handshake has taken too long. Pure: the owner's timer calls it. Each flight of ours,
 * and there are two at most, waits for an answer as long as the first. A loop that was busy with a
 * thousand others may not have read yet what arrived in time: so a handshake may exceed its
 * deadline by one turn of the loop, and by up to PFL_HANDSHAKE_GRACES_MAX as long as each brings
 * bytes.
 */
#ifndef PFL_BASE_IO_HANDSHAKE_DEADLINE_H
#define PFL_BASE_IO_HANDSHAKE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_HANDSHAKE_GRACES_MAX 8u

/* Zero is a new one, but for the timeout. */
struct pfl_handshake_deadline {
    uint64_t timeout_ms;
    unsigned graces;   /* taken */
    bool has_received; /* since the last grace */
    bool has_answered; /* sent something of the handshake */
};

/* The peer's bytes were processed, and answered or not. True: start the timer again. */
bool pfl_handshake_deadline_on_bytes(struct pfl_handshake_deadline *self, bool is_answered);
/* The timer fired. True: one turn of the loop more; false: it is over. */
bool pfl_handshake_deadline_take_grace(struct pfl_handshake_deadline *self);

#endif
