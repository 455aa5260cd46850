/* SPDX-License-Identifier: Apache-2.0 */
/* Parses requests for detaching and attaching sessions at this end. Pure. */
#ifndef PFL_CONSUMER_DETACH_REQUEST_H
#define PFL_CONSUMER_DETACH_REQUEST_H

#include <stdbool.h>

#include "base/buf.h"

#define PFL_DETACH_REQUEST_KEY_BYTES 256u

/* The key of a DetachRequest or AttachRequest; false: none, or invalid. */
bool pfl_detach_request_read_key(struct pfl_span args, char key[PFL_DETACH_REQUEST_KEY_BYTES]);
/* Appends the config of an EnableTracingRequest as in an AttachResponse. PFL_ENOMEM, PFL_ELIMIT. */
PFL_MUST_USE int pfl_detach_request_keep_config(struct pfl_span args, struct pfl_buf *out);

#endif
