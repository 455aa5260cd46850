/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request for a session that records nothing and waits for triggers: its consumer
 * observes its events, which name each activated trigger.
 */
#ifndef PFL_PROTO_IPC_TRIGGER_SESSION_H
#define PFL_PROTO_IPC_TRIGGER_SESSION_H

#include "base/buf.h"

/*
 * Appends an EnableTracingRequest. `triggers`: TriggerConfig's fields `triggers`, serialized. The
 * session ends after `timeout_ms`. PFL_ENOMEM, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_trigger_session_encode(struct pfl_span triggers, uint64_t timeout_ms,
                                            struct pfl_buf *out);

#endif
