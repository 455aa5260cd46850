/* SPDX-License-Identifier: Apache-2.0 */
/* What is read of requests so that a session can be detached and attached to at this end. Pure. */
#ifndef PFL_CONSUMER_DETACH_REQUEST_H
#define PFL_CONSUMER_DETACH_REQUEST_H

#include <stdbool.h>

#include "base/buf.h"

#define PFL_DETACH_REQUEST_KEY_BYTES 256u

/* The key of a DetachRequest or AttachRequest; false: there is none that could be one. */
bool pfl_detach_request_read_key(struct pfl_span args, char key[PFL_DETACH_REQUEST_KEY_BYTES]);
/* Appends the config of an EnableTracingRequest as an AttachResponse has it. PFL_ENOMEM,
 * PFL_ELIMIT. */
PFL_MUST_USE int pfl_detach_request_keep_config(struct pfl_span args, struct pfl_buf *out);

#endif
