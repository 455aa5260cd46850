/* SPDX-License-Identifier: Apache-2.0 */
/* The columns of an answer: host, start and trace, and those of the question, whose names are made
 * distinct. All traces have to give the same. */
#ifndef PFL_CONSUMER_ANSWER_COLUMNS_H
#define PFL_CONSUMER_ANSWER_COLUMNS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

/* In front of the question's. */
#define PFL_ANSWER_COLUMNS_OURS 3u

struct pfl_answer_columns;

/* PFL_ENOMEM. */
PFL_MUST_USE int pfl_answer_columns_new(const struct pfl_span *asked, size_t len,
                                        struct pfl_answer_columns **ret_columns);
void pfl_answer_columns_free(struct pfl_answer_columns *self); /* NULL is legal */

/* Another trace gave the same. */
bool pfl_answer_columns_are(const struct pfl_answer_columns *self, const struct pfl_span *asked,
                            size_t len);
/* With ours. */
size_t pfl_answer_columns_get_len(const struct pfl_answer_columns *self);
/* UTF-8; no two differ in case alone, as SQLite wants it. */
const char *pfl_answer_columns_get_name(const struct pfl_answer_columns *self, size_t index);

#endif
