/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals: see problem.h. Texts are cut at TEXT_MAX bytes, so that head and body always fit. Fails
 * by resetting the stream. No allocation of its own.
 */
#include "proto/h2/problem.h"

#include <stdio.h>

#define TEXT_MAX       240u
#define SENTENCE_FIELD "perfleet-problem"

static void clean(const char *text, char *dst, size_t room)
{
    size_t len = 0;

    for (; text[len] != '\0' && len < room - 1; len++) {
        char c = text[len];

        dst[len] = c < 0x20 || c > 0x7e || c == '"' || c == '\\' ? '?' : c;
    }
    dst[len] = '\0';
}

void pfl_problem_get(const struct pfl_h2_head *head, char *ret_sentence, size_t room)
{
    const char *text_untrusted = pfl_h2_head_get(head, SENTENCE_FIELD);

    clean(text_untrusted != NULL ? text_untrusted : "", ret_sentence, room);
}

void pfl_problem_respond(struct pfl_h2_stream *stream, const struct pfl_problem *problem)
{
    char detail[TEXT_MAX];
    char title[TEXT_MAX];
    char sentence[2 * TEXT_MAX + 4];
    char body[3 * TEXT_MAX];
    struct pfl_h2_field fields[] = {{"content-type", "application/problem+json"},
                                    {SENTENCE_FIELD, sentence}};
    int len;

    clean(problem->detail, detail, sizeof(detail));
    clean(problem->title, title, sizeof(title));
    (void)snprintf(sentence, sizeof(sentence), "%s: %s", title, detail);
    len = snprintf(body, sizeof(body),
                   "{\"status\": %u, \"where\": \"%s\", \"title\": \"%s\", \"detail\": \"%s\"}\n",
                   problem->status, problem->where, title, detail);
    if (pfl_h2_stream_respond_whole(stream, problem->status, fields, 2,
                                    pfl_span_of(body, (size_t)len)) != 0)
        pfl_h2_stream_reset(stream, PFL_H2_INTERNAL_ERROR);
}
