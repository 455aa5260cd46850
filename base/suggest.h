/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "Did you mean ...?": finds the valid word that is closest to a wrong one. Pure, without
 * allocation; candidates are offered one by one, in any number.
 */
#ifndef PFL_BASE_SUGGEST_H
#define PFL_BASE_SUGGEST_H

#include "base/bytes.h"

#define PFL_SUGGEST_MAX 127u /* characters that are compared; longer words are never close */

struct pfl_suggest {
    const char *word;  /* borrowed */
    const char *best;  /* borrowed from the caller of offer; NULL: none is close */
    unsigned distance; /* of `best`; UINT_MAX without one */
};

void pfl_suggest_init(struct pfl_suggest *self, const char *word);
/* `candidate` must live as long as `self` is used. Of equally close ones the first stays. */
void pfl_suggest_offer(struct pfl_suggest *self, const char *candidate);
/* The closest candidate, or NULL: none is close enough. */
const char *pfl_suggest_get(const struct pfl_suggest *self);

/* Letters to insert, delete, change or swap with their neighbour, without regard to case;
 * UINT_MAX: a word is longer than PFL_SUGGEST_MAX. */
unsigned pfl_suggest_distance(const char *a, const char *b);
unsigned pfl_suggest_distance_spans(struct pfl_span a, struct pfl_span b);

#endif
