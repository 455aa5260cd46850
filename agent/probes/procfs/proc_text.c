/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors over the text of /proc and /sys.
 *
 * Happy path: a file is read whole; take_line cuts lines, take_word words, number reads digits.
 * Failure: there is none: missing things are empty or 0.
 */
#include "agent/probes/procfs/proc_text.h"

static void advance(struct pfl_span *span, size_t len)
{
    span->data += len;
    span->len -= len;
}

bool pfl_proc_take_line(struct pfl_span *text, struct pfl_span *ret_line)
{
    const uint8_t *newline;
    size_t len;

    if (text->len == 0)
        return false;
    newline = memchr(text->data, '\n', text->len);
    len = newline != NULL ? (size_t)(newline - text->data) : text->len;
    *ret_line = pfl_span_of(text->data, len);
    advance(text, newline != NULL ? len + 1 : len);
    return true;
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static void skip_blanks(struct pfl_span *line)
{
    while (line->len != 0 && is_blank(line->data[0]))
        advance(line, 1);
}

bool pfl_proc_take_word(struct pfl_span *line, struct pfl_span *ret_word)
{
    size_t len = 0;

    skip_blanks(line);
    while (len < line->len && !is_blank(line->data[len]))
        len++;
    *ret_word = pfl_span_of(line->data, len);
    if (len != 0)
        advance(line, len);
    return len != 0;
}

uint64_t pfl_proc_number(struct pfl_span word)
{
    bool is_negative = word.len != 0 && word.data[0] == '-';
    uint64_t n = 0;

    for (size_t i = is_negative ? 1 : 0; i < word.len; i++) {
        uint8_t c = word.data[i];

        if (c < '0' || c > '9' || n > (UINT64_MAX - 9) / 10)
            break;
        n = n * 10 + (uint64_t)(c - '0');
    }
    return is_negative ? ~n + 1 : n;
}

bool pfl_proc_starts_with(struct pfl_span word, const char *text)
{
    size_t len = strlen(text);

    return word.len >= len && memcmp(word.data, text, len) == 0;
}

struct pfl_span pfl_proc_find(struct pfl_span text, const char *key)
{
    struct pfl_span line;

    while (pfl_proc_take_line(&text, &line)) {
        if (!pfl_proc_starts_with(line, key))
            continue;
        advance(&line, strlen(key));
        skip_blanks(&line);
        return line;
    }
    return pfl_span_of(NULL, 0);
}
