/* SPDX-License-Identifier: Apache-2.0 */
/* The ready questions, embedded from consumer/ask/ready/NAME.sql at build time. */
#ifndef PFL_CONSUMER_READY_QUESTION_H
#define PFL_CONSUMER_READY_QUESTION_H

#include "base/bytes.h"

struct pfl_ready_question {
    const char *name;
    const char *text; /* SQL, not terminated; its first line is a comment that describes it */
    size_t text_len;
};

extern const struct pfl_ready_question pfl_ready_questions[];
extern const size_t pfl_ready_questions_len;

/* NULL when there is none of that name. */
const struct pfl_ready_question *pfl_ready_question_find(const char *name);
/* Its first line, without the comment's sign. */
struct pfl_span pfl_ready_question_get_summary(const struct pfl_ready_question *self);

#endif
