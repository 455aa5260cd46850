/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to one trace, as a conversation with a Trace Processor: requests out, replies in. A
 * core: bytes in, bytes and rows out.
 *
 *     load* -> ask -> feed* -> outcome
 *
 * Before the question it can ask what the trace says about itself; that may fail, and does not
 * matter then.
 */
#ifndef PFL_CONSUMER_TRACE_QUESTION_H
#define PFL_CONSUMER_TRACE_QUESTION_H

#include <stdbool.h>

#include "base/buf.h"
#include "consumer/ask/query_cells.h"

/* A reply has a batch of rows of some 128 KiB, or one row that is larger. */
#define PFL_TRACE_QUESTION_REPLY_MAX_BYTES (16u << 20)
/* A byte each, they become far longer lines: Perfetto's Trace Processor sends up to 50,000. */
#define PFL_TRACE_QUESTION_REPLY_MAX_CELLS 131072u
#define PFL_TRACE_QUESTION_WHY_BYTES       2048u
#define PFL_TRACE_QUESTION_ABOUT           2u /* cells */

enum pfl_trace_question_outcome {
    PFL_TRACE_QUESTION_OPEN,       /* no reply yet, or not all of it */
    PFL_TRACE_QUESTION_ANSWERED,   /* all rows are there */
    PFL_TRACE_QUESTION_UNREADABLE, /* the trace */
    PFL_TRACE_QUESTION_REFUSED,    /* the question has an error */
    PFL_TRACE_QUESTION_BROKEN,     /* the other side is no Trace Processor, or not a sane one */
};

struct pfl_trace_question;

struct pfl_trace_question_conf {
    struct pfl_span text; /* SQL, or a summary's spec; borrowed until free */
    bool is_summary;
    bool is_binary; /* the spec, which else is text */
    /* The columns come before the first row, once. A summary is one row of one text. What these
     * return, if not 0, ends the conversation. Spans are borrowed until they return. */
    int (*on_columns)(void *user, const struct pfl_span *names, size_t len);
    int (*on_row)(void *user, const struct pfl_cell *cells, size_t len);
    /* NULL: not asked. The trace's machines, by name and with + between them, as text, and the wall
     * clock at its start in ns, as an integer; either may be NULL. At most once, before any row. */
    void (*on_about)(void *user, const struct pfl_cell cells[PFL_TRACE_QUESTION_ABOUT]);
    void *user;
};

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_trace_question_new(const struct pfl_trace_question_conf *conf,
                                        struct pfl_trace_question **ret_question);
void pfl_trace_question_free(struct pfl_trace_question *self); /* NULL is legal */

/* Appends a request with a piece of the trace. PFL_ENOMEM, PFL_ELIMIT (of `out`). */
PFL_MUST_USE int pfl_trace_question_load(struct pfl_trace_question *self, struct pfl_span data,
                                         struct pfl_buf *out);
/* Appends: the trace is complete; and the question. */
PFL_MUST_USE int pfl_trace_question_ask(struct pfl_trace_question *self, struct pfl_buf *out);
/* Bytes that the other side wrote; those after the outcome are dropped. PFL_ENOMEM, or what a
 * callback returned; what is wrong with the bytes is an outcome. */
PFL_MUST_USE int pfl_trace_question_feed(struct pfl_trace_question *self, struct pfl_span bytes);

enum pfl_trace_question_outcome pfl_trace_question_get(const struct pfl_trace_question *self);
/* Rows came, or could have come: the question as such is well formed. */
bool pfl_trace_question_has_columns(const struct pfl_trace_question *self);
/* Of a failure: the other side's words or ours, not quoted; borrowed. */
const char *pfl_trace_question_get_why(const struct pfl_trace_question *self);

#endif
