/* SPDX-License-Identifier: Apache-2.0 */
/* Finds a ready question by name; the table itself is generated. Nothing here can fail. */
#include "consumer/ask/ready_question.h"

#include <string.h>

#define SIGN_BYTES 3u /* "-- " */

const struct pfl_ready_question *pfl_ready_question_find(const char *name)
{
    for (size_t i = 0; i < pfl_ready_questions_len; i++)
        if (strcmp(pfl_ready_questions[i].name, name) == 0)
            return &pfl_ready_questions[i];
    return NULL;
}

struct pfl_span pfl_ready_question_get_summary(const struct pfl_ready_question *self)
{
    const char *end = memchr(self->text, '\n', self->text_len);
    size_t len = end != NULL ? (size_t)(end - self->text) : self->text_len;

    return len < SIGN_BYTES ? pfl_span_of(self->text, 0)
                            : pfl_span_of(self->text + SIGN_BYTES, len - SIGN_BYTES);
}
