/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suggestions for misspelt words. Happy path: init with the word, offer every right one, get the
 * closest. A candidate is close when a third of the longer word's letters, rounded up, would make
 * one of the other; a candidate that begins with the word (three letters at least) is as close as
 * one letter. No failures. Limits: PFL_SUGGEST_MAX characters a word; three rows of so many numbers
 * on the stack.
 */
#include "base/suggest.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#define PREFIX_MIN 3u

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static int lower_at(struct pfl_span s, unsigned i)
{
    return tolower(s.data[i]);
}

/* Row i of the table, i > 0: `now`; i-1: `last`; i-2: `before`. */
static void fill_row(struct pfl_span a, struct pfl_span b, unsigned i,
                     unsigned rows[3][PFL_SUGGEST_MAX + 1])
{
    unsigned *now = rows[i % 3];
    const unsigned *last = rows[(i + 2) % 3];
    const unsigned *before = rows[(i + 1) % 3];
    int c = lower_at(a, i - 1);

    now[0] = i;
    for (unsigned j = 1; j <= b.len; j++) {
        unsigned cost = c != lower_at(b, j - 1);

        now[j] = least(least(last[j] + 1, now[j - 1] + 1), last[j - 1] + cost);
        if (i > 1 && j > 1 && c == lower_at(b, j - 2) && lower_at(a, i - 2) == lower_at(b, j - 1))
            now[j] = least(now[j], before[j - 2] + 1);
    }
}

/* Optimal string alignment. */
unsigned pfl_suggest_distance_spans(struct pfl_span a, struct pfl_span b)
{
    unsigned rows[3][PFL_SUGGEST_MAX + 1];

    if (a.len > PFL_SUGGEST_MAX || b.len > PFL_SUGGEST_MAX)
        return UINT_MAX;
    for (unsigned j = 0; j <= b.len; j++)
        rows[0][j] = j;
    for (unsigned i = 1; i <= a.len; i++)
        fill_row(a, b, i, rows);
    return rows[a.len % 3][b.len];
}

unsigned pfl_suggest_distance(const char *a, const char *b)
{
    return pfl_suggest_distance_spans(pfl_span_of(a, strlen(a)), pfl_span_of(b, strlen(b)));
}

void pfl_suggest_init(struct pfl_suggest *self, const char *word)
{
    *self = (struct pfl_suggest){.word = word, .distance = UINT_MAX};
}

void pfl_suggest_offer(struct pfl_suggest *self, const char *candidate)
{
    size_t word = strlen(self->word);
    size_t other = strlen(candidate);
    size_t shorter = word < other ? word : other;
    size_t longer = word < other ? other : word;
    unsigned distance = pfl_suggest_distance(self->word, candidate);

    if (distance == UINT_MAX)
        return;
    if (word >= PREFIX_MIN && word < other && strncasecmp(self->word, candidate, word) == 0)
        distance = 1;
    /* With every letter of the shorter word changed nothing is alike. */
    if (distance >= shorter || distance > (longer + 2) / 3 || distance >= self->distance)
        return;
    self->best = candidate;
    self->distance = distance;
}

const char *pfl_suggest_get(const struct pfl_suggest *self)
{
    return self->best;
}
