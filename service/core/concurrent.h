/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes of other sessions' states in a session's trace (enable_concurrent_session_events), a
 * packet for each. A core.
 */
#ifndef PFL_SERVICE_CONCURRENT_H
#define PFL_SERVICE_CONCURRENT_H

#include "base/buf.h"
#include "base/shares.h"
#include "service/core/session_state.h"

/* Events of a session that were not read yet; their packets, of which none has 384 bytes. */
#define PFL_CONCURRENT_MAX       4096u
#define PFL_CONCURRENT_MAX_BYTES (3u << 19)
#define PFL_CONCURRENT_NAME_MAX  255u /* of another session's name; a longer one is cut */

struct pfl_service;
struct pfl_session;

struct pfl_concurrent {
    struct pfl_buf packets;   /* owned; encoded for the trace, in the order of their time */
    struct pfl_shares events; /* by the other session's user */
    uint64_t missing;         /* events, so far: a share was used up, or there was no memory */
    uint64_t since_ns;        /* BOOTTIME: this session's own state */
};

void pfl_concurrent_init(struct pfl_concurrent *self);
void pfl_concurrent_fini(struct pfl_concurrent *self); /* legal on zeroed memory */
/* If the new session wants it, its list begins with the states of those that exist. */
void pfl_concurrent_begin(struct pfl_service *service, struct pfl_session *session);
/* Moves the session to a state and records that for the others that want it. */
void pfl_concurrent_move(struct pfl_service *service, struct pfl_session *session,
                         enum pfl_session_state to);
/* The same for a session that is in its state already: a new one or a clone. */
void pfl_concurrent_tell(struct pfl_service *service, struct pfl_session *session);
/* Copies the list for a clone; without memory all its events are missing. */
void pfl_concurrent_copy(struct pfl_concurrent *self, const struct pfl_concurrent *from);
void pfl_concurrent_clear(struct pfl_concurrent *self); /* once they are in the trace */

#endif
