/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edit distance (insertion, deletion, replacement, transposition; letter case counts nothing)
 * between what was written and each known name. Near enough is a third of the longer one; a name
 * that begins or ends with what was written is near, too. Names longer than NAME_MAX_BYTES are
 * not compared.
 */
#include "proto/text/text_nearest.h"

#define NAME_MAX_BYTES  80u
#define AFFIX_MIN_BYTES 3u
#define AFFIX_DISTANCE  3u

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
}

static bool is_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (lower(a[i]) != lower(b[i]))
            return false;
    }
    return true;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;

    return m < c ? m : c;
}

/* Rows of the usual table: `before` two lines up, `above` one line up. */
static unsigned distance_of(struct pfl_span a, struct pfl_span b)
{
    unsigned rows[3][NAME_MAX_BYTES + 1];
    unsigned *before = rows[0];
    unsigned *above = rows[1];
    unsigned *row = rows[2];

    for (unsigned j = 0; j <= b.len; j++)
        above[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        uint8_t c = lower(a.data[i - 1]);
        unsigned *oldest = before;

        row[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            unsigned cost = c != lower(b.data[j - 1]);

            row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + cost);
            if (i > 1 && j > 1 && c == lower(b.data[j - 2]) &&
                lower(a.data[i - 2]) == lower(b.data[j - 1]))
                row[j] = least(row[j], row[j], before[j - 2] + 1);
        }
        before = above;
        above = row;
        row = oldest;
    }
    return above[b.len];
}

static bool is_affix(struct pfl_span part, struct pfl_span whole)
{
    return part.len >= AFFIX_MIN_BYTES && part.len < whole.len &&
           (is_equal(part.data, whole.data, part.len) ||
            is_equal(part.data, whole.data + whole.len - part.len, part.len));
}

void pfl_text_nearest_init(struct pfl_text_nearest *self, struct pfl_span wanted)
{
    *self = (struct pfl_text_nearest){.wanted = wanted, .distance = UINT32_MAX};
}

void pfl_text_nearest_try(struct pfl_text_nearest *self, const char *name)
{
    struct pfl_span known = pfl_span_of(name, strlen(name));
    size_t longer = known.len > self->wanted.len ? known.len : self->wanted.len;
    unsigned distance;

    if (longer == 0 || longer > NAME_MAX_BYTES)
        return;
    distance = distance_of(self->wanted, known);
    if (is_affix(self->wanted, known) || is_affix(known, self->wanted))
        distance = distance < AFFIX_DISTANCE ? distance : AFFIX_DISTANCE;
    else if (distance >= longer || (distance > 1 && distance * 3 > longer))
        return;
    if (distance < self->distance) {
        self->distance = distance;
        self->name = name;
    }
}
