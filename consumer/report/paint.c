/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Colours for a report's lines: see paint.h. Happy path: line by line, errors are red, losses and
 * warnings yellow, the rest unchanged. Lines for a screen are cut, with or without colours.
 * Failures: the buffer's.
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

/* Of the escape sequence that text begins with (CSI, as above): its length; 0: it is none. */
static size_t measure_escape(struct pfl_span text)
{
    size_t len = 2;

    if (text.len < 3 || text.data[0] != 0x1b || text.data[1] != '[')
        return 0;
    while (len < text.len && (text.data[len] < 0x40 || text.data[len] > 0x7e))
        len++;
    return len < text.len ? len + 1 : 0;
}

int pfl_paint_cut_lines(struct pfl_span text, unsigned width, struct pfl_buf *out)
{
    unsigned column = 0;
    int rc = 0;

    while (rc == 0 && text.len != 0) {
        size_t len = measure_escape(text);
        bool is_kept = len != 0 || text.data[0] == '\n';

        if (!is_kept && (text.data[0] & 0xc0) != 0x80) /* a character's first byte */
            column++;
        if (is_kept || column <= width)
            rc = pfl_buf_append(out, text.data, len != 0 ? len : 1);
        if (text.data[0] == '\n')
            column = 0;
        len = len != 0 ? len : 1;
        text = pfl_span_of(text.data + len, text.len - len);
    }
    return rc;
}
