/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session that waits for the triggers of another one and records nothing. The waiting session is
 * separate, so that the watched session survives the loss of this connection. Pure.
 */
#ifndef PFL_CONSUMER_TRIGGER_WAIT_H
#define PFL_CONSUMER_TRIGGER_WAIT_H

#include "base/buf.h"

#define PFL_TRIGGER_WAIT_MAX_BYTES 8192u

/*
 * Appends the EnableTracingRequest of a session with the triggers of the session `name` in `state`,
 * a serialized TracingServiceState. It ends `margin_ms` before that one. PFL_ENOENT: the service
 * does not list them; PFL_ENOMEM, PFL_ELIMIT.
 */
PFL_MUST_USE int pfl_trigger_wait_encode(struct pfl_span state, const char *name,
                                         uint64_t margin_ms, struct pfl_buf *out);

#endif
