/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one HTTP/1.1 request that a metrics port understands (RFC 9112): GET /metrics, with any query
 * and without a body. Strict: nothing that two parsers could interpret differently. Pure.
 */
#ifndef PFL_BASE_METRICS_REQUEST_H
#define PFL_BASE_METRICS_REQUEST_H

#include "base/bytes.h"

/* Maximum of a request's head. */
#define PFL_METRICS_REQUEST_MAX_BYTES 8192u

/* The status to answer with: 200, 400, 404 (another path), 405 (another method), 431 (no end within
 * PFL_METRICS_REQUEST_MAX_BYTES), 505 (another version). 0: incomplete. */
unsigned pfl_metrics_request_judge(struct pfl_span head_untrusted);
/* The status in words; static. */
const char *pfl_metrics_request_words(unsigned status);

#endif
