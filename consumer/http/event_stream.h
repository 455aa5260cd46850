/* SPDX-License-Identifier: Apache-2.0 */
/* Server-sent events (text/event-stream of the HTML standard). Pure. */
#ifndef PFL_CONSUMER_EVENT_STREAM_H
#define PFL_CONSUMER_EVENT_STREAM_H

#include "base/buf.h"

#define PFL_EVENT_STREAM_TYPE "text/event-stream; charset=utf-8"

/* Appends an event whose data is `text`, of any lines, without CR and NUL. PFL_ENOMEM, PFL_ELIMIT:
 * `out` is not to be used. */
PFL_MUST_USE int pfl_event_stream_add(struct pfl_buf *out, struct pfl_span text);

#endif
