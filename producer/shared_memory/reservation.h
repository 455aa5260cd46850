/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placeholders for central buffers that are not known yet: data of startup sessions is held back
 * under a reservation until a session of the service supplies the buffer, or the deadline passes
 * (docs/abi/smb.md 5). A reservation is a number above all buffer ids. A used one is never used
 * again.
 */
#ifndef PFL_PRODUCER_RESERVATION_H
#define PFL_PRODUCER_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

#define PFL_RESERVATIONS_MAX   64u
#define PFL_RESERVATION_FIRST  0x10000u
#define PFL_RESERVATION_BUFFER UINT32_MAX /* not resolved yet */

struct pfl_reservations {
    uint32_t len;
    uint32_t buffers[PFL_RESERVATIONS_MAX]; /* 0: given up */
};

/* 0: none left. */
static inline uint32_t pfl_reservation_take(struct pfl_reservations *self)
{
    if (self->len == PFL_RESERVATIONS_MAX)
        return 0;
    self->buffers[self->len] = PFL_RESERVATION_BUFFER;
    return PFL_RESERVATION_FIRST + self->len++;
}

/* Returns the last one taken, if it was not used. */
static inline void pfl_reservation_give_back(struct pfl_reservations *self, uint32_t reservation)
{
    if (self->len > 0 && reservation == PFL_RESERVATION_FIRST + self->len - 1)
        self->len--;
}

/* A buffer id stays unchanged; a reservation becomes what it was resolved to. False: not
 * resolved. */
static inline bool pfl_reservation_resolve(const struct pfl_reservations *self, uint32_t *buffer)
{
    uint32_t at = *buffer - PFL_RESERVATION_FIRST;

    if (*buffer < PFL_RESERVATION_FIRST)
        return true;
    if (at >= self->len || self->buffers[at] == PFL_RESERVATION_BUFFER)
        return false;
    *buffer = self->buffers[at];
    return true;
}

#endif
