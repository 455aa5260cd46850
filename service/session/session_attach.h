/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that outlive their consumer's connection (docs/abi/service.md section 10). */
#ifndef PFL_SERVICE_SESSION_ATTACH_H
#define PFL_SERVICE_SESSION_ATTACH_H

#include "service/core/service.h"

/* The consumer gives up its session under a key that its user may attach to. PFL_ENOENT: it has no
 * session; PFL_EINVAL: no key; PFL_EEXIST: the user has a session with that key; PFL_ENOMEM. */
PFL_MUST_USE int pfl_session_detach(struct pfl_service *service, struct pfl_consumer *consumer,
                                    struct pfl_span key);
/* PFL_EEXIST: the consumer has a session; PFL_EINVAL: no key; PFL_ENOENT: its user has no detached
 * session with that key. */
PFL_MUST_USE int pfl_session_attach(struct pfl_service *service, struct pfl_consumer *consumer,
                                    struct pfl_span key);

/* The service shuts down: ends the detached sessions. */
void pfl_session_end_detached(struct pfl_service *service);

#endif
