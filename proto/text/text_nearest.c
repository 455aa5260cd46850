/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Edit distance (base/suggest.h) between what was written and each known name. Near enough is a
 * third of the longer one; a name that begins or ends with what was written is near, too. Names
 * longer than NAME_MAX_BYTES are not compared.
 */
#include "proto/text/text_nearest.h"

#include "base/suggest.h"

#define NAME_MAX_BYTES  80u
#define AFFIX_MIN_BYTES 3u
#define AFFIX_DISTANCE  3u

_Static_assert(NAME_MAX_BYTES <= PFL_SUGGEST_MAX, "each name has a distance");

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
    distance = pfl_suggest_distance_spans(self->wanted, known);
    if (is_affix(self->wanted, known) || is_affix(known, self->wanted))
        distance = distance < AFFIX_DISTANCE ? distance : AFFIX_DISTANCE;
    else if (distance >= longer || (distance > 1 && distance * 3 > longer))
        return;
    if (distance < self->distance) {
        self->distance = distance;
        self->name = name;
    }
}
