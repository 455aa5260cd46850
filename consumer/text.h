/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of all reports: lines of text, and JSON, into a bounded buffer. Pure. */
#ifndef PFL_CONSUMER_TEXT_H
#define PFL_CONSUMER_TEXT_H

#include <jansson.h>

#include "base/buf.h"

#define PFL_TEXT_LINE_MAX_BYTES 2048u /* a longer line is cut */

/* PFL_ELIMIT, PFL_ENOMEM. */
PFL_MUST_USE int pfl_text_add(struct pfl_buf *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* jansson allocates with base/mem from here on; call before its first use. */
void pfl_text_init_json(void);
/* A peer's string as a JSON string, made UTF-8 by escaping what is not; NULL is "". */
json_t *pfl_text_json_peer(const char *str);
/* {"name": ..., "error": ...}, the latter unless `why` is "". NULL without memory. */
json_t *pfl_text_json_outcome(const char *name, const char *why);
/* A name as certificates have them is itself; all else is quoted (base/log.h). NULL gives "". */
const char *pfl_text_name(const char *name);
/* The common short name of a process, quoted (base/log.h): if the name is a path, with or without
 * options, the file's name; else all of it. */
const char *pfl_text_short_name(const char *name);
void pfl_text_json_number(json_t *object, const char *key, uint64_t value);
/* Appends `json` and a newline; takes the reference. Characters that a terminal interprets or does
 * not show (DEL, C1, directions, invisible ones) are escaped. On failure nothing was added.
 * PFL_ENOMEM (also for NULL), PFL_ELIMIT. */
PFL_MUST_USE int pfl_text_dump_json(json_t *json, struct pfl_buf *out);
/* The same on one line. */
PFL_MUST_USE int pfl_text_dump_json_line(json_t *json, struct pfl_buf *out);

#endif
