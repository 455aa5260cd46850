/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of an answer as text for people, as CSV (RFC 4180) or as JSON, an object a line. Pure. */
#ifndef PFL_CONSUMER_ANSWER_FORMAT_H
#define PFL_CONSUMER_ANSWER_FORMAT_H

#include "base/buf.h"
#include "consumer/ask/answer_columns.h"
#include "consumer/ask/query_cells.h"

/* Of one row, in any form: a reply with escapes. */
#define PFL_ANSWER_ROW_MAX_BYTES (128u << 20)
#define PFL_ANSWER_START_BYTES   32u

enum pfl_answer_form {
    PFL_ANSWER_TEXT, /* columns of a fixed width; strings cut, and safe for a terminal */
    PFL_ANSWER_CSV,
    PFL_ANSWER_JSON,
    PFL_ANSWER_SUMMARY, /* a line for the trace, and its only cell, many lines of text */
};

struct pfl_answer_row {
    const char *host;  /* "": not known */
    const char *start; /* likewise */
    const char *trace;
    const struct pfl_cell *cells; /* as many as columns, without ours */
};

/* What comes before the first row; nothing with JSON. */
PFL_MUST_USE int pfl_answer_format_head(enum pfl_answer_form form,
                                        const struct pfl_answer_columns *columns,
                                        struct pfl_buf *out);
/* Appends a row. PFL_ENOMEM, PFL_ELIMIT (of `out`). */
PFL_MUST_USE int pfl_answer_format_row(enum pfl_answer_form form,
                                       const struct pfl_answer_columns *columns,
                                       const struct pfl_answer_row *row, struct pfl_buf *out);
/* "2026-11-23T14:03:01.500Z"; 0 gives "". */
void pfl_answer_format_start(uint64_t unix_ns, char ret_text[PFL_ANSWER_START_BYTES]);

#endif
