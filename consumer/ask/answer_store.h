/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers in a file of SQLite: the table `answers` with all rows, `traces` with what became of each
 * trace, `question` with what was asked and when. It is PATH.partial until it is complete.
 */
#ifndef PFL_CONSUMER_ANSWER_STORE_H
#define PFL_CONSUMER_ANSWER_STORE_H

#include <stdbool.h>

#include "consumer/ask/answer_format.h"

struct pfl_answer_store;

struct pfl_answer_store_trace {
    const char *trace;
    const char *host;
    const char *start;
    uint64_t rows;
    const char *problem; /* NULL: it is answered */
};

/* Takes the place of a partial file that an earlier run left. PFL_EEXIST: `no_clobber`, and PATH is
 * there; PFL_EIO: errno has the reason; PFL_ENOMEM. */
PFL_MUST_USE int pfl_answer_store_open(const char *path, bool no_clobber, struct pfl_span question,
                                       struct pfl_answer_store **ret_store);
/* Once, before the first row. PFL_EIO, PFL_ENOMEM. */
PFL_MUST_USE int pfl_answer_store_set_columns(struct pfl_answer_store *self,
                                              const struct pfl_answer_columns *columns);
/* PFL_EIO. */
PFL_MUST_USE int pfl_answer_store_add_row(struct pfl_answer_store *self,
                                          const struct pfl_answer_row *row, size_t cells_len);
PFL_MUST_USE int pfl_answer_store_add_trace(struct pfl_answer_store *self,
                                            const struct pfl_answer_store_trace *trace);
/* Why the last call failed; borrowed until the next. */
const char *pfl_answer_store_get_why(const struct pfl_answer_store *self);
/* Where the partial file is. */
const char *pfl_answer_store_get_partial(const struct pfl_answer_store *self);
/* Writes the rest; a whole file takes its path, another stays partial, and one that is not `kept`
 * is removed. Frees. PFL_EIO: it stays partial. NULL is legal. */
int pfl_answer_store_close(struct pfl_answer_store *self, bool is_kept, bool is_whole);

#endif
