/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours for a report's lines: see paint.h. Happy path: line by line, what is bad is red, what is
 * lost or doubtful yellow, the rest as it is. Failures: the buffer's.
 */
#include "consumer/report/paint.h"

#include <string.h>

struct mark {
    const char *words;
    bool is_anywhere; /* else where the line begins */
    const char *code;
};

static const struct mark marks[] = {
    {": FAILED", true, PFL_PAINT_BAD},      {"  CUT SHORT", false, PFL_PAINT_BAD},
    {"  EMPTY: ", false, PFL_PAINT_BAD},    {"BAD ", false, PFL_PAINT_BAD},
    {"INCOMPLETE: ", false, PFL_PAINT_BAD}, {"  lost: ", false, PFL_PAINT_WARN},
    {"warning ", false, PFL_PAINT_WARN},
};

static const char *code_of(struct pfl_span line)
{
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        size_t len = strlen(marks[i].words);

        if (marks[i].is_anywhere ? memmem(line.data, line.len, marks[i].words, len) != NULL
                                 : line.len >= len && memcmp(line.data, marks[i].words, len) == 0)
            return marks[i].code;
    }
    return NULL;
}

int pfl_paint_lines(struct pfl_span text, struct pfl_buf *out)
{
    int rc = 0;

    while (rc == 0 && text.len != 0) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        struct pfl_span line =
            pfl_span_of(text.data, end != NULL ? (size_t)(end - text.data) : text.len);
        const char *code = code_of(line);

        if (code != NULL)
            rc = pfl_buf_append(out, code, strlen(code));
        if (rc == 0 && line.len != 0)
            rc = pfl_buf_append(out, line.data, line.len);
        if (rc == 0 && code != NULL)
            rc = pfl_buf_append(out, PFL_PAINT_END, strlen(PFL_PAINT_END));
        if (rc == 0 && end != NULL)
            rc = pfl_buf_append(out, "\n", 1);
        text =
            pfl_span_of(text.data + line.len + (end != NULL), text.len - line.len - (end != NULL));
    }
    return rc;
}
