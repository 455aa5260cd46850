/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a session by its unique name in a service's state (docs/abi/service.md 12). Pure. */
#ifndef PFL_CONSUMER_SESSION_FIND_H
#define PFL_CONSUMER_SESSION_FIND_H

#include "base/buf.h"

#define PFL_SERVICE_STATE_MAX_BYTES (16u << 20)

enum pfl_session_found {
    PFL_SESSION_NONE,
    PFL_SESSION_RUNNING, /* or about to */
    PFL_SESSION_OVER,    /* stopped, and waits to be read */
};

/* `state`: a serialized TracingServiceState. Copies are ignored. */
enum pfl_session_found pfl_session_find(struct pfl_span state, const char *name);
/* The same by the key under which it was detached; for a service that reports it. */
enum pfl_session_found pfl_session_find_left(struct pfl_span state, const char *key);
/* Of that name: a serialized TracingSession in `state`. False: none. */
bool pfl_session_get(struct pfl_span state, const char *name, struct pfl_span *ret_session);
/* How many triggers clone it; -1: the service does not report that, or there is no such session. */
int pfl_session_count_triggers(struct pfl_span state, const char *name);
/* Appends the TracingServiceState in one QueryServiceStateResponse; of descriptors only names and
 * categories. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_session_take_state(struct pfl_span response, struct pfl_buf *out);

#endif
