/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a session: the service's own packets around those of its buffers. */
#ifndef PFL_SERVICE_SESSION_READ_H
#define PFL_SERVICE_SESSION_READ_H

#include "service/readback.h"
#include "service/service.h"

/* One ReadBuffers call; borrowed by its readback until that is freed. */
struct pfl_session_read {
    struct pfl_service *service;   /* borrowed */
    struct pfl_session *session;   /* borrowed; NULL once it is gone */
    struct pfl_readback *readback; /* owned; NULL when nothing is being read */
};

/* Begins a pass; `self` is caller's storage and must not move until stop. PFL_ENOMEM. */
PFL_MUST_USE int pfl_session_read_start(struct pfl_session_read *self, struct pfl_service *service,
                                        struct pfl_session *session, uint64_t request_id);
/* Ends it, done or not; legal on zeroed memory. */
void pfl_session_read_stop(struct pfl_session_read *self);

#endif
