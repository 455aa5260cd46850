/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regular expressions of configs: producer names and string filters. Perl's syntax, over the
 * characters of UTF-8, or the bytes of a text that is not UTF-8; compiled once, matched with bounds
 * on time and memory.
 */
#ifndef PFL_SERVICE_PATTERN_H
#define PFL_SERVICE_PATTERN_H

#include "base/bytes.h"
#include "base/err.h"

#define PFL_PATTERN_MAX_BYTES 4096u
#define PFL_PATTERN_WHY_BYTES 128u

struct pfl_pattern;

/* What of the work for one match is counted at once: a step, and so many bytes of the text. */
#define PFL_PATTERN_UNIT_BYTES 64u

/* PFL_EPARSE: `ret_why` says what is wrong with it, and where. PFL_ENOMEM. Takes base/mem's memory,
 * here and in free only. */
PFL_MUST_USE int pfl_pattern_new(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                                 char ret_why[PFL_PATTERN_WHY_BYTES]);
/* The same for pfl_pattern_match_within alone, which it makes possible. */
PFL_MUST_USE int pfl_pattern_new_counted(struct pfl_span pattern, struct pfl_pattern **ret_pattern,
                                         char ret_why[PFL_PATTERN_WHY_BYTES]);
void pfl_pattern_free(struct pfl_pattern *self); /* NULL is legal */
/* Bytes that it holds. */
size_t pfl_pattern_get_bytes(const struct pfl_pattern *self);

/* Does the whole text match, or some part of it from `start` on? 0 and the groups are set, or
 * PFL_ENOENT, or PFL_ELIMIT: it would take too much time or memory to know, or the text is not
 * UTF-8 and the pattern has no meaning in bytes. Any thread, one at a time. A search from another
 * place than 0 goes on in the text of the last one, in which only what groups matched may have
 * changed, to ASCII. */
PFL_MUST_USE int pfl_pattern_match(struct pfl_pattern *self, struct pfl_span text);
PFL_MUST_USE int pfl_pattern_search(struct pfl_pattern *self, struct pfl_span text, size_t start);
/* The same with a pattern that counts. `*credit` is what it may cost: it is lowered by what it did
 * cost; to 0, with PFL_ELIMIT, where that is not enough. */
PFL_MUST_USE int pfl_pattern_match_within(struct pfl_pattern *self, struct pfl_span text,
                                          uint64_t *credit);
/* Of the last match: group 0 is the whole. False: it took no part. */
size_t pfl_pattern_count_groups(const struct pfl_pattern *self);
bool pfl_pattern_get_group(const struct pfl_pattern *self, size_t group, size_t *ret_begin,
                           size_t *ret_end);

#endif
