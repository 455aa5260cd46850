/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Producer name patterns over libc's extended regular expressions.
 *
 * Patterns come from operators, so those whose cost libc does not bound are refused before they
 * are compiled: counted repetition ({m,n} multiplies the automaton) and back references (matching
 * becomes exponential). What is left compiles to an automaton linear in the pattern's at most 256
 * bytes. A full match is one that begins at 0 and ends at the end.
 */
#include "service/pattern.h"

#include <regex.h>

#define MAX_TEXT_BYTES 1024u

static bool is_bounded(struct pfl_span p)
{
    if (p.len > PFL_PATTERN_MAX_BYTES || (p.len != 0 && memchr(p.data, 0, p.len) != NULL))
        return false;
    for (size_t i = 0; i < p.len; i++) {
        if (p.data[i] == '{')
            return false;
        if (p.data[i] != '\\')
            continue;
        i++;
        if (i < p.len && p.data[i] >= '0' && p.data[i] <= '9')
            return false;
    }
    return true;
}

static bool compile(struct pfl_span pattern, regex_t *ret_regex)
{
    char text[PFL_PATTERN_MAX_BYTES + 8];
    struct pfl_writer w = pfl_writer_of(text, sizeof(text));

    if (!is_bounded(pattern))
        return false;
    pfl_writer_bytes(&w, "^(", 2);
    pfl_writer_bytes(&w, pattern.data, pattern.len);
    pfl_writer_bytes(&w, ")$", 3); /* with its NUL */
    return !w.failed && regcomp(ret_regex, text, REG_EXTENDED | REG_NOSUB) == 0;
}

bool pfl_pattern_is_valid(struct pfl_span pattern)
{
    regex_t regex;

    if (!compile(pattern, &regex))
        return false;
    regfree(&regex);
    return true;
}

bool pfl_pattern_is_match(struct pfl_span pattern, struct pfl_span text)
{
    char copy[MAX_TEXT_BYTES + 1];
    regex_t regex;
    bool is_match;

    if (text.len > MAX_TEXT_BYTES || !compile(pattern, &regex))
        return false;
    if (text.len != 0)
        memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    is_match = regexec(&regex, copy, 0, NULL, 0) == 0;
    regfree(&regex);
    return is_match;
}
