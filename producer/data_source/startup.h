/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that the program started itself and that no session of the service has taken over yet:
 * its normalized config and its deadline.
 */
#ifndef PFL_PRODUCER_STARTUP_H
#define PFL_PRODUCER_STARTUP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define PFL_STARTUP_CONFIG_MAX    65536u
#define PFL_STARTUP_CONFIG_FIELDS 256u

struct pfl_startup {
    uint32_t reservation; /* of the buffer: see reservation.h */
    uint64_t deadline_ms;
    bool is_taken; /* a session that is set up has taken it over; its start follows */
    uint32_t buffer;
    size_t config_len;
    uint8_t config[]; /* DataSourceConfig without what is the service's, sorted by field */
};

/* PFL_EPARSE (not a message), PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_startup_new(struct pfl_span config, struct pfl_startup **ret_startup);
void pfl_startup_free(struct pfl_startup *self);
/* Is the session's config the same, except for what the service fills in? */
bool pfl_startup_is_for(const struct pfl_startup *self, struct pfl_span config);

#endif
