/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of a Trace Processor, as bytes. Each is appended; running out of memory fails the test.
 */
#ifndef PFL_TESTS_REPLIES_H
#define PFL_TESTS_REPLIES_H

#include "base/message.h"
#include "perfetto/trace_processor.fields.h"

/* A message of the stream: the reply to `method`, with `args` in field `id`. */
void reply_add(struct pfl_buf *out, unsigned method, uint32_t id, struct pfl_span args);
/* To a piece of a trace, and to its end. `error` may be NULL. */
void reply_add_appended(struct pfl_buf *out, const char *error);
void reply_add_finalized(struct pfl_buf *out, const char *error);

/* The result's first part: three columns, and two rows: 7, "one", NULL; -1, "", 0.5. */
void reply_make_result(struct pfl_buf *out, bool is_last);
void reply_add_result(struct pfl_buf *out, struct pfl_span result);

#endif
